package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// deliver hands a reply to the request that waits for it. What is not a
// worker's reply is dropped, and the request goes on waiting.
func (c *Client) deliver(m *nats.Msg) {
	if m.Header.Get(subjects.HeaderKind) != subjects.KindReply && !noResponders(m) {
		return
	}
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	c.mu.Lock()
	to := c.waiting[token]
	delete(c.waiting, token)
	c.mu.Unlock()
	if to != nil {
		to <- m // buffered for the one message it gets
	}
}

// noResponders recognises the server's own word that nobody is subscribed.
func noResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}

// request sends a body and returns the reply's JSON, or the error that it
// carries.
func (c *Client) request(ctx context.Context, subject string, body []byte, limit time.Duration) (_ []byte, err error) {
	ctx, done := c.traced(ctx, subject, len(body))
	defer func() { done(err) }()
	m, err := c.exchange(ctx, subject, body, limit)
	if err != nil {
		return nil, err
	}
	return c.read(subject, m)
}

// requestBytes is request for a reply that is no JSON: only its headers say
// that it is an error.
func (c *Client) requestBytes(ctx context.Context, subject string, body []byte, limit time.Duration) (_ []byte, err error) {
	ctx, done := c.traced(ctx, subject, len(body))
	defer func() { done(err) }()
	m, err := c.exchange(ctx, subject, body, limit)
	if err != nil {
		return nil, err
	}
	if noResponders(m) || m.Header.Get(subjects.HeaderErrorCode) != "" {
		_, err := c.read(subject, m)
		return nil, err
	}
	return c.unpacked(subject, m)
}

// exchange sends a body and returns the reply as it came.
func (c *Client) exchange(ctx context.Context, subject string, body []byte, limit time.Duration) (*nats.Msg, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("request to %s: %w", subject, err)
	}
	m := &nats.Msg{Subject: subject, Header: nats.Header{}}
	c.inject(ctx, m.Header)
	if until, ok := ctx.Deadline(); ok {
		m.Header[subjects.HeaderDeadline] = []string{strconv.FormatInt(told(until).UnixMilli(), 10)}
	}
	m.Header[subjects.HeaderAcceptEncoding] = []string{subjects.EncodingZstd}
	if err := c.fill(m, body); err != nil {
		return nil, err
	}

	token := strconv.FormatUint(c.next.Add(1), 36)
	m.Reply = c.inbox + "." + token
	reply := make(chan *nats.Msg, 1)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.waiting[token] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, token)
		c.mu.Unlock()
	}()

	before := c.nc.LastError()
	if err := c.nc.PublishMsg(m); err != nil {
		return nil, fmt.Errorf("request to %s: %w", subject, err)
	}
	look := time.NewTimer(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case got := <-reply:
			return got, nil
		case <-c.done:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, c.overdue(ctx, subject)
		case <-look.C:
			if err := c.forbidden(before, subject); err != nil {
				return nil, err
			}
			look.Reset(250 * time.Millisecond)
		}
	}
}

// forbidden is the server's word that the connection may not send to the
// subject, or not hear the replies; no reply comes then. before is the
// connection's last error of the time before the request.
func (c *Client) forbidden(before error, subject string) error {
	last := c.nc.LastError()
	if last == nil || !errors.Is(last, nats.ErrPermissionViolation) {
		return nil
	}
	text := last.Error()
	fresh := last != before //nolint:errorlint // the very same value is meant
	if fresh && strings.Contains(text, `"`+subject+`"`) || strings.Contains(text, `"`+c.inbox) {
		return fmt.Errorf("request to %s: %w", subject, last)
	}
	return nil
}

// told is the deadline that the worker hears: a little before the context's, so
// that its word on the deadline still arrives.
func told(until time.Time) time.Time {
	return until.Add(-min(50*time.Millisecond, time.Until(until)/10))
}

func (c *Client) overdue(ctx context.Context, subject string) error {
	if !c.nc.IsConnected() {
		return fmt.Errorf("no reply on %s: %w (not connected to %s)", subject, ctx.Err(), redact(c.cfg.URL))
	}
	return fmt.Errorf("no reply on %s: %w", subject, ctx.Err())
}

// read returns a reply's body, or the error that it carries.
func (c *Client) read(subject string, m *nats.Msg) ([]byte, error) {
	if noResponders(m) {
		return nil, fmt.Errorf("no worker answers on %s: %w", subject, nats.ErrNoResponders)
	}
	body, err := c.unpacked(subject, m)
	if err != nil {
		return nil, err
	}
	code := m.Header.Get(subjects.HeaderErrorCode)
	if code == "" && !looksLikeError(body) {
		return body, nil
	}
	var failed subjects.ErrorReply
	if err := subjects.Decode(body, &failed); err == nil && failed.Error != nil && failed.Error.Code != "" {
		return nil, fmt.Errorf("request to %s: %w", subject, failed.Error)
	}
	if code == "" {
		return body, nil
	}
	// micro's own errors have headers and no body.
	return nil, fmt.Errorf("request to %s: %w", subject, subjects.NewError(codeOf(code), m.Header.Get(subjects.HeaderError)))
}

func (c *Client) unpacked(subject string, m *nats.Msg) ([]byte, error) {
	body, err := unpack(m.Header.Get(subjects.HeaderContentEncoding), m.Data, c.cfg.MaxReply)
	if err != nil {
		return nil, fmt.Errorf("reply on %s: %w", subject, err)
	}
	return body, nil
}

func looksLikeError(body []byte) bool {
	s := strings.TrimLeft(string(body[:min(len(body), 64)]), " \t\r\n{")
	return strings.HasPrefix(s, `"error"`)
}

func codeOf(status string) subjects.Code {
	for _, code := range []subjects.Code{
		subjects.CodeBadRequest, subjects.CodeForbidden, subjects.CodeTooLarge,
		subjects.CodeBusy, subjects.CodeUnavailable, subjects.CodeDeadlineExceeded,
	} {
		if strconv.Itoa(code.Status()) == status {
			return code
		}
	}
	return subjects.CodeInternal
}

// redact hides the password of an address in messages.
func redact(addresses string) string {
	parts := strings.Split(addresses, ",")
	for i, p := range parts {
		if u, err := url.Parse(strings.TrimSpace(p)); err == nil && u.User != nil {
			u.User = url.User("***")
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}
