//go:build unix

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/gateway/sim"
)

// gatewayVariable tells the service process where the gateway is; unset: there is
// none.
const gatewayVariable = "TOOLBRIDGE_BENCH_GATEWAY"

// hostedUser is whose accounts are used, and hostedToken its token.
const (
	hostedUser  = "dev"
	hostedToken = "dev-token"
)

// runGateway is the gateway process: the simulator.
func runGateway() error {
	s, err := sim.New(sim.Config{KeepRequests: 1000})
	if err != nil {
		return err
	}
	origin, err := s.Start("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer s.Stop()
	announce(origin)
	return nil
}

// openGateway is the service's way to the gateway. Its breaker stays open for
// longer than a benchmark.
func openGateway(ctx context.Context, nc *nats.Conn, origin string) (*connectors.Gateway, error) {
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{})
	if err != nil {
		return nil, err
	}
	g, err := connectors.New(connectors.Config{
		Client:  connectors.ClientConfig{URL: origin, Credentials: connectors.Shared(hostedToken), Proxy: "direct"},
		Breaker: connectors.BreakerConfig{Threshold: 3, Cooldown: time.Hour},
		DevUser: hostedUser, Logger: slog.New(slog.DiscardHandler),
	}, nc, st)
	if err != nil {
		return nil, err
	}
	return g, g.Start(ctx)
}

// deployHosted is a deployment with a gateway, and the gateway's origin.
func deployHosted(b testing.TB) (d *deployment, origin string) {
	b.Helper()
	origin, _ = start(b, "gateway")
	url, _ := start(b, "server")
	start(b, "service", urlVariable+"="+url, gatewayVariable+"="+origin)
	return &deployment{url}, origin
}

const connectTool = `{"type":"function","function":{"name":"manage_connections","description":"","parameters":{"type":"object"}}}`

// assembleHosted makes the catalog of a session that has connectors.
func assembleHosted(b testing.TB, nc *nats.Conn, session, tools string) string {
	b.Helper()
	var reply struct{ Catalog string }
	body := []byte(`{"tools":` + tools + `,"config":{"enabled":true}}`)
	if err := json.Unmarshal(ask(b, nc, "toolbridge.v1.bench."+session+".assemble", body), &reply); err != nil {
		b.Fatal(err)
	}
	return reply.Catalog
}

// hostedCall calls a hosted tool through the worker.
func hostedCall(nc *nats.Conn, session, ref string) error {
	body := fmt.Appendf(nil, `{"id":%q,"name":"tool_call","arguments":{"calls":[{"name":"connectors__linear__CREATE_ISSUE","arguments":{"title":"A"}}]},"catalog":%q}`,
		nextID("h"), ref)
	m, err := nc.Request("toolbridge.v1.bench."+session+".bridge", body, 60*time.Second)
	if err == nil && !bytes.Contains(m.Data, []byte(`"success_count":1`)) {
		err = fmt.Errorf("the reply is %s", m.Data)
	}
	return err
}

// post is the bare request that such a call stands on.
func post(client *http.Client, origin string) error {
	body := `{"tools":[{"connector":"linear","tool":"LINEAR_CREATE_ISSUE","arguments":{"title":"A"}}]}`
	r, err := http.NewRequest(http.MethodPost, origin+"/"+connectors.RouteExecute, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+hostedToken)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(connectors.HeaderIdempotencyKey, nextID("k"))
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && !bytes.Contains(text, []byte(`"data"`)) {
		err = fmt.Errorf("the gateway's answer is %s", text)
	}
	return err
}

// BenchmarkConnectorCall: the p50 of a call of a hosted tool is to be at most 1 ms
// above that of the bare HTTP request. Beside both stands a call of the session's own
// process, which is stored and journalled in the same way.
func BenchmarkConnectorCall(b *testing.B) {
	d, origin := deployHosted(b)
	nc := d.connect(b)
	execute(b, d.connect(b))
	ref := assembleHosted(b, nc, "calls", `[`+connectTool+`,`+callTools[1:])
	own := &caller{nc: d.connect(b), ref: ref}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	defer client.CloseIdleConnections()
	hosted, bare, local := &figures{}, &figures{}, &figures{}
	kinds := []struct {
		f    *figures
		once func(int) error
	}{
		{hosted, func(int) error { return hostedCall(nc, "calls", ref) }},
		{bare, func(int) error { return post(client, origin) }},
		{local, func(int) error { return own.waits(b.Context()) }},
	}
	const times = 50
	for _, k := range kinds {
		turns(b, nc, &figures{}, 1, times, k.once)
	}
	for i := 0; b.Loop(); i++ {
		for n := range kinds {
			k := kinds[(n+i)%len(kinds)]
			turns(b, nc, k.f, 1, times, k.once)
		}
	}
	hosted.report(b, "hosted")
	bare.report(b, "http")
	local.report(b, "own")
	b.ReportMetric(float64(hosted.at(0.5)-bare.at(0.5))/1e3, "over-http-p50-µs")
	b.ReportMetric(0, "ns/op") // of a round: says nothing
}

// BenchmarkConnectorCalls1000Sessions is 1,000 sessions that call a hosted tool at
// once, through one worker, beside as many bare requests at once.
func BenchmarkConnectorCalls1000Sessions(b *testing.B) {
	const sessions = 1000
	d, origin := deployHosted(b)
	nc := d.connect(b)
	conns := make([]*nats.Conn, 16)
	for i := range conns {
		conns[i] = d.connect(b)
	}
	refs := make([]string, sessions)
	for i := range refs {
		refs[i] = assembleHosted(b, nc, fmt.Sprintf("h%d", i), `[`+connectTool+`]`)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: sessions}}
	defer client.CloseIdleConnections()
	hosted, bare := &figures{}, &figures{}
	call := func(c int) error { return hostedCall(conns[c%len(conns)], fmt.Sprintf("h%d", c), refs[c]) }
	request := func(int) error { return post(client, origin) }
	turns(b, nc, &figures{}, sessions, 1, call)
	turns(b, nc, &figures{}, sessions, 1, request)
	before := usage(b, nc, "bench.heap.service")
	for b.Loop() {
		turns(b, nc, hosted, sessions, 1, call)
		turns(b, nc, bare, sessions, 1, request)
	}
	hosted.report(b, "hosted")
	bare.report(b, "http")
	b.ReportMetric(float64(usage(b, nc, "bench.heap.service")-before)/1e6, "grown-MB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSearchBreakerOpen: with the breaker open the median of a search is to be at
// most 1 ms above that of the same search without connectors.
func BenchmarkSearchBreakerOpen(b *testing.B) {
	d, origin := deployHosted(b)
	nc := d.connect(b)
	tools := generated(500, "")
	off := assembleHosted(b, nc, "off", tools)
	open := assembleHosted(b, nc, "open", `[`+connectTool+`,`+tools[1:])
	control(b, origin+sim.ControlFaults, `{"kind":"status","count":-1}`)
	list := queries()
	search := func(session, ref string) func(int) error {
		var mu sync.Mutex
		n := 0
		return func(int) error {
			mu.Lock()
			n++
			q := list[n%len(list)]
			mu.Unlock()
			body := fmt.Appendf(nil, `{"id":%q,"name":"tool_search","arguments":{"queries":[%q]},"catalog":%q}`, nextID("q"), q, ref)
			m, err := nc.Request("toolbridge.v1.bench."+session+".bridge", body, 60*time.Second)
			if err == nil && m.Header.Get("Nats-Service-Error-Code") != "" {
				err = fmt.Errorf("%s", m.Data)
			}
			return err
		}
	}
	kinds := []struct {
		f    *figures
		once func(int) error
	}{{&figures{}, search("off", off)}, {&figures{}, search("open", open)}}
	const times = 100
	for range 2 { // the breaker opens on the way
		for _, k := range kinds {
			turns(b, nc, &figures{}, 1, times, k.once)
		}
	}
	asked := received(b, origin)
	for i := 0; b.Loop(); i++ {
		for n := range kinds {
			k := kinds[(n+i)%len(kinds)]
			turns(b, nc, k.f, 1, times, k.once)
		}
	}
	if n := received(b, origin) - asked; n != 0 {
		b.Errorf("%d requests were sent while the breaker was open", n)
	}
	kinds[0].f.report(b, "off")
	kinds[1].f.report(b, "open")
	b.ReportMetric(float64(kinds[1].f.at(0.5)-kinds[0].f.at(0.5))/1e3, "over-off-p50-µs")
	b.ReportMetric(0, "ns/op")
}

// control sends something to the simulator's control.
func control(b testing.TB, url, body string) {
	b.Helper()
	res, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		b.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s", url, res.Status)
	}
}

// received is how many requests the gateway has had.
func received(b testing.TB, origin string) int {
	b.Helper()
	res, err := http.Get(origin + sim.ControlRecord)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var r sim.Record
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
		b.Fatal(err)
	}
	return len(r.Requests) + r.Dropped
}
