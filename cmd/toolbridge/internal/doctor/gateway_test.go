package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
	"toolbridge/test/gateway/sim"
	"toolbridge/worker"
)

// connected is a deployment with a gateway: worker and doctor have these tokens.
type connected struct {
	server *server.Server
	nc     *nats.Conn
	sim    *sim.Server
	origin string
}

func withGateway(t *testing.T, credentials connectors.Credentials) *connected {
	t.Helper()
	d := &connected{server: bus.Server(t)}
	d.nc = bus.Connect(t, d.server)
	var err error
	if d.sim, err = sim.New(sim.Config{}); err != nil {
		t.Fatal(err)
	}
	if d.origin, err = d.sim.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.sim.Stop)
	st, err := state.Open(t.Context(), d.nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Grants.PutString(t.Context(), subjects.GrantKey("acme", "s1"), `{"user":"ada"}`); err != nil {
		t.Fatal(err)
	}
	g, err := connectors.New(connectors.Config{
		Client: connectors.ClientConfig{URL: d.origin, Credentials: credentials}, NoGuests: true,
		Breaker: connectors.BreakerConfig{Threshold: 1, Cooldown: time.Minute},
	}, d.nc, st)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{Gateway: g}, d.nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = w.Stop(ctx)
		_ = g.Stop(ctx)
	})
	return d
}

// look is what the gateway's checks find.
func (d *connected) look(t *testing.T, credentials connectors.Credentials) map[string]Finding {
	t.Helper()
	p := &Patient{Conn: d.nc, Tenant: "acme", Session: "s1", Wait: time.Second}
	found := map[string]Finding{}
	for _, f := range p.Gateway(t.Context(), Gateway{Client: connectors.ClientConfig{URL: d.origin, Credentials: credentials}, TokenFrom: "token from the test"}) {
		found[f.Check] = f
		if f.Status != OK && f.Advice == "" {
			t.Errorf("%s: nothing is said about what to do: %s", f.Check, f.Detail)
		}
	}
	return found
}

func TestAGatewayThatWorksHasNothingWrong(t *testing.T) {
	d := withGateway(t, connectors.Shared("ada-token"))
	found := d.look(t, connectors.Shared("ada-token"))
	want(t, found, gatewayCheck, OK, "answered in")
	want(t, found, identityCheck, OK, "user ada (token from the test): 7 apps, 5 of them connected")
	want(t, found, "breaker", OK, "closed")
	want(t, found, "hosted tools", OK, "session s1")
}

func TestWhatIsWrongWithTheGatewayIsFound(t *testing.T) {
	const good = connectors.Shared("ada-token")
	for name, c := range map[string]struct {
		fault  sim.Fault
		token  connectors.Credentials
		check  string
		status Status
		detail string
	}{
		"a token that is refused":  {token: connectors.Shared("old"), check: identityCheck, status: Failed, detail: "refuses the token of user ada"},
		"no token":                 {token: connectors.Chain{}, check: identityCheck, status: Warning, detail: "no token here for user ada"},
		"there without a token":    {token: connectors.Chain{}, check: gatewayCheck, status: OK, detail: "answers"},
		"not entitled":             {fault: sim.Fault{Kind: sim.Forbidden, Count: -1}, token: good, check: identityCheck, status: Failed, detail: "HTTP 403"},
		"not open to this account": {fault: sim.Fault{Kind: sim.Dark, Count: -1}, token: good, check: identityCheck, status: Failed, detail: "HTTP 404"},
		"an outage":                {fault: sim.Fault{Kind: sim.Status, Count: -1}, token: good, check: gatewayCheck, status: Failed, detail: "HTTP 503"},
		"an outage, without token": {fault: sim.Fault{Kind: sim.Status, Count: -1}, token: connectors.Chain{}, check: gatewayCheck, status: Failed, detail: "can not be reached"},
		"broken connections":       {fault: sim.Fault{Kind: sim.Reset, Count: -1}, token: good, check: gatewayCheck, status: Failed, detail: "can not be reached"},
		"silence":                  {fault: sim.Fault{Kind: sim.Hang, Count: -1}, token: good, check: gatewayCheck, status: Failed, detail: "can not be reached"},
		"something else there":     {fault: sim.Fault{Kind: sim.Garbage, Count: -1}, token: good, check: gatewayCheck, status: Failed, detail: "does not answer as a gateway"},
		"too many requests":        {fault: sim.Fault{Kind: sim.RateLimited, Count: -1}, token: good, check: gatewayCheck, status: Warning, detail: ""},
		"workers that can not":     {fault: sim.Fault{Kind: sim.Status, Route: "search", Count: -1}, token: good, check: "hosted tools", status: Failed, detail: "unreachable"},
		"workers' token refused":   {fault: sim.Fault{Kind: sim.Unauthorized, Route: "search", Count: -1}, token: good, check: "hosted tools", status: Failed, detail: "token for the user"},
	} {
		t.Run(name, func(t *testing.T) {
			d := withGateway(t, good)
			if c.fault.Kind != "" {
				if err := d.sim.Inject(c.fault); err != nil {
					t.Fatal(err)
				}
			}
			want(t, d.look(t, c.token), c.check, c.status, c.detail)
		})
	}
}

func TestAnOpenBreakerIsSaid(t *testing.T) {
	const good = connectors.Shared("ada-token")
	d := withGateway(t, good)
	if err := d.sim.Inject(sim.Fault{Kind: sim.Status, Route: "search", Count: -1}); err != nil {
		t.Fatal(err)
	}
	d.look(t, good) // a search fails
	js, err := jetstream.New(d.nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), subjects.BucketBreakers)
	if err != nil {
		t.Fatal(err)
	}
	w, err := kv.Watch(t.Context(), "*.acme")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop() }()
	for written := false; !written; {
		select {
		case e := <-w.Updates():
			written = e != nil
		case <-time.After(10 * time.Second):
			t.Fatal("the fleet is not told of the breaker")
		}
	}
	want(t, d.look(t, good), "breaker", Warning, "open since")
}

// Without a worker that has a gateway, that is what is wrong.
func TestWorkersWithoutTheGatewayAreSaid(t *testing.T) {
	s := bus.Server(t)
	works(t, s)
	p := &Patient{Conn: bus.Connect(t, s), Tenant: "acme", Session: "s1", Wait: time.Second}
	found := map[string]Finding{}
	for _, f := range p.Gateway(t.Context(), Gateway{Client: connectors.ClientConfig{URL: "http://127.0.0.1:1", Credentials: connectors.Shared("x")}}) {
		found[f.Check] = f
	}
	want(t, found, gatewayCheck, Failed, "can not be reached")
	want(t, found, "breaker", Warning, "no worker has had a gateway")
}
