package connectors

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func execute(ctx context.Context, c *Client) ([]Result, error) {
	return c.Execute(ctx, ada, ExecuteRequest{Tools: []ToolCall{{Connector: "gmail", Tool: "T"}}}, "k-1")
}

func TestAnswersAreBoundedInSizeAlsoWhenTheyUnpack(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	_ = z.Close()
	for name, then := range map[string]turn{
		"long":      well(`{"results":["` + strings.Repeat("x", 2<<20) + `"]}`),
		"gzip bomb": {status: 200, body: bomb.String(), header: http.Header{"Content-Encoding": {"gzip"}}},
	} {
		o := answering(t, then)
		_, err := execute(t.Context(), newTestClient(t, o, func(c *ClientConfig) { c.MaxAnswer = 1 << 20 }))
		f := failureOf(t, err)
		if f.Kind != KindTooLarge || !f.Sent || f.Status != 200 || len(o.heard()) != 1 {
			t.Errorf("%s: %+v after %d requests", name, f, len(o.heard()))
		}
		if verdictOf(f) != saysUp {
			t.Errorf("%s counts against the gateway", name)
		}
	}
	o := answering(t, turn{status: 500, body: strings.Repeat("x", 4<<20)})
	if _, err := execute(t.Context(), newTestClient(t, o)); failureOf(t, err).Kind != KindServer {
		t.Errorf("a long refusal: %v", err)
	}
}

func TestAnAnswerOfOddBytesIsRead(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"byte order mark":  {"\xEF\xBB\xBF" + `{"results":[{"data":1}]}`, "1"},
		"invalid UTF-8":    {"{\"results\":[{\"data\":\"a\xffb\"}]}", `"a` + "\uFFFD" + `b"`},
		"lone surrogate":   {`{"results":[{"data":"\ud800"}]}`, `"\ud800"`},
		"white space":      {" \n{\"results\" : [ { \"data\" : {\"a\": 1.0} } ] }\n ", `{"a": 1.0}`},
		"nothing but NULs": {"\x00\x00", ""},
	} {
		r, err := execute(t.Context(), newTestClient(t, answering(t, well(c.body))))
		if c.want == "" {
			if failureOf(t, err).Kind != KindMalformed {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || string(r[0].Data) != c.want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestATokenGoesNowhereElseAndIsNeverTold(t *testing.T) {
	elsewhere := answering(t, well("{}"))
	echo := fmt.Sprintf(`{"error":{"code":"%[1]s","message":"bad token %[1]s","requestId":"%[1]s"}}`, adasToken)
	for name, then := range map[string]turn{
		"redirect 302":     {status: 302, header: http.Header{"Location": {elsewhere.URL + "/x?" + adasToken}}},
		"redirect 307":     {status: 307, header: http.Header{"Location": {elsewhere.URL}}},
		"echo in an error": {status: 400, body: echo},
		"echo, flat":       {status: 401, body: fmt.Sprintf(`{"code":"X","message":"%s"}`, adasToken)},
		"echo, malformed":  well(`{"results": ` + adasToken),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t.Context(), newTestClient(t, answering(t, then)))
			f := failureOf(t, err)
			if text := fmt.Sprintf("%+v %#v %v", *f, *f, err); strings.Contains(text, adasToken) {
				t.Errorf("the token is told: %s", text)
			}
		})
	}
	r, err := execute(t.Context(), newTestClient(t, answering(t, well(fmt.Sprintf(`{"results":[{"error":{"code":"X","message":"%s"}}]}`, adasToken)))))
	if err != nil || strings.Contains(fmt.Sprintf("%+v", *r[0].Err), adasToken) {
		t.Errorf("%+v, %v", r, err)
	}
	if n := len(elsewhere.heard()); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
	for _, raw := range []string{"https://u:hunter2@gateway.example", "https://gateway.example?key=hunter2", "https://gateway.example#hunter2", "gateway.example/hunter2", "ftp://gateway.example/hunter2", ":hunter2", ""} {
		if _, err := NewClient(ClientConfig{URL: raw, Credentials: Fixed{}}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the address %q: %v", raw, err)
		}
	}
}

func TestTransportFailuresNameNeitherAddressNorURL(t *testing.T) {
	o := answering(t, well("{}"))
	u, _ := url.Parse(o.URL)
	o.Close()
	c, err := NewClient(ClientConfig{URL: "http://no-such-host.invalid/base", Credentials: Fixed{ada: adasToken}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{c, newTestClient(t, o)} {
		_, err := c.Search(t.Context(), ada, SearchRequest{})
		f := failureOf(t, err)
		if f.Kind != KindTransport && f.Kind != KindTimeout || strings.Contains(err.Error(), u.Host) || strings.Contains(err.Error(), "no-such-host") || strings.Contains(err.Error(), "http") {
			t.Errorf("%+v", f)
		}
	}
}

func TestTheGatewaysCertificateIsChecked(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"results":[{"data":%d}]}`, r.ProtoMajor)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	dir := t.TempDir()
	ca, none := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "none.pem")
	write := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write(none, []byte("no certificate"))
	cfg := ClientConfig{URL: server.URL, Credentials: Fixed{ada: adasToken}}
	client := func() *Client {
		c, err := NewClient(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.CloseIdle)
		return c
	}
	_, err := execute(t.Context(), client())
	if f := failureOf(t, err); f.Kind != KindTransport || !strings.Contains(f.Message, "certificate is not trusted") {
		t.Errorf("an unknown authority: %+v", f)
	}
	cfg.CAFile = ca
	if r, err := execute(t.Context(), client()); err != nil || string(r[0].Data) != "2" {
		t.Errorf("with its authority, over HTTP/2: %+v, %v", r, err)
	}
	for _, file := range []string{none, filepath.Join(dir, "missing.pem")} {
		cfg.CAFile = file
		if _, err := NewClient(cfg); err == nil {
			t.Errorf("%s was taken", file)
		}
	}
	server.TLS.MaxVersion = tls.VersionTLS11
	server.TLS.MinVersion = tls.VersionTLS10
	cfg.CAFile = ca
	if _, err := execute(t.Context(), client()); failureOf(t, err).Kind != KindTransport {
		t.Errorf("TLS 1.1: %v", err)
	}
}

func TestAProxyIsUsedAndItsPasswordNotTold(t *testing.T) {
	proxy := answering(t, well(`{"results":[{"data":1}]}`))
	at, _ := url.Parse(proxy.URL)
	at.User = url.UserPassword("u", "hunter2")
	cfg := ClientConfig{URL: "http://gateway.invalid", Credentials: Fixed{ada: adasToken}, Proxy: at.String()}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	if _, err := execute(t.Context(), c); err != nil || len(proxy.heard()) != 1 || proxy.heard()[0].Path != "http://gateway.invalid/v1/connectors/execute" {
		t.Errorf("%v, %v", proxy.heard(), err)
	}
	proxy.Close()
	if _, err := execute(t.Context(), c); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	cfg.Proxy = "hunter2:://"
	if _, err := NewClient(cfg); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestATracingTransportSeesEveryAttempt(t *testing.T) {
	var mu sync.Mutex
	seen := 0
	o := answering(t, turn{status: 502}, well(`{"results":[{"data":1}]}`))
	c := newTestClient(t, o, func(c *ClientConfig) {
		c.Transport = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				seen++
				mu.Unlock()
				return next.RoundTrip(r)
			})
		}
	})
	if _, err := execute(t.Context(), c); err != nil || seen != 2 {
		t.Errorf("%d attempts, %v", seen, err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAThousandSessionsKeepTheirConnectionsAndLeaveNoGoroutines(t *testing.T) {
	const sessions = 1000
	before := goleak.IgnoreCurrent()
	var mu sync.Mutex
	fresh := map[string]bool{}
	arrived := make(chan struct{}, sessions)
	release := make(chan struct{})
	o := newOrigin(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		fresh[r.RemoteAddr] = true
		mu.Unlock()
		arrived <- struct{}{}
		<-release
		fmt.Fprint(w, `{"results":[{"data":1}]}`)
	})
	c := newTestClient(t, o)
	for round := range 2 {
		if round == 1 {
			close(release) // the second round need not be simultaneous
		}
		var all sync.WaitGroup
		failed := make(chan error, sessions)
		for range sessions {
			all.Go(func() {
				if _, err := execute(t.Context(), c); err != nil {
					failed <- err
				}
			})
		}
		for range sessions {
			<-arrived
		}
		if round == 0 { // all are under way at once
			for range sessions {
				release <- struct{}{}
			}
		}
		all.Wait()
		if len(failed) > 0 {
			t.Fatalf("%d failed: %v", len(failed), <-failed)
		}
	}
	mu.Lock()
	if len(fresh) > sessions+50 {
		t.Errorf("%d connections for %d sessions: they are not kept", len(fresh), sessions)
	}
	mu.Unlock()
	o.Close()
	c.CloseIdle()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

func TestAnOutageLeavesNoGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for _, fault := range []turn{{fault: "hang"}, {fault: "reset"}, {status: 200, body: "{", fault: "trickle"}, well("<html>"), {status: 503}} {
		o := answering(t, fault)
		c := newTestClient(t, o, func(c *ClientConfig) { c.ExecuteTimeout = 100 * time.Millisecond })
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := execute(t.Context(), c); err == nil && fault.body != "<html>" {
					t.Error(errors.New("a faulty gateway answered"))
				}
			})
		}
		all.Wait()
		c.CloseIdle() // as an opening breaker does; else they end by themselves
		o.CloseClientConnections()
		o.Close()
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
