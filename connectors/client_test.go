package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var ada = Who{Tenant: "acme", User: "ada"}

const adasToken = "tok-ada-0123456789abcdef"

// heard is one request that a test's gateway received.
type heard struct {
	Method, Path, Token, Key, Body string
}

// origin is a gateway that answers as a test says; it keeps what it hears.
type origin struct {
	*httptest.Server
	mu   sync.Mutex
	all  []heard
	then func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1
}

func newOrigin(t testing.TB, then func(n int, w http.ResponseWriter, r *http.Request)) *origin {
	t.Helper()
	o := &origin{then: then}
	o.Server = httptest.NewServer(o)
	t.Cleanup(func() { o.CloseClientConnections(); o.Close() })
	return o
}

// answering is a gateway that gives these answers in turn, the last for ever.
func answering(t testing.TB, replies ...turn) *origin {
	return newOrigin(t, func(n int, w http.ResponseWriter, r *http.Request) { replies[min(n, len(replies))-1].write(w, r) })
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	o.all = append(o.all, heard{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get(HeaderIdempotencyKey), string(body)})
	n := len(o.all)
	o.mu.Unlock()
	o.then(n, w, r)
}

func (o *origin) heard() []heard {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]heard(nil), o.all...)
}

// turn is one answer of a gateway, or one of its faults.
type turn struct {
	status int
	body   string
	header http.Header
	fault  string // reset, hang, truncate, trickle
}

func well(body string) turn { return turn{status: 200, body: body} }

func (a turn) write(w http.ResponseWriter, r *http.Request) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	switch a.fault {
	case "reset":
		panic(http.ErrAbortHandler)
	case "hang":
		<-r.Context().Done()
		return
	case "truncate": // fewer bytes than announced
		w.Header().Set("Content-Length", fmt.Sprint(len(a.body)+10))
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
		panic(http.ErrAbortHandler)
	case "trickle": // a chunk, then nothing
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func newTestClient(t testing.TB, o *origin, change ...func(*ClientConfig)) *Client {
	t.Helper()
	cfg := ClientConfig{URL: o.URL, Credentials: Fixed{ada: adasToken}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

func failureOf(t testing.TB, err error) *Failure {
	t.Helper()
	f, ok := AsFailure(err)
	if !ok {
		t.Fatalf("the error is no Failure: %v", err)
	}
	return f
}

func TestEachRequestHasItsRouteItsBodyAndItsUsersToken(t *testing.T) {
	bearer := "Bearer " + adasToken
	for name, c := range map[string]struct {
		answer string
		do     func(ctx context.Context, c *Client) (any, error)
		want   heard
		got    string
	}{
		"search": {`{"results":[{"index":0,"tools":["A"]}],"schemas":{}}`, func(ctx context.Context, c *Client) (any, error) {
			return c.Search(ctx, ada, SearchRequest{Queries: []UseCase{{"send <mail>"}}})
		}, heard{"POST", "/base/v1/connectors/search", bearer, "", `{"queries":[{"useCase":"send <mail>"}]}`}, `{"results":[{"index":0,"tools":["A"]}],"schemas":{}}`},
		"schemas": {
			`{"schemas":{},"notFound":["B"]}`, func(ctx context.Context, c *Client) (any, error) { return c.Schemas(ctx, ada, []string{"A", "B"}) },
			heard{"POST", "/base/v1/connectors/schemas", bearer, "", `{"tools":["A","B"]}`},
			`{"schemas":{},"notFound":["B"]}`,
		},
		"execute": {`{"results":[{"data":1e2}]}`, func(ctx context.Context, c *Client) (any, error) {
			r, err := c.Execute(ctx, ada, ExecuteRequest{Tools: []ToolCall{{Connector: "gmail", Tool: "T", Arguments: json.RawMessage(`{"n":1.50}`)}}, ReturnTo: "app"}, "k-1")
			return string(r[0].Data), err
		}, heard{"POST", "/base/v1/connectors/execute", bearer, "k-1", `{"tools":[{"connector":"gmail","tool":"T","arguments":{"n":1.50}}],"returnTo":"app"}`}, `"1e2"`},
		"execute without arguments": {`{"results":[{"data":1}]}`, func(ctx context.Context, c *Client) (any, error) {
			r, err := c.Execute(ctx, ada, ExecuteRequest{Tools: []ToolCall{{Connector: "gmail", Tool: "T"}}}, "k-1")
			return string(r[0].Data), err
		}, heard{"POST", "/base/v1/connectors/execute", bearer, "k-1", `{"tools":[{"connector":"gmail","tool":"T","arguments":{}}]}`}, `"1"`},
		"mint": {`{"results":[{"connector":"gmail","status":"initiated","connectUrl":"u"}]}`, func(ctx context.Context, c *Client) (any, error) {
			return c.Mint(ctx, ada, MintRequest{Connectors: []string{"gmail"}})
		}, heard{"POST", "/base/v1/connectors/connections", bearer, "", `{"connectors":["gmail"],"reinitiate":false}`}, `{"results":[{"connector":"gmail","status":"initiated","connectUrl":"u"}]}`},
		"account": {`{"connectionId":"a/b","connector":"gmail","status":"active"}`, func(ctx context.Context, c *Client) (any, error) {
			a, err := c.Account(ctx, ada, "a/b?c")
			return a.Status, err
		}, heard{"GET", "/base/v1/connectors/accounts/a%2Fb%3Fc", bearer, "", ""}, `"active"`},
		"portal list": {`{"accounts":[{"connectionId":"1","alias":"w"},{"alias":"none"}]}`, func(ctx context.Context, c *Client) (any, error) {
			a, err := c.PortalAccounts(ctx, ada)
			return len(a), err
		}, heard{"GET", "/base/api/v1/connectors/accounts", bearer, "", ""}, `1`},
		"portal rename": {`{"connectionId":"1","alias":"home"}`, func(ctx context.Context, c *Client) (any, error) {
			a, err := c.RenameAccount(ctx, ada, "1", "home")
			return *a.Alias, err
		}, heard{"PATCH", "/base/api/v1/connectors/accounts/1", bearer, "", `{"alias":"home"}`}, `"home"`},
		"portal disconnect": {
			``, func(ctx context.Context, c *Client) (any, error) { return nil, c.Disconnect(ctx, ada, "1") },
			heard{"DELETE", "/base/api/v1/connectors/accounts/1", bearer, "", ""},
			`null`,
		},
		"guest": {`{"identity":"g1","token":"guest-token"}`, func(ctx context.Context, c *Client) (any, error) {
			return c.CreateGuest(ctx, GuestRequest{Tenant: "acme", User: "ada"}, "k-2")
		}, heard{"POST", "/base/v1/identity/guest", "", "k-2", `{"tenant":"acme","user":"ada"}`}, `{"identity":"g1","token":"guest-token"}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := answering(t, well(c.answer))
			got, err := c.do(t.Context(), newTestClient(t, o, func(c *ClientConfig) { c.URL += "/base/" }))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]heard{c.want}, o.heard()); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(got)
			if err != nil || string(text) != c.got {
				t.Errorf("the answer is %s, want %s (%v)", text, c.got, err)
			}
		})
	}
}

func TestListReadsPagesUntilTheLastOrACircle(t *testing.T) {
	page := func(items, next string) turn { return well(`{"items":[` + items + `],"nextCursor":` + next + `}`) }
	for name, c := range map[string]struct {
		pages []turn
		apps  int
		sent  int
	}{
		"one":       {[]turn{page(`{"connector":"a"},{"connected":true},7`, "null")}, 1, 1},
		"three":     {[]turn{page(`{"connector":"a"}`, `"2"`), page(`{"connector":"b"}`, `"3"`), page(`{"connector":"c"}`, `""`)}, 3, 3},
		"a circle":  {[]turn{page(`{"connector":"a"}`, `"2"`), page(`{"connector":"b"}`, `"2"`)}, 2, 2},
		"a 5xx":     {[]turn{{status: 500}, page(`{"connector":"a"}`, "null")}, 1, 2},
		"no object": {[]turn{well(`[]`)}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := answering(t, c.pages...)
			apps, err := newTestClient(t, o).List(t.Context(), ada)
			if (err != nil) != (c.apps == 0) || len(apps) != c.apps || len(o.heard()) != c.sent {
				t.Errorf("%d apps, %d requests (%v)", len(apps), len(o.heard()), err)
			}
		})
	}
	t.Run("without an end", func(t *testing.T) {
		o := newOrigin(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"items":[{"connector":"c%d"}],"nextCursor":"%d"}`, n, n)
		})
		apps, err := newTestClient(t, o).List(t.Context(), ada)
		if err != nil || len(apps) != MaxPages {
			t.Errorf("%d apps (%v)", len(apps), err)
		}
		if got := o.heard()[1].Path; got != "/v1/connectors?cursor=1&limit=50" {
			t.Errorf("the second page is %s", got)
		}
	})
}

// methods are the requests of the interface with how often they may be sent.
var methods = map[string]struct {
	do    func(ctx context.Context, c *Client) error
	most  int
	keyed bool
}{
	"search": {func(ctx context.Context, c *Client) error {
		_, err := c.Search(ctx, ada, SearchRequest{Queries: []UseCase{{"q"}}})
		return err
	}, 1, false},
	"schemas": {func(ctx context.Context, c *Client) error { _, err := c.Schemas(ctx, ada, []string{"A"}); return err }, 2, false},
	"execute": {func(ctx context.Context, c *Client) error {
		_, err := c.Execute(ctx, ada, ExecuteRequest{Tools: []ToolCall{{Connector: "g", Tool: "T"}}}, "k-1")
		return err
	}, 2, true},
	"K12 mint": {func(ctx context.Context, c *Client) error {
		_, err := c.Mint(ctx, ada, MintRequest{Connectors: []string{"g"}})
		return err
	}, 1, false},
	"list":    {func(ctx context.Context, c *Client) error { _, err := c.List(ctx, ada); return err }, 2, false},
	"account": {func(ctx context.Context, c *Client) error { _, err := c.Account(ctx, ada, "1"); return err }, 2, false},
	"portal list": {func(ctx context.Context, c *Client) error {
		_, err := c.PortalAccounts(ctx, ada)
		return err
	}, 1, false},
	"portal rename": {func(ctx context.Context, c *Client) error {
		_, err := c.RenameAccount(ctx, ada, "1", "home")
		return err
	}, 1, false},
	"portal disconnect": {func(ctx context.Context, c *Client) error { return c.Disconnect(ctx, ada, "1") }, 1, false},
	"guest": {func(ctx context.Context, c *Client) error {
		_, err := c.CreateGuest(ctx, GuestRequest{Tenant: "t", User: "u"}, "k-2")
		return err
	}, 2, true},
}

func TestRequestsAreRepeatedOnceWhereThatIsAllowedAndWithTheSameKey(t *testing.T) {
	for name, m := range methods {
		for fault, c := range map[string]struct {
			fault turn
			kind  Kind
			most  int // whatever the method; 0: as the method says
		}{
			"500":      {turn{status: 500}, KindServer, 0},
			"503":      {turn{status: 503, body: "<html>"}, KindServer, 0},
			"reset":    {turn{fault: "reset"}, KindTransport, 0},
			"truncate": {turn{status: 200, body: `{"results":[`, fault: "truncate"}, KindTransport, 0},
			"hang":     {turn{fault: "hang"}, KindTimeout, 0},
			"trickle":  {turn{status: 200, body: `{"results":[`, fault: "trickle"}, KindTimeout, 0},
			"400":      {turn{status: 400}, KindRefused, 1},
			"401":      {turn{status: 401}, KindAuth, 1},
			"403":      {turn{status: 403}, KindForbidden, 1},
			"404":      {turn{status: 404}, KindDark, 1},
			"409":      {turn{status: 409}, KindConflict, 1},
			"429":      {turn{status: 429}, KindRateLimited, 1},
			"307":      {turn{status: 307, header: http.Header{"Location": {"/elsewhere"}}}, KindRefused, 1},
			"garbage":  {well("<html>"), KindMalformed, 1},
		} {
			if name == "portal disconnect" && fault == "garbage" {
				continue // its answer says nothing
			}
			t.Run(name+" "+fault, func(t *testing.T) {
				t.Parallel()
				o := answering(t, c.fault)
				short := 150 * time.Millisecond
				client := newTestClient(t, o, func(c *ClientConfig) {
					c.SearchTimeout, c.SchemasTimeout, c.ExecuteTimeout, c.OtherTimeout = short, short, short, short
				})
				f := failureOf(t, m.do(t.Context(), client))
				want := m.most
				if c.most != 0 {
					want = c.most
				}
				got := o.heard()
				if f.Kind != c.kind || len(got) != want || !f.Sent {
					t.Fatalf("%d requests, want %d; %s, want %s; sent %v: %v", len(got), want, f.Kind, c.kind, f.Sent, f)
				}
				for _, h := range got {
					if h != got[0] || (h.Key != "") != m.keyed {
						t.Errorf("the requests differ, or lack their key: %v", got)
					}
				}
			})
		}
	}
}

func TestTheSecondTrysAnswerCounts(t *testing.T) {
	for name, first := range map[string]turn{"502": {status: 502}, "reset": {fault: "reset"}} {
		o := answering(t, first, well(`{"results":[{"data":1}]}`))
		if err := methods["execute"].do(t.Context(), newTestClient(t, o)); err != nil || len(o.heard()) != 2 {
			t.Errorf("%s: %d requests, %v", name, len(o.heard()), err)
		}
	}
	o := answering(t, turn{fault: "reset"}, turn{status: 429, header: http.Header{"Retry-After": {"7"}}})
	f := failureOf(t, methods["execute"].do(t.Context(), newTestClient(t, o)))
	if f.Kind != KindRateLimited || f.RetryAfter != 7*time.Second || !f.Sent {
		t.Errorf("%+v", f)
	}
}

func TestAConnectionThatDiesUnderARequestHidesNoRepetition(t *testing.T) {
	for name, m := range methods {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n > 1 { // on the connection that the first has left open
					panic(http.ErrAbortHandler)
				}
				fmt.Fprint(w, `{"results":[],"items":[],"accounts":[],"connectionId":"1","token":"t"}`)
			})
			c := newTestClient(t, o)
			if err := m.do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			f := failureOf(t, m.do(t.Context(), c))
			// net/http itself repeats a read once, which changes nothing.
			if sent := len(o.heard()) - 1; f.Kind != KindTransport || sent != m.most && o.heard()[1].Method != http.MethodGet {
				t.Errorf("%d requests, want %d (%v)", sent, m.most, f)
			}
		})
	}
}

func TestWithoutATokenNothingIsSent(t *testing.T) {
	broken := errors.New("vault sealed")
	for name, c := range map[string]struct {
		credentials Credentials
		noIdentity  bool
	}{
		"nobody known":   {Fixed{}, true},
		"empty":          {Fixed{ada: ""}, true},
		"not for header": {Fixed{ada: "secret\r\nX-Evil: 1"}, false},
		"can not be had": {credentialsFunc(func(context.Context, Who) (Credential, error) { return Credential{}, broken }), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := answering(t, well("{}"))
			_, err := newTestClient(t, o, func(cfg *ClientConfig) { cfg.Credentials = c.credentials }).Search(t.Context(), ada, SearchRequest{})
			f := failureOf(t, err)
			if f.Kind != KindNoToken || f.Status != 401 || f.Code != "NO_TOKEN" || f.Sent || len(o.heard()) != 0 {
				t.Errorf("%+v, %d requests", f, len(o.heard()))
			}
			if errors.Is(err, ErrNoIdentity) != c.noIdentity {
				t.Errorf("ErrNoIdentity: %v", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the token is told: %v", err)
			}
		})
	}
}

type credentialsFunc func(context.Context, Who) (Credential, error)

func (f credentialsFunc) Token(ctx context.Context, who Who) (Credential, error) { return f(ctx, who) }

func TestK06ARefusedTokenIsNotSentAgain(t *testing.T) {
	o := answering(t, turn{status: 401, body: `{"error":{"code":"TOKEN_EXPIRED","message":"expired"}}`})
	c := newTestClient(t, o)
	for name, m := range methods {
		if name == "guest" {
			continue // has no token
		}
		before := len(o.heard())
		f := failureOf(t, m.do(t.Context(), c))
		if sent := len(o.heard()) - before; f.Kind != KindAuth || f.Code != "TOKEN_EXPIRED" || sent != 1 {
			t.Errorf("%s: %d requests, %v", name, sent, f)
		}
	}
}

func TestSentIsFalseOnlyWhereNothingCanHaveArrived(t *testing.T) {
	o := answering(t, well("{}"))
	c := newTestClient(t, o)
	o.Close()
	f := failureOf(t, methods["execute"].do(t.Context(), c))
	if f.Kind != KindTransport || f.Sent || !strings.Contains(f.Message, "connection refused") {
		t.Errorf("%+v", f)
	}
	o = answering(t, turn{fault: "hang"})
	ctx, cancel := context.WithCancel(t.Context())
	o.then = func(_ int, _ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }
	f = failureOf(t, methods["execute"].do(ctx, newTestClient(t, o)))
	if f.Kind != KindCancelled || !f.Sent || !errors.Is(f, context.Canceled) || len(o.heard()) != 1 {
		t.Errorf("%+v after %d requests", f, len(o.heard()))
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if f = failureOf(t, methods["execute"].do(gone, newTestClient(t, answering(t, well("{}"))))); f.Kind != KindCancelled || f.Sent {
		t.Errorf("%+v", f)
	}
}

func TestTheCallersDeadlineEndsARequest(t *testing.T) {
	o := answering(t, turn{fault: "hang"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f := failureOf(t, methods["execute"].do(ctx, newTestClient(t, o)))
	if f.Kind != KindTimeout || !f.early || !errors.Is(f, context.DeadlineExceeded) || len(o.heard()) != 1 {
		t.Errorf("%+v after %d requests", f, len(o.heard()))
	}
	if verdictOf(f) != saysNothing {
		t.Error("a caller's short deadline counts against the gateway")
	}
}
