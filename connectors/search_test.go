package connectors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"toolbridge/subjects"
)

// scripted is a gateway in place of the network. answer gets the n-th request, from
// 0 on; a nil response never comes.
type scripted struct {
	answer func(r *http.Request, body string, n int) *http.Response

	mu     sync.Mutex
	bodies []string
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	s.mu.Lock()
	n := len(s.bodies)
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	if resp := s.answer(r, body, n); resp != nil {
		return resp, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (s *scripted) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// found is an answer with one tool for each of n queries.
func found(n int) string {
	groups := strings.TrimSuffix(strings.Repeat(`{"index":0,"tools":["GMAIL_SEND_EMAIL"]},`, n), ",")
	return `{"results":[` + groups + `],"schemas":{"GMAIL_SEND_EMAIL":{"connector":"gmail","tool":"GMAIL_SEND_EMAIL","description":"Send an email"}}}`
}

type credentials func(who Who) (Credential, error)

func (c credentials) Token(_ context.Context, who Who) (Credential, error) { return c(who) }

func signedIn(Who) (Credential, error) { return Credential{Token: "secret", ManagedTools: true}, nil }

func directoryOn(t *testing.T, s *scripted, cfg DirectoryConfig, more ...func(*Config)) *Directory {
	t.Helper()
	c := Config{Client: ClientConfig{
		URL: "http://gateway.test", Proxy: "direct", Credentials: credentials(signedIn),
		Transport: func(http.RoundTripper) http.RoundTripper { return s },
	}, Breaker: BreakerConfig{Threshold: 3}, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range more {
		f(&c)
	}
	g, err := New(c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := NewDirectory(cfg, g)
	t.Cleanup(func() {
		d.Stop()
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

var (
	ann = Who{Tenant: "t", User: "ann"}
	bob = Who{Tenant: "t", User: "bob"}
	eve = Who{Tenant: "u", User: "ann"}
)

func (d *Directory) now(t *testing.T, who Who, queries ...string) *Found {
	t.Helper()
	a := d.Search(t.Context(), who, queries)
	defer a.Leave()
	return a.Wait(t.Context())
}

func TestIdenticalSearchesInFlightAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &scripted{answer: func(*http.Request, string, int) *http.Response { <-release; return reply(200, found(1)) }}
		d := directoryOn(t, s, DirectoryConfig{})
		var all []*Asked
		for range 50 {
			all = append(all, d.Search(t.Context(), ann, []string{"send mail"}))
		}
		all = append(all, d.Search(t.Context(), bob, []string{"send mail"}), d.Search(t.Context(), eve, []string{"send mail"}),
			d.Search(t.Context(), ann, []string{"send", "mail"}), d.Search(t.Context(), ann, []string{"mail send"}))
		synctest.Wait()
		if n := len(s.requests()); n != 5 {
			t.Fatalf("%d requests, want 5: %v", n, s.requests())
		}
		all[0].Leave() // one that goes away ends nothing for the others
		all[0].Leave()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if f := all[1].Wait(gone); f.Notice == nil {
			t.Errorf("who waits no more has %+v", f)
		}
		close(release)
		for _, a := range all[2:] {
			if f := a.Wait(t.Context()); f.Notice != nil || len(f.Groups) == 0 || len(f.Groups[0]) != 1 {
				t.Errorf("found %+v", f)
			}
			a.Leave()
		}
	})
}

func TestAnswersAreKeptBrieflyPerTenantAndUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(*http.Request, string, int) *http.Response { return reply(200, found(1)) }}
		d := directoryOn(t, s, DirectoryConfig{Keep: 10 * time.Second})
		ask := func(who Who, want int) {
			t.Helper()
			if f := d.now(t, who, "send mail"); f.Notice != nil || len(f.Groups[0]) != 1 {
				t.Errorf("found %+v", f)
			}
			if n := len(s.requests()); n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
		}
		ask(ann, 1)
		ask(ann, 1)
		ask(bob, 2)
		ask(eve, 3)
		time.Sleep(9 * time.Second)
		ask(ann, 3)
		time.Sleep(2 * time.Second)
		ask(ann, 4)
	})
}

// Searches under way are bounded; what is beyond is answered without the gateway.
func TestSearchesUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(*http.Request, string, int) *http.Response { return nil }}
		d := directoryOn(t, s, DirectoryConfig{})
		for i := range maxSearches {
			d.Search(t.Context(), ann, []string{fmt.Sprint(i)}).Leave()
		}
		a := d.Search(t.Context(), ann, []string{"one more"})
		if f, ok := a.Known(); !ok || f.Notice == nil {
			t.Errorf("found %+v", f)
		}
		a.Leave()
		synctest.Wait()
		if n := len(s.requests()); n != maxSearches {
			t.Errorf("%d requests", n)
		}
		time.Sleep(9 * time.Second)
		d.mu.Lock()
		n := len(d.flights)
		d.mu.Unlock()
		if n != 0 {
			t.Errorf("%d searches under way 9 s later", n)
		}
	})
}

// What is left out for another of the same name is told in the log.
func TestTwinsAreToldInTheLog(t *testing.T) {
	var log bytes.Buffer
	s := &scripted{answer: func(*http.Request, string, int) *http.Response {
		return reply(200, `{"results":[{"tools":["SEND","GMAIL_SEND"]}],"schemas":{"SEND":{"connector":"gmail"},"GMAIL_SEND":{"connector":"gmail"}}}`)
	}}
	d := directoryOn(t, s, DirectoryConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if f := d.now(t, ann, "q"); len(f.Groups[0]) != 1 {
		t.Errorf("%+v", f)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "SEND") || strings.Contains(text, "secret") {
		t.Errorf("log: %s", text)
	}
}

func TestFailuresAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(_ *http.Request, _ string, n int) *http.Response {
			if n == 0 {
				return reply(500, "")
			}
			return reply(200, found(1))
		}}
		d := directoryOn(t, s, DirectoryConfig{})
		if f := d.now(t, ann, "q"); f.Notice == nil {
			t.Errorf("%+v", f)
		}
		if f := d.now(t, ann, "q"); f.Notice != nil || len(s.requests()) != 2 {
			t.Errorf("%+v", f)
		}
	})
}

func TestKeptAnswersAreBounded(t *testing.T) {
	c := newAnswers(time.Minute, 10_000)
	now := time.Now()
	for i := range 1000 {
		c.put(fmt.Sprint(i%100), &Found{}, now)
	}
	if n := len(c.byKey); n == 0 || n > 40 || n != c.order.Len() || c.weight > 10_000 {
		t.Errorf("%d answers, %d in order, weight %d", n, c.order.Len(), c.weight)
	}
	if _, ok := c.get("99", now); !ok {
		t.Error("the newest is gone")
	}
	c.put("late", &Found{}, now.Add(2*time.Minute))
	if len(c.byKey) != 1 {
		t.Errorf("%d answers after their time", len(c.byKey))
	}
	c.put(strings.Repeat("k", 10_000), &Found{}, now.Add(2*time.Minute))
	if len(c.byKey) != 1 {
		t.Error("an answer that is too heavy was kept, or cost the others")
	}
}

// A search that nobody waits for goes on for a while, so that its answer is there
// for the next one; a gateway that stays silent keeps nothing alive for longer, and
// counts as one that timed out.
func TestAnAbandonedSearchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 10) // how long each silent request was held
		s := &scripted{}
		s.answer = func(r *http.Request, _ string, n int) *http.Response {
			if n == 0 {
				time.Sleep(2 * time.Second)
				return reply(200, found(1))
			}
			begun := time.Now()
			context.AfterFunc(r.Context(), func() { ended <- time.Since(begun) })
			return nil
		}
		d := directoryOn(t, s, DirectoryConfig{})
		short := func(q string) *Found {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a := d.Search(t.Context(), ann, []string{q})
			defer a.Leave()
			return a.Wait(ctx)
		}
		if f := short("slow"); f.Notice == nil || f.Notice.Reason != "unreachable" {
			t.Errorf("%+v", f)
		}
		time.Sleep(3 * time.Second)
		if f := short("slow"); f.Notice != nil || len(s.requests()) != 1 {
			t.Errorf("the late answer was not kept: %+v", f.Notice)
		}
		// Somebody who comes in time keeps the search going.
		a := d.Search(t.Context(), ann, []string{"silent"})
		a.Leave()
		time.Sleep(5 * time.Second)
		a = d.Search(t.Context(), ann, []string{"silent"})
		time.Sleep(5 * time.Second)
		if n := len(s.requests()); n != 2 {
			t.Fatalf("%d requests", n)
		}
		a.Leave()
		if took := <-ended; took != 18*time.Second {
			t.Errorf("ended after %s", took)
		}
		synctest.Wait()
		for _, q := range []string{"2", "3"} {
			if f := short(q); f.Notice == nil {
				t.Errorf("%+v", f)
			}
			time.Sleep(9 * time.Second)
		}
		if state, _ := d.gateway.Breakers.State("t"); state != StateOpen {
			t.Errorf("the breaker is %s after %d silent searches", state, len(s.requests())-1)
		}
	})
}

// With the breaker open nothing is sent, and the answer is there at once.
func TestAnOpenBreakerMakesSearchLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(*http.Request, string, int) *http.Response { return reply(503, "") }}
		d := directoryOn(t, s, DirectoryConfig{})
		for i := range 10 {
			f := d.now(t, ann, fmt.Sprint(i))
			if f.Notice == nil || f.Notice.Status != "unavailable" || f.Notice.Reason != "unreachable" {
				t.Errorf("notice %+v", f.Notice)
			}
		}
		if n := len(s.requests()); n != 3 {
			t.Errorf("%d requests with a threshold of 3", n)
		}
		if tools, n := d.Describe(t.Context(), ann, []string{"connectors__gmail__SEND_EMAIL"}, all); n == nil || n.Reason != "unreachable" || len(tools) > 0 {
			t.Errorf("describe: %v, %+v", tools, n)
		}
		a := d.Search(t.Context(), ann, []string{"new"})
		if _, ok := a.Known(); !ok {
			t.Error("an open breaker lets a search wait")
		}
		a.Leave()
		if f := d.now(t, eve, "q"); f.Notice == nil || len(s.requests()) != 4 {
			t.Error("another tenant's breaker is open too")
		}
	})
}

func all(string) bool { return true }

// K01: not available to this account, not set up, and unreachable are told apart;
// K06: a refused sign-in is a state of its own, and its token is not sent again.
func TestK01K06ANoticeSaysWhyHostedToolsAreMissing(t *testing.T) {
	none := credentials(func(Who) (Credential, error) { return Credential{}, ErrNoIdentity })
	lost := credentials(func(Who) (Credential, error) { return Credential{}, errors.New("no such file") })
	const coded = `{"error":{"code":"%s","message":"x"}}`
	for _, c := range []struct {
		name        string
		credentials credentials
		http        int    // status that the gateway answers with; 0: it says nothing
		body        string // of that answer
		status      string // "": silent
		reason      string
		searches    int // requests of a search
		describes   int
	}{
		{"401", signedIn, 401, `{"error":{"code":"UNAUTHORIZED"}}`, "unavailable", "sign_in_expired", 1, 1},
		{"401 without a body", signedIn, 401, ``, "unavailable", "sign_in_expired", 1, 1},
		{"403 with an expired token", signedIn, 403, fmt.Sprintf(coded, "TOKEN_EXPIRED"), "unavailable", "sign_in_expired", 1, 1},
		{"403 with an invalid token", signedIn, 403, fmt.Sprintf(coded, "INVALID_TOKEN"), "unavailable", "sign_in_expired", 1, 1},
		{"400 with UNAUTHORIZED", signedIn, 400, fmt.Sprintf(coded, "UNAUTHORIZED"), "unavailable", "sign_in_expired", 1, 1},
		{"403", signedIn, 403, fmt.Sprintf(coded, "FORBIDDEN"), "", "", 1, 1},
		{"404", signedIn, 404, fmt.Sprintf(coded, "NOT_FOUND"), "", "", 1, 1},
		{"409", signedIn, 409, ``, "unavailable", "unreachable", 1, 1},
		{"429", signedIn, 429, `{"code":"RATE"}`, "unavailable", "unreachable", 1, 1},
		{"500", signedIn, 500, `{}`, "unavailable", "unreachable", 1, 2},
		{"502 with HTML", signedIn, 502, `<html>`, "unavailable", "unreachable", 1, 2},
		{"a redirect", signedIn, 302, ``, "unavailable", "unreachable", 1, 1},
		{"HTML", signedIn, 200, `<html>`, "unavailable", "unreachable", 1, 1},
		{"another shape", signedIn, 200, `{"results":"x","schemas":[]}`, "unavailable", "unreachable", 1, 1},
		{"half an answer", signedIn, 200, `{"results":[{"index":0`, "unavailable", "unreachable", 1, 1},
		{"a huge answer", signedIn, 200, strings.Repeat(" ", 9<<20), "unavailable", "unreachable", 1, 1},
		{"silence", signedIn, 0, ``, "unavailable", "unreachable", 1, 2},
		{"no identity yet", none, 200, `{}`, "not_set_up", "", 0, 0},
		{"no token to be had", lost, 200, `{}`, "unavailable", "sign_in_expired", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{answer: func(*http.Request, string, int) *http.Response {
					if c.http == 0 {
						return nil
					}
					return reply(c.http, c.body)
				}}
				d := directoryOn(t, s, DirectoryConfig{}, func(cfg *Config) { cfg.Client.Credentials = c.credentials })
				check := func(what string, n *subjects.ConnectorsNotice, names []string, requests int) {
					t.Helper()
					var want *subjects.ConnectorsNotice
					if c.status != "" {
						want = &subjects.ConnectorsNotice{Status: c.status, Reason: c.reason, Names: names}
						if n != nil && n.Hint == "" {
							t.Errorf("%s: no hint", what)
						}
						if n != nil && (c.reason == "sign_in_expired") != strings.Contains(n.Hint, "sign in again") {
							t.Errorf("%s: hint %q", what, n.Hint)
						}
						if n != nil {
							want.Hint = n.Hint
						}
					}
					if diff := cmp.Diff(want, n); diff != "" {
						t.Errorf("%s: %s", what, diff)
					}
					if got := len(s.requests()); got != requests {
						t.Errorf("%s: %d requests, want %d", what, got, requests)
					}
				}
				f := d.now(t, ann, "gmail send")
				check("search", f.Notice, nil, c.searches)
				if len(f.Groups) > 0 {
					t.Errorf("groups %v", f.Groups)
				}
				const name = "connectors__gmail__SEND_EMAIL"
				tools, n := d.Describe(t.Context(), ann, []string{name, "connectors__gmail"}, all)
				check("describe", n, []string{name}, c.searches+c.describes)
				if len(tools) > 0 {
					t.Errorf("tools %v", tools)
				}
			})
		})
	}
}

// Before an identity exists the hint tells of the last attempt to create one.
func TestANoticeTellsOfTheLastAttempt(t *testing.T) {
	s := &scripted{answer: func(*http.Request, string, int) *http.Response { return reply(200, `{}`) }}
	d := directoryOn(t, s, DirectoryConfig{}, func(cfg *Config) {
		cfg.Client.Credentials = credentials(func(Who) (Credential, error) {
			return Credential{}, &noIdentity{&GuestFailure{Code: "RATE_LIMITED", Message: "too many\nguests"}}
		})
	})
	f := d.now(t, ann, "q")
	if f.Notice == nil || f.Notice.Status != "not_set_up" || !strings.Contains(f.Notice.Hint, "too many guests") || len(s.requests()) > 0 {
		t.Errorf("%+v", f.Notice)
	}
}

func TestAnUnstartedNetworkIsUnreachable(t *testing.T) {
	g, err := New(Config{Client: ClientConfig{URL: "http://127.0.0.1:1", Proxy: "direct", Credentials: credentials(signedIn)}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDirectory(DirectoryConfig{Logger: slog.New(slog.DiscardHandler)}, g)
	defer d.Stop()
	if f := d.now(t, ann, "q"); f.Notice == nil || f.Notice.Reason != "unreachable" {
		t.Errorf("%+v", f)
	}
}

func TestStopEndsSearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answer: func(*http.Request, string, int) *http.Response { return nil }}
		d := directoryOn(t, s, DirectoryConfig{})
		a := d.Search(t.Context(), ann, []string{"q"})
		synctest.Wait()
		d.Stop()
		if f := a.Wait(t.Context()); f.Notice == nil {
			t.Errorf("%+v", f)
		}
		a.Leave()
		if f := d.now(t, ann, "q"); f.Notice == nil || len(s.requests()) != 1 {
			t.Errorf("a stopped directory asks: %+v", f)
		}
		d.Stop()
	})
}

func TestDescribeAsksForBothSpellingsOnce(t *testing.T) {
	const sendEmail = `"GMAIL_SEND_EMAIL":{"connector":"gmail","description":"pre","inputSchema":{"type":"object"}}`
	for _, c := range []struct {
		name   string
		names  []string
		deny   []string
		answer string
		asked  string // "": no request
		tools  map[string]string
	}{
		{
			name: "the prefixed one wins", names: []string{"connectors__gmail__SEND_EMAIL"}, answer: `{"schemas":{"SEND_EMAIL":{"connector":"gmail","description":"lit"},` + sendEmail + `}}`,
			asked: `["GMAIL_SEND_EMAIL","SEND_EMAIL"]`, tools: map[string]string{"connectors__gmail__SEND_EMAIL": "pre"},
		},
		{
			name: "the literal one where there is no other", names: []string{"connectors__gmail__SEND_EMAIL"}, answer: `{"schemas":{"SEND_EMAIL":{"connector":"gmail","description":"lit"}}}`,
			asked: `["GMAIL_SEND_EMAIL","SEND_EMAIL"]`, tools: map[string]string{"connectors__gmail__SEND_EMAIL": "lit"},
		},
		{
			name: "candidates are de-duplicated in order", names: []string{"connectors__x__X_POST", "connectors__x__POST"}, answer: `{"schemas":{"X_POST":{"connector":"x","description":"p"}}}`,
			asked: `["X_X_POST","X_POST","POST"]`, tools: map[string]string{"connectors__x__X_POST": "p", "connectors__x__POST": "p"},
		},
		{
			name: "the connector's case is folded", names: []string{"connectors__GMail__SEND_EMAIL"}, answer: `{"schemas":{` + sendEmail + `}}`,
			asked: `["GMAIL_SEND_EMAIL","SEND_EMAIL"]`, tools: map[string]string{"connectors__GMail__SEND_EMAIL": "pre"},
		},
		{
			name: "malformed names are skipped", names: []string{"connectors__gmail", "connectors____X", "connectors__a\nb__X", "connectors__gmail__SEND_EMAIL"}, answer: `{"schemas":{` + sendEmail + `}}`,
			asked: `["GMAIL_SEND_EMAIL","SEND_EMAIL"]`, tools: map[string]string{"connectors__gmail__SEND_EMAIL": "pre"},
		},
		{name: "only malformed names", names: []string{"connectors__gmail"}},
		{
			name: "another connector's tool is none of this one's", names: []string{"connectors__gmail__SLACK_POST"}, answer: `{"schemas":{"SLACK_POST":{"connector":"slack","description":"s"}}}`,
			asked: `["GMAIL_SLACK_POST","SLACK_POST"]`, tools: map[string]string{},
		},
		{name: "out of scope is not asked", names: []string{"connectors__gmail__SEND_EMAIL"}, deny: []string{"connectors__gmail__SEND_EMAIL"}},
		{
			name: "nor by its literal slug", names: []string{"connectors__gmail__GMAIL_SEND_EMAIL"}, deny: []string{"connectors__gmail__SEND_EMAIL"}, answer: `{}`,
			asked: `["GMAIL_GMAIL_SEND_EMAIL"]`, tools: map[string]string{},
		},
		{name: "nor in another case", names: []string{"connectors__GMAIL__SEND_EMAIL"}, deny: []string{"connectors__gmail__SEND_EMAIL"}},
		{name: "not found", names: []string{"connectors__gmail__GONE"}, answer: `{"schemas":{},"notFound":["GMAIL_GONE","GONE"]}`, asked: `["GMAIL_GONE","GONE"]`, tools: map[string]string{}},
		{
			name: "no description, no schema", names: []string{"connectors__gmail__SEND_EMAIL"}, answer: `{"schemas":{"GMAIL_SEND_EMAIL":{"connector":"gmail"}}}`,
			asked: `["GMAIL_SEND_EMAIL","SEND_EMAIL"]`, tools: map[string]string{"connectors__gmail__SEND_EMAIL": ""},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{answer: func(*http.Request, string, int) *http.Response { return reply(200, c.answer) }}
			d := directoryOn(t, s, DirectoryConfig{})
			tools, notice := d.Describe(t.Context(), ann, c.names, func(name string) bool { return !slices.Contains(c.deny, name) })
			if notice != nil {
				t.Errorf("notice %+v", notice)
			}
			var want []string
			if c.asked != "" {
				want = []string{`{"tools":` + c.asked + `}`}
			}
			if diff := cmp.Diff(want, s.requests()); diff != "" {
				t.Error(diff)
			}
			var got map[string]string
			for name, d := range tools {
				if got == nil {
					got = map[string]string{}
				}
				got[name] = d.Description
			}
			if len(got) != len(c.tools) || len(got) > 0 && !cmp.Equal(c.tools, got) {
				t.Errorf("tools %v, want %v", got, c.tools)
			}
		})
	}
}
