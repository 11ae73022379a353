package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"toolbridge/subjects"
)

// gather collects the answers to one question until none has come for a while.
func (p *Patient) gather(ctx context.Context, subject string) ([]*nats.Msg, error) {
	ctx, cancel := p.within(ctx)
	defer cancel()
	sub, err := p.Conn.SubscribeSync(p.Conn.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := p.Conn.PublishRequest(subject, sub.Subject, nil); err != nil {
		return nil, err
	}
	var all []*nats.Msg
	for {
		wait, stop := context.WithTimeout(ctx, p.Wait/4)
		m, err := sub.NextMsgWithContext(wait)
		stop()
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return nil, nil
		case err != nil && (len(all) > 0 || errors.Is(err, context.DeadlineExceeded)):
			return all, nil
		case err != nil:
			return nil, err
		}
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return nil, nil
		}
		all = append(all, m)
	}
}

// workers asks the fleet for its statistics.
func (p *Patient) workers(ctx context.Context) []Finding {
	const check = "workers"
	p.forbade()
	answers, err := p.gather(ctx, "$SRV.STATS."+subjects.ServiceName)
	if p.forbade() {
		return []Finding{skipped(check, "ask services for their statistics")}
	}
	if err != nil {
		return []Finding{{check, Failed, err.Error(), ""}}
	}
	versions := map[string]int{}
	requests, failures := 0, 0
	for _, m := range answers {
		var s micro.Stats
		if json.Unmarshal(m.Data, &s) != nil {
			continue
		}
		versions[s.Version]++
		for _, e := range s.Endpoints {
			requests += e.NumRequests
			failures += e.NumErrors
		}
	}
	if len(versions) == 0 {
		return []Finding{{check, Failed, "no worker answers", "Start one: toolbridge worker (or toolbridge dev)."}}
	}
	var running []string
	n := 0
	for v, count := range versions {
		running = append(running, v)
		n += count
	}
	slices.Sort(running)
	list := []Finding{ok(check, "%d running, version %s, %d requests, %d errors", n, strings.Join(running, ", "), requests, failures)}
	if len(running) > 1 {
		list = append(list, Finding{"versions", Warning, "workers of " + strings.Join(running, " and ") + " run side by side", "Finish the upgrade: what the newer store the older may not read."})
	}
	return list
}

// registry looks at the tenant's toolsets and whether their executors answer.
func (p *Patient) registry(ctx context.Context, js jetstream.JetStream) []Finding {
	const check = "toolsets"
	ctx, cancel := context.WithTimeout(ctx, 4*p.Wait)
	defer cancel()
	p.forbade()
	kv, err := js.KeyValue(ctx, subjects.BucketToolsets)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return []Finding{{check, Warning, "there is no registry yet", "Start a worker, then an MCP host (toolbridge mcp host)."}}
	}
	if err != nil {
		if p.forbade() {
			return []Finding{skipped(check, "read the registry")}
		}
		return []Finding{{check, Failed, err.Error(), ""}}
	}
	watch, err := kv.Watch(ctx, p.Tenant+".>", jetstream.IgnoreDeletes())
	if err != nil {
		if p.forbade() {
			return []Finding{skipped(check, "read the registry")}
		}
		return []Finding{{check, Failed, err.Error(), ""}}
	}
	defer func() { _ = watch.Stop() }()
	ready, offered := map[string]bool{}, 0
	var list []Finding
	for done := false; !done; {
		select {
		case e := <-watch.Updates():
			if e == nil {
				done = true
				break
			}
			toolset, f := p.registration(e)
			if f != nil {
				list = append(list, *f)
				continue
			}
			offered++
			ready[toolset] = true
		case <-ctx.Done():
			if p.forbade() {
				return []Finding{skipped(check, "read the registry")}
			}
			return append(list, Finding{check, Failed, "the registry does not answer", ""})
		}
	}
	names := make([]string, 0, len(ready))
	for t := range ready {
		names = append(names, t)
	}
	slices.Sort(names)
	if len(names) == 0 && len(list) == 0 {
		return []Finding{{check, Warning, "tenant " + p.Tenant + " has none", "Start an MCP host for it (toolbridge mcp host --tenant " + p.Tenant + "), unless its sessions bring all their tools."}}
	}
	if len(names) > 0 {
		list = append([]Finding{ok(check, "%s, offered by %d executors", strings.Join(names, ", "), offered)}, list...)
	}
	for _, t := range names {
		list = append(list, p.executor(ctx, t)...)
	}
	return list
}

// registration judges one entry of the registry; nil means that it is ready.
func (p *Patient) registration(e jetstream.KeyValueEntry) (toolset string, f *Finding) {
	parts := strings.Split(e.Key(), ".")
	bad := func(detail, advice string) *Finding {
		return &Finding{"toolset " + toolset, Warning, detail, advice}
	}
	if len(parts) != 3 {
		return "", &Finding{"toolsets", Warning, "the registry holds " + e.Key() + ", which no worker reads", "Remove it, and see who may write there."}
	}
	toolset, err := subjects.DecodeToolset(parts[1])
	if err != nil {
		return parts[1], &Finding{"toolsets", Warning, err.Error(), "Remove it, and see who may write there."}
	}
	var r subjects.Registration
	if err := subjects.Decode(e.Value(), &r); err != nil {
		return toolset, bad("its entry can not be read: "+err.Error(), "Restart its executor.")
	}
	if r.State != "" && r.State != subjects.StateReady {
		reason := r.Reason
		if reason == "" {
			reason = r.State
		}
		return toolset, bad("not available: "+reason, "Look at the log of its executor "+parts[2]+".")
	}
	return toolset, nil
}

// executor sends an execution whose time to start has passed: whoever serves the
// toolset refuses it at once, and nothing runs.
func (p *Patient) executor(ctx context.Context, toolset string) []Finding {
	check := "executor of " + toolset
	ctx, cancel := p.within(ctx)
	defer cancel()
	p.forbade()
	body, err := subjects.Encode(subjects.ExecRequest{
		ExecutionID: "doctor.0", Session: "doctor", Tool: "doctor", DefinitionSHA256: strings.Repeat("0", 64),
		Arguments: json.RawMessage(`{}`), StartBy: time.Now().Add(-time.Hour).UnixMilli(), Deadline: time.Now().Add(-time.Hour).UnixMilli(),
	})
	if err != nil {
		return []Finding{{check, Failed, err.Error(), ""}}
	}
	m := &nats.Msg{Subject: p.Space.ExecRun(p.Tenant, toolset), Data: body, Header: nats.Header{subjects.HeaderKind: {subjects.KindExec}}}
	_, err = p.Conn.RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		return []Finding{ok(check, "it answers")}
	case errors.Is(err, nats.ErrNoResponders):
		return []Finding{{check, Failed, "it is registered, but nobody takes its work", "Its executor may have lost its subscription or its rights: restart it, and see \"toolbridge permissions executor\"."}}
	case p.forbade():
		return []Finding{skipped(check, "send work to executors")}
	}
	return []Finding{{check, Warning, "no answer: " + err.Error(), "Look at its log: it may be overloaded."}}
}
