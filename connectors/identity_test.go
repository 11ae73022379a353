package connectors

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"toolbridge/subjects"
	"toolbridge/test/bus"
)

// nobody takes the configured identities away.
func nobody(c *Config) { c.Client.Credentials = nil }

func TestTheGuestIdentityIsCreatedOnceByManyWorkers(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]int{}
	guests := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/identity/guest" {
			if r.Header.Get("Authorization") != "Bearer guest-token" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_, _ = w.Write([]byte(`{"items":[],"accounts":[],"nextCursor":null}`))
			return
		}
		mu.Lock()
		keys[r.Header.Get(HeaderIdempotencyKey)]++
		mu.Unlock()
		_, _ = w.Write([]byte(`{"identity":"g1","token":"guest-token"}`))
	}))
	t.Cleanup(guests.Close)
	nc := bus.Connect(t, bus.Server(t))
	r := &routes{Server: guests}
	var all sync.WaitGroup
	var workers []*manageBench
	for range 3 {
		workers = append(workers, benchOn(t, nc, r, ManageConfig{}, nobody))
	}
	if _, err := workers[0].gateway.Credentials.Token(t.Context(), ann); err == nil {
		t.Fatal("there is an identity before anything needed one")
	}
	for n, b := range workers {
		for i := range 4 {
			all.Go(func() {
				c := b.call("c1", subjects.SurfaceCLI, `{}`)
				c.Index = 4*n + i
				if end := b.Execute(t.Context(), c); end.Error != nil {
					t.Errorf("%+v", end.Error)
				}
			})
		}
	}
	all.Wait()
	total := 0
	for _, n := range keys {
		total += n
	}
	if len(keys) != 1 || total != 1 {
		t.Errorf("guests were asked for %d times under %d keys", total, len(keys))
	}
}

func TestAGuestThatIsRefusedForGoodIsNotAskedForAgain(t *testing.T) {
	b := newBench(t, map[string][]routeAnswer{guestRoute: {{Status: 403, Body: json.RawMessage(`{"error":{"code":"refused","message":"No guests from here."}}`)}}}, ManageConfig{}, nobody)
	for i := range 3 {
		c := b.call("c1", subjects.SurfaceCLI, `{}`)
		c.Index = i
		end := b.Execute(t.Context(), c)
		if end.Error == nil || i == 0 && end.Error.Message != "No guests from here." {
			t.Errorf("call %d: %s, %+v", i, end.Response, end.Error)
		}
	}
	if b.identities.Allowed(t.Context(), ann) {
		t.Error("the user may still become a guest")
	}
	if requests, _ := b.routes.seen(); len(requests) != 1 {
		t.Errorf("requests: %v", requests)
	}
}

func TestAGuestThatCouldNotBeCreatedIsTriedAgain(t *testing.T) {
	b := newBench(t, map[string][]routeAnswer{
		guestRoute: {{Status: 429, Body: json.RawMessage(`{"code":"rate_limited","message":"Too many guests.","retryAfterMs":300}`)}, {Body: json.RawMessage(`{"identity":"g","token":"tok"}`)}},
		listRoute:  bodies(`{"items":[],"nextCursor":null}`), portalRoute: bodies(`{"accounts":[]}`),
	}, ManageConfig{}, nobody)
	end := b.Execute(t.Context(), b.call("c1", subjects.SurfaceCLI, `{}`))
	if end.Error == nil || end.Error.Message != "Too many guests." || end.Error.RetryAfterMS == 0 {
		t.Fatalf("got %s, %+v", end.Response, end.Error)
	}
	_, err := b.gateway.Credentials.Token(t.Context(), ann)
	if last, ok := LastFailure(err); !ok || last.Message != "Too many guests." || !b.identities.Allowed(t.Context(), ann) {
		t.Errorf("what is known of the last attempt: %v", err)
	}
	if end = b.Execute(t.Context(), b.call("c2", subjects.SurfaceCLI, `{}`)); end.Error == nil || b.routes.count(guestRoute) != 1 {
		t.Errorf("it was tried again too early: %s", end.Response)
	}
	b.identities.now = func() time.Time { return time.Now().Add(time.Second) } // more than the gateway asked for
	if end = b.Execute(t.Context(), b.call("c3", subjects.SurfaceCLI, `{}`)); end.Error != nil || b.routes.count(guestRoute) != 2 {
		t.Errorf("%+v, %d requests", end.Error, b.routes.count(guestRoute))
	}
}

func TestWithoutGuestsNothingIsCreated(t *testing.T) {
	b := newBench(t, nil, ManageConfig{}, nobody, func(c *Config) { c.NoGuests = true })
	end := b.Execute(t.Context(), b.call("c1", subjects.SurfaceCLI, `{}`))
	if requests, _ := b.routes.seen(); end.Error == nil || len(requests) != 0 {
		t.Errorf("got %s, requests %v", end.Response, requests)
	}
}

func TestAWorkerThatIsLostWhileItCreatesAGuestIsReplaced(t *testing.T) {
	b := newBench(t, map[string][]routeAnswer{guestRoute: bodies(`{"identity":"g","token":"tok"}`)}, ManageConfig{}, nobody)
	if _, err := b.identities.write(t.Context(), ann, identity{State: identityCreating, Owner: "lost", Until: time.Now().Add(300 * time.Millisecond).UnixMilli()}, 0); err != nil {
		t.Fatal(err)
	}
	cred, err := b.identities.Create(t.Context(), ann)
	if err != nil || cred.Token != "tok" || !cred.Guest {
		t.Errorf("%+v, %v", cred, err)
	}
}
