package connectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// servers reaches the hosts of MCP servers over the bus.
type servers struct {
	nc    *nats.Conn
	space subjects.Space
}

// Times of requests to hosts.
const (
	// hostsWithin is how long all hosts of a tenant may take to say what they have;
	// hostsQuiet how long after an answer another one is waited for.
	hostsWithin = 2 * time.Second
	hostsQuiet  = 150 * time.Millisecond
	// hostWithin is how long one host may take to answer.
	hostWithin = 5 * time.Second
	maxHosts   = 256
)

// hosted is a server of one host.
type hosted struct {
	executor string
	subjects.ManagedMCP
}

func message(subject, kind string, trace [3]string, body []byte) *nats.Msg {
	h := nats.Header{subjects.HeaderKind: {kind}}
	for i, name := range [3]string{subjects.HeaderTraceParent, subjects.HeaderTraceState, subjects.HeaderBaggage} {
		if trace[i] != "" {
			h[name] = []string{trace[i]}
		}
	}
	return &nats.Msg{Subject: subject, Data: body, Header: h}
}

// list asks every host of a tenant. How many there are nobody knows, so it ends when
// they have become quiet.
func (s servers) list(ctx context.Context, tenant string, trace [3]string) ([]hosted, error) {
	ctx, cancel := context.WithTimeout(ctx, hostsWithin)
	defer cancel()
	body, err := subjects.Encode(subjects.MCPRequest{Action: subjects.MCPList})
	if err != nil {
		return nil, err
	}
	inbox := s.nc.NewInbox()
	answers := make(chan *nats.Msg, maxHosts)
	sub, err := s.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("asking the hosts of MCP servers: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ask := message(s.space.MCPList(tenant), subjects.KindExec, trace, body)
	ask.Reply = inbox
	if err := s.nc.PublishMsg(ask); err != nil {
		return nil, fmt.Errorf("asking the hosts of MCP servers: %w", err)
	}
	var list []hosted
	seen := map[string]bool{}
	quiet := ctx.Done()
	for {
		select {
		case msg := <-answers:
			if msg.Header.Get("Status") == "503" { // nobody is there
				return nil, nil
			}
			var reply subjects.MCPReply
			if msg.Header.Get(subjects.HeaderKind) == subjects.KindReply && subjects.Decode(msg.Data, &reply) == nil && subjects.ValidToken(reply.Executor) && !seen[reply.Executor] && len(seen) < maxHosts {
				seen[reply.Executor] = true
				for _, m := range reply.Servers {
					list = append(list, hosted{reply.Executor, m})
				}
			}
			pause, done := context.WithTimeout(ctx, hostsQuiet)
			defer done()
			quiet = pause.Done()
		case <-quiet:
			slices.SortStableFunc(list, func(a, b hosted) int { return strings.Compare(a.executor, b.executor) })
			return list, nil
		}
	}
}

// ask wants something of one host. The server is nil when the host has none of that
// name.
func (s servers) ask(ctx context.Context, tenant, executor string, r subjects.MCPRequest, trace [3]string) (*subjects.ManagedMCP, error) {
	ctx, cancel := context.WithTimeout(ctx, hostWithin)
	defer cancel()
	body, err := subjects.Encode(r)
	if err != nil {
		return nil, err
	}
	msg, err := s.nc.RequestMsgWithContext(ctx, message(s.space.MCPManage(tenant, executor), subjects.KindExec, trace, body))
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errors.New("the host of this server is not there any more")
	case err != nil:
		return nil, fmt.Errorf("asking the host of this server: %w", err)
	}
	if e := subjects.ErrorFromReply(msg.Header, msg.Data); e != nil {
		return nil, e
	}
	var reply subjects.MCPReply
	if err := subjects.Decode(msg.Data, &reply); err != nil {
		return nil, fmt.Errorf("the host's answer can not be read: %w", err)
	}
	for i := range reply.Servers {
		if strings.EqualFold(reply.Servers[i].Name, r.Server) {
			return &reply.Servers[i], nil
		}
	}
	return nil, nil
}

// find is the server of that name, one that is configured before one that is only
// offered.
func find(list []hosted, name string) *hosted {
	var best *hosted
	for i := range list {
		if h := &list[i]; strings.EqualFold(h.Name, name) && (best == nil || best.State == subjects.ServerOffered && h.State != subjects.ServerOffered) {
			best = h
		}
	}
	return best
}

// planServers finds the servers that a call is about. What needs the user's word, or
// a host's work, stays pending.
func (m *Manage) planServers(ctx context.Context, c ManageCall, q ManageRequest) ([]target, *subjects.SlotError) {
	list, err := m.servers.list(ctx, c.Tenant, c.Trace)
	if err != nil {
		return nil, &subjects.SlotError{Code: subjects.CodeToolError, Message: err.Error()}
	}
	targets := make([]target, len(q.MCP))
	var missing []string
	for i, name := range q.MCP {
		t := &targets[i]
		*t = target{Name: name, MCP: true, State: subjects.ConnectionFailed, Hopeless: true}
		h := find(list, name)
		switch {
		case h == nil:
			missing = append(missing, name)
			t.Detail = fmt.Sprintf("there is no MCP server %q: neither configured nor in the operator's catalog", name)
			continue
		case q.Action != ActionInstall && h.State == subjects.ServerOffered:
			t.Detail = fmt.Sprintf("%s is in the catalog and not installed: use install first", name)
			continue
		}
		t.Executor, t.State, t.Hopeless = h.executor, subjects.ConnectionPending, false
		if h.State == subjects.StateReady && q.Action != ActionAuthorize {
			if now, err := m.servers.ask(ctx, c.Tenant, h.executor, request(c, subjects.MCPStatus, name), c.Trace); err == nil && now != nil && now.State == subjects.StateReady {
				t.State, t.Tools = subjects.ConnectionConnected, now.Tools
			}
		}
	}
	if len(missing) > 0 {
		if apps, err := m.list(ctx, c.Who); err == nil { // a pointer is a courtesy
			for i := range targets {
				t := &targets[i]
				if slices.Contains(missing, t.Name) && slices.ContainsFunc(apps, func(a App) bool { return FoldConnector(a.Connector) == t.Name }) {
					t.Detail = fmt.Sprintf("%s is a hosted app, no MCP server: use action connect with {\"name\": %q}", t.Name, t.Name)
				}
			}
		}
	}
	return targets, nil
}

// pointersFor says where names belong that the gateway refused and that are MCP
// servers.
func (m *Manage) pointersFor(ctx context.Context, c ManageCall, reply *MintReply) map[string]string {
	var failed []string
	for _, r := range reply.Results {
		if r.Status == accountFailed {
			failed = append(failed, FoldConnector(r.Connector))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	list, err := m.servers.list(ctx, c.Tenant, c.Trace)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range failed {
		if h := find(list, name); h != nil {
			action := ActionEnable
			if h.State == subjects.ServerOffered {
				action = ActionInstall
			}
			out[name] = fmt.Sprintf("%s is an MCP server: use action %s with {\"name\": %q, \"mcp\": true}", name, action, name)
		}
	}
	return out
}

func request(c ManageCall, action subjects.MCPAction, server string) subjects.MCPRequest {
	return subjects.MCPRequest{Action: action, Server: server, User: c.Who.User, Session: c.Session, CallID: c.CallID}
}

// startServer has a host do what the call is about. Doing it again changes nothing.
func (w *watching) startServer(ctx context.Context, index int, t target, action string) news {
	sentNow(w.c)
	s, err := w.m.servers.ask(ctx, w.c.Tenant, t.Executor, request(w.c, subjects.MCPAction(action), t.Name), w.c.Trace)
	return func(o *operation) bool {
		t := &o.Targets[index]
		if o.Phase != open || t.Start != sent || t.Epoch != w.run {
			return false
		}
		t.Start, t.Epoch, t.State, t.Detail = "", "", subjects.ConnectionInitiated, ""
		t.server(s, err)
		return true
	}
}

// lookAtServer reads how a server that is being started stands.
func (w *watching) lookAtServer(ctx context.Context, index int, t target) news {
	s, err := w.m.servers.ask(ctx, w.c.Tenant, t.Executor, request(w.c, subjects.MCPStatus, t.Name), w.c.Trace)
	return func(o *operation) bool {
		t := &o.Targets[index]
		return o.Phase == open && t.State == subjects.ConnectionInitiated && t.Start == "" && t.server(s, err)
	}
}

// server takes over what a host said. It reports whether that ended the wait.
func (t *target) server(s *subjects.ManagedMCP, err error) bool {
	switch {
	case err != nil:
		t.State, t.Detail = subjects.ConnectionFailed, oneLine(err.Error(), maxMessageChars)
	case s == nil:
		t.State, t.Detail = subjects.ConnectionFailed, "its host does not know this server any more"
	case s.State == subjects.StateReady:
		t.State, t.Tools, t.Detail = subjects.ConnectionConnected, s.Tools, ""
	case s.State == subjects.StateUnavailable:
		t.State, t.Detail = subjects.ConnectionFailed, oneLine(s.Reason, maxMessageChars)
	case s.State == subjects.ServerDisabled, s.State == subjects.ServerOffered:
		t.State, t.Detail = subjects.ConnectionFailed, "its host did not start it"
	default: // connecting
		return false
	}
	return true
}
