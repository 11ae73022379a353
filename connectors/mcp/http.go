package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const sessionHeader = "Mcp-Session-Id"

// httpEndpoint sends the SDK's requests to one streamable HTTP server: it adds
// the configured headers, bounds what comes back, and gives the bytes of
// answers to captures.
type httpEndpoint struct {
	url       *url.URL
	headers   map[string]string
	max       int
	transport *http.Transport
	failed    func(err error, dead bool) // told of every failed exchange
	listens   atomic.Int32               // streams opened for the server's own messages
}

const (
	// listenTimeout is how long a server may take to accept the stream for its
	// own messages. The SDK waits for it within connect, without a bound.
	listenTimeout = 10 * time.Second
	// maxListens is after how many such streams a session is replaced. The SDK
	// breaks it, with the calls in flight, after httpRetries that brought
	// nothing; the pauses between its retries overflow above 57.
	maxListens  = 40
	httpRetries = 50
)

func newHTTPEndpoint(s ServerConfig, env lookup) (*httpEndpoint, []string, error) {
	raw, err := expand(s.URL, env)
	if err != nil {
		return nil, nil, fmt.Errorf("url: %w", err)
	}
	if err := checkURL(raw); err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("url: %w", err)
	}
	var secrets []string
	if raw != s.URL {
		secrets = append(secrets, raw, u.RawQuery)
	}
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	}
	headers := make(map[string]string, len(s.Headers))
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		value, err := expand(s.Headers[name], env)
		if err != nil {
			return nil, nil, fmt.Errorf("header %s: %w", name, err)
		}
		headers[name] = value
		secrets = append(secrets, value)
	}
	e := &httpEndpoint{
		url: u, headers: headers, max: s.MaxMessage, failed: func(error, bool) {},
		transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   16,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
		},
	}
	return e, secrets, nil
}

// client is what the SDK's transport uses.
func (e *httpEndpoint) client() *http.Client { return &http.Client{Transport: e} }

// RoundTrip implements http.RoundTripper.
func (e *httpEndpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	req = req.Clone(ctx)
	if req.URL.Scheme == e.url.Scheme && req.URL.Host == e.url.Host {
		for name, value := range e.headers {
			req.Header.Set(name, value)
		}
	}
	switch {
	case req.Method == http.MethodPost:
		return e.post(req)
	case req.Method == http.MethodGet && req.Header.Get("Last-Event-ID") == "":
		return e.listen(req)
	}
	resp, err := e.transport.RoundTrip(req)
	if err == nil {
		resp.Body = e.tap(resp, captureFrom(ctx), nil)
	}
	return resp, err
}

// post sends a message of ours.
func (e *httpEndpoint) post(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	waiting := captureFrom(ctx)
	if waiting != nil {
		id, err := requestID(req)
		if err != nil {
			return nil, err
		}
		req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteHeaders: func() { waiting.markSent(id) },
		}))
	}
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		if ctx.Err() == nil {
			var op *net.OpError
			e.failed(err, errors.As(err, &op) && op.Op == "dial")
		}
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && req.Header.Get(sessionHeader) != "":
		if waiting != nil {
			waiting.markGone()
		}
		e.failed(errors.New("the server no longer knows the session (HTTP 404)"), true)
	case resp.StatusCode >= http.StatusBadRequest:
		e.failed(fmt.Errorf("the server answered HTTP %s", resp.Status), false)
	}
	resp.Body = e.tap(resp, waiting, func(err error) {
		if ctx.Err() == nil {
			e.failed(err, false)
		}
	})
	return resp, nil
}

// listen opens the stream for the server's own messages. A server that does not
// get to it in time, or can not be reached, is taken for one that has none
// (405): the session then works without, or, when it had one, is over.
func (e *httpEndpoint) listen(req *http.Request) (*http.Response, error) {
	if e.listens.Add(1) == maxListens {
		e.failed(errors.New("the server closed its event stream too often"), false)
	}
	outer := req.Context()
	ctx, cancel := context.WithCancel(outer)
	late := time.AfterFunc(listenTimeout, cancel)
	resp, err := e.transport.RoundTrip(req.WithContext(ctx))
	inTime := late.Stop()
	if err == nil && inTime {
		resp.Body = closing{e.tap(resp, nil, nil), cancel}
		return resp, nil
	}
	if err == nil {
		_ = resp.Body.Close()
	}
	cancel()
	if outer.Err() != nil {
		return nil, outer.Err()
	}
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}, nil
}

// closing is a body whose end also ends its request.
type closing struct {
	io.ReadCloser
	end context.CancelFunc
}

func (c closing) Close() error {
	defer c.end()
	return c.ReadCloser.Close()
}

// requestID is the JSON-RPC id of the request in a POST.
func requestID(req *http.Request) (string, error) {
	if req.GetBody == nil {
		return "", nil
	}
	body, err := req.GetBody()
	if err != nil {
		return "", fmt.Errorf("reading the request again: %w", err)
	}
	defer body.Close()
	dec := jsontext.NewDecoder(body, lenient()...)
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return "", nil
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return "", nil
		}
		isID := name.String() == "id"
		value, err := dec.ReadValue()
		if err != nil {
			return "", nil
		}
		if isID {
			return string(value), nil
		}
	}
	return "", nil
}

// tap bounds a response's body and, when a capture waits, reads along.
func (e *httpEndpoint) tap(resp *http.Response, waiting *capture, failed func(error)) io.ReadCloser {
	t := &tapped{body: resp.Body, waiting: waiting, max: e.max, failed: failed}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		t.events = true
	}
	return t
}

// tapped is a response body that is read along. What a read returns has been
// looked at before, so an answer is captured before the SDK knows of it.
type tapped struct {
	body    io.ReadCloser
	waiting *capture
	max     int
	events  bool
	failed  func(error)

	held   []byte // of JSON: the body so far; of events: the current line
	data   []byte // of events: the data of the current event
	size   int    // bytes of the current message
	closed atomic.Bool
}

func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if t.events {
		for chunk := p[:n]; len(chunk) > 0; {
			end := bytes.IndexByte(chunk, '\n')
			if end < 0 {
				t.hold(chunk)
				break
			}
			t.hold(chunk[:end])
			t.line()
			chunk = chunk[end+1:]
		}
	} else {
		t.hold(p[:n])
	}
	if t.size > t.max {
		if t.waiting != nil {
			t.waiting.settle(nil, errTooLarge{t.max})
		}
		return n, errTooLarge{t.max}
	}
	switch {
	case err == io.EOF:
		if !t.events {
			t.message(t.held)
			t.held = nil
		}
	case err != nil && t.failed != nil && !t.closed.Load():
		t.failed(err)
	}
	return n, err
}

func (t *tapped) hold(b []byte) {
	t.size += len(b)
	if t.waiting != nil && t.size <= t.max {
		t.held = append(t.held, b...)
	}
}

// line ends a line of an event stream.
func (t *tapped) line() {
	line := bytes.TrimSuffix(t.held, []byte("\r"))
	value, isData := bytes.CutPrefix(line, []byte("data:"))
	switch {
	case isData:
		if len(t.data) > 0 {
			t.data = append(t.data, '\n')
		}
		t.data = append(t.data, bytes.TrimPrefix(value, []byte(" "))...)
	case len(line) == 0:
		t.message(t.data)
		t.data, t.size = t.data[:0], 0
	}
	t.held = t.held[:0]
}

func (t *tapped) message(data []byte) {
	if t.waiting == nil || len(data) == 0 {
		return
	}
	if m, err := parseWire(validUTF8(data)); err == nil {
		t.waiting.offer(m)
	}
}

func (t *tapped) Close() error {
	t.closed.Store(true)
	return t.body.Close()
}
