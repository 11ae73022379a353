package connectors

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"toolbridge/tracing"
)

const (
	maxRefusalBody = 256 << 10 // bytes of an answer that is no success
	retryPause     = 100 * time.Millisecond
	// fairTime is what a request must have been given before its caller's own
	// deadline counts against the gateway.
	fairTime = time.Second
	// idleTimeout ends unused connections, and with them their goroutines, soon after
	// a burst or an outage.
	idleTimeout = 8 * time.Second
)

// newTransport makes the one pool of connections. Its second value are texts that
// must not show up in errors.
func newTransport(cfg ClientConfig) (*http.Transport, []string, error) {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    2048, // a thousand sessions calling at once keep their connections
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	var secrets []string
	switch cfg.Proxy {
	case "":
	case "direct":
		t.Proxy = nil
	default:
		u, err := url.Parse(cfg.Proxy)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
			return nil, nil, errors.New("gateway proxy: an http, https or socks5 URL is expected, or direct")
		}
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		}
		t.Proxy = http.ProxyURL(u)
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, nil, fmt.Errorf("gateway CA file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, nil, fmt.Errorf("gateway CA file %s holds no PEM certificate", cfg.CAFile)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	return t, secrets, nil
}

// checkOrigin takes the URL of the gateway or the portal apart. The error does not
// repeat it: it may hold a password.
func checkOrigin(what, raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s: an http or https URL is expected", what)
	case u.User != nil:
		return "", fmt.Errorf("%s: the URL holds a user name or password; tokens are configured apart", what)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%s: the URL must have neither query nor fragment", what)
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}

// exchange is one request of the interface, with its rules.
type exchange struct {
	method, url string
	body        []byte // nil: none
	key         string // idempotency key; "" sends none
	limit       time.Duration
	repeat      bool // once more after a 5xx or a transport error
	what        string
	route       string // for the figures
}

// attempt is what one try brought.
type attempt struct {
	body       []byte
	status     int
	retryAfter string // the header
	sent       bool
}

func (a attempt) success() bool { return a.status >= 200 && a.status <= 299 }

// send does an exchange with a user's token; whole answers only.
func (c *Client) send(ctx context.Context, who Who, e exchange) ([]byte, *Failure) {
	token, failure := c.token(ctx, who)
	if failure != nil {
		return nil, failure
	}
	body, failure := c.try(ctx, token, e)
	if failure != nil {
		if failure.Kind == KindAuth {
			if r, ok := c.cfg.Credentials.(refuser); ok {
				r.Refused(who, token)
			}
		}
		return nil, failure
	}
	return body, nil
}

// token finds a user's token. Without one nothing is sent.
func (c *Client) token(ctx context.Context, who Who) (string, *Failure) {
	cred, err := c.cfg.Credentials.Token(ctx, who)
	switch {
	case err == nil && validToken(cred.Token):
		return cred.Token, nil
	case err == nil && cred.Token != "":
		err = errors.New("it holds characters that a header can not carry")
	case err == nil:
		err = ErrNoIdentity
		fallthrough
	case errors.Is(err, ErrNoIdentity):
		return "", &Failure{Kind: KindNoToken, Status: http.StatusUnauthorized, Code: codeNoToken, Message: "there is no sign-in for this user", err: err}
	case errors.Is(ctx.Err(), context.Canceled):
		return "", &Failure{Kind: KindCancelled, Message: "the request was cancelled", err: context.Canceled}
	}
	f := &Failure{Kind: KindNoToken, Status: http.StatusUnauthorized, Code: codeNoToken, Message: "the token of this user can not be had: " + oneLine(err.Error(), maxMessageChars/2), err: err}
	f.redact(append(c.secrets, cred.Token)...)
	return "", f
}

const codeNoToken = "NO_TOKEN"

// try sends an exchange once, or twice where its rules allow it.
func (c *Client) try(ctx context.Context, token string, e exchange) ([]byte, *Failure) {
	a, f := c.once(ctx, token, e)
	if f == nil || !e.repeat || ctx.Err() != nil {
		return a.body, f
	}
	switch f.Kind {
	case KindServer, KindTransport, KindTimeout:
	default:
		return nil, f
	}
	if f.Kind != KindTimeout {
		pause := time.NewTimer(retryPause + rand.N(retryPause)) //nolint:gosec // spreads retries
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, f
		}
	}
	sent := f.Sent
	c.cfg.Metrics.GatewayRetry(e.route)
	a, f = c.once(ctx, token, e)
	if f != nil {
		f.Sent = f.Sent || sent
		return nil, f
	}
	return a.body, nil
}

// once sends an exchange and reads the answer, within the exchange's time.
func (c *Client) once(ctx context.Context, token string, e exchange) (attempt, *Failure) {
	limited, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	began := time.Now()
	trace := &sending{}
	a, err := c.roundTrip(httptrace.WithClientTrace(limited, trace.hooks()), token, e)
	a.sent = trace.sent(limited.Err() != nil || err == nil)
	if err == nil && a.success() {
		c.cfg.Metrics.GatewayRequest(e.route, a.status, "", time.Since(began))
		return a, nil
	}
	var f *Failure
	if err == nil {
		f = refused(a, time.Now())
	} else {
		f = c.broken(ctx, limited, e, err, time.Since(began))
	}
	if f.Status == 0 {
		f.Status = a.status
	}
	c.cfg.Metrics.GatewayRequest(e.route, a.status, withoutAnswer(f.Kind), time.Since(began))
	f.Sent = a.sent
	f.redact(append(c.secrets, token)...)
	return a, f
}

// withoutAnswer is what the figures say of a request that brought no status.
func withoutAnswer(k Kind) string {
	switch k {
	case KindTimeout:
		return tracing.GatewayTimeout
	case KindCancelled:
		return tracing.GatewayCancelled
	}
	return tracing.GatewayUnreachable
}

func (c *Client) roundTrip(ctx context.Context, token string, e exchange) (attempt, error) {
	var body io.Reader
	if e.body != nil {
		body = bytes.NewReader(e.body)
	}
	if c.cfg.Transport != nil {
		ctx = tracing.WithRoute(ctx, e.route)
	}
	req, err := http.NewRequestWithContext(ctx, e.method, e.url, body)
	if err != nil {
		return attempt{}, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	if e.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if e.key != "" {
		// Spelled in lower case on purpose: under its canonical name net/http would
		// itself repeat a request whose connection broke, unseen by our one retry.
		req.Header[HeaderIdempotencyKey] = []string{e.key}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return attempt{}, err
	}
	defer resp.Body.Close()
	a := attempt{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	most := c.cfg.MaxAnswer
	if !a.success() {
		most = min(most, maxRefusalBody)
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	tooLarge := int64(len(a.body)) > most
	switch {
	case tooLarge && a.success():
		return a, errTooLarge
	case tooLarge, err != nil && !a.success() && ctx.Err() == nil:
		a.body = nil // the status has said it
		return a, nil
	case err != nil:
		return a, err
	}
	if len(token) >= 8 && strings.ContainsFunc(token, func(r rune) bool { return !strings.ContainsRune("0123456789.+-eE", r) }) {
		a.body = bytes.ReplaceAll(a.body, []byte(token), []byte(redacted))
	}
	a.body = bytes.ToValidUTF8(bytes.TrimPrefix(a.body, []byte("\xEF\xBB\xBF")), []byte("\uFFFD"))
	return a, nil
}

var errTooLarge = errors.New("the answer is too large")

// sending hears how far a request came. Its hooks may be called after the request
// has ended.
type sending struct {
	connected, wrote atomic.Bool
}

func (s *sending) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		// A request gets a second connection only when nothing went over the first.
		GotConn:      func(httptrace.GotConnInfo) { s.wrote.Store(false); s.connected.Store(true) },
		WroteHeaders: func() { s.wrote.Store(true) },
	}
}

// sent reports whether the gateway may have the request. When the request was cut
// off, or answered, what the connection is doing may not have been told yet.
func (s *sending) sent(cut bool) bool { return s.wrote.Load() || cut && s.connected.Load() }

// refused is the failure of an answer that is no success.
func refused(a attempt, now time.Time) *Failure {
	status, r := a.status, readRefusal(a.body)
	f := &Failure{Status: status, Code: r.code, Message: r.message, RequestID: r.requestID}
	switch {
	case status == http.StatusUnauthorized:
		f.Kind = KindAuth
	case status == http.StatusForbidden:
		f.Kind = KindForbidden
	case status == http.StatusNotFound:
		f.Kind = KindDark
	case status == http.StatusConflict:
		f.Kind = KindConflict
	case status == http.StatusTooManyRequests:
		f.Kind = KindRateLimited
	case status >= 500:
		f.Kind = KindServer
	default:
		f.Kind = KindRefused
	}
	if f.Code == "" {
		f.Code = "HTTP_" + strconv.Itoa(status)
	}
	if f.Message == "" {
		f.Message = statusText(status)
	}
	after, named := readRetryAfter(a.retryAfter, now)
	switch {
	case named:
		f.RetryAfter = after
	case r.timed:
		f.RetryAfter = r.retryAfter
	case status == http.StatusTooManyRequests:
		f.RetryAfter = time.Second
	}
	return f
}

// readRetryAfter reads the Retry-After header: seconds, or a date.
func readRetryAfter(header string, now time.Time) (after time.Duration, ok bool) {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseFloat(header, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		if !(seconds >= 0) {
			return 0, false
		}
		return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second)), true
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	return min(max(0, at.Sub(now)), maxRetryAfter), true
}

func statusText(status int) string {
	switch {
	case status >= 300 && status < 400:
		return fmt.Sprintf("the gateway redirects (HTTP %d); redirects are not followed: configure the address that it names", status)
	case http.StatusText(status) != "":
		return fmt.Sprintf("the gateway answered HTTP %d %s", status, http.StatusText(status))
	}
	return fmt.Sprintf("the gateway answered HTTP %d", status)
}

// broken is the failure of a request that brought no whole answer.
func (c *Client) broken(outer, limited context.Context, e exchange, err error, took time.Duration) *Failure {
	var netErr net.Error
	switch {
	case errors.Is(err, errTooLarge):
		return &Failure{Kind: KindTooLarge, Message: fmt.Sprintf("the answer to %s is larger than %d bytes", e.what, c.cfg.MaxAnswer)}
	case errors.Is(outer.Err(), context.Canceled):
		return &Failure{Kind: KindCancelled, Message: e.what + " was cancelled", err: context.Canceled}
	case limited.Err() != nil:
		return &Failure{
			Kind: KindTimeout, Message: fmt.Sprintf("the gateway did not answer %s within %s", e.what, took.Round(time.Millisecond)),
			early: outer.Err() != nil && took < fairTime, err: context.DeadlineExceeded,
		}
	case errors.As(err, &netErr) && netErr.Timeout():
		return &Failure{Kind: KindTimeout, Message: "the gateway can not be reached: no connection in time"}
	}
	return &Failure{Kind: KindTransport, Message: transportText(err)}
}

// transportText says in plain words why there is no answer; it names no address.
func transportText(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		return "the gateway can not be reached: its name is not known"
	case errors.As(err, &cert):
		return "the gateway's certificate is not trusted: " + oneLine(cert.Err.Error(), maxMessageChars/2)
	case errors.As(err, &record):
		return "the gateway does not speak TLS at this address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the gateway can not be reached: connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the gateway broke the connection off"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the gateway's answer broke off"
	case errors.As(err, &op) && op.Op == "dial":
		return "the gateway can not be reached"
	}
	var u *url.Error
	if errors.As(err, &u) { // without the URL
		err = u.Err
	}
	return "the exchange with the gateway failed: " + oneLine(err.Error(), maxMessageChars/2)
}

const redacted = "[redacted]"

// redact takes secrets out of everything that a Failure shows.
func (f *Failure) redact(secrets ...string) {
	for _, s := range secrets {
		if len(s) < 4 {
			continue
		}
		f.Code = strings.ReplaceAll(f.Code, s, redacted)
		f.Message = strings.ReplaceAll(f.Message, s, redacted)
		f.RequestID = strings.ReplaceAll(f.RequestID, s, redacted)
	}
}
