package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Config is how a client talks. The zero value is the documented default.
type Config struct {
	// URL of the server or servers, separated by commas; "" means
	// nats://127.0.0.1:4222. Only Dial reads it.
	URL string
	// Creds is a NATS credentials file; "" means none. Only Dial reads it.
	Creds string
	// Name of the connection, shown by the server; "" means toolbridge-client.
	// Only Dial reads it.
	Name string
	// Options are further options of the connection. Only Dial reads them.
	Options []nats.Option

	// Space builds the subjects; the zero value is the default prefix.
	Space subjects.Space
	// Timeout bounds a request whose context has no deadline; 0 means 30 s.
	Timeout time.Duration
	// CallTimeout does the same for tool calls; 0 means 5 min.
	CallTimeout time.Duration
	// CompressAbove is the size in bytes from which a request is sent as zstd;
	// 0 means 256 KiB, negative only what would not fit the server's
	// max_payload.
	CompressAbove int
	// MaxReply bounds a reply in bytes, unpacked; 0 means 64 MiB.
	MaxReply int64

	// Tracer makes a span of every request and of every execution that is served;
	// nil makes none.
	Tracer *tracing.Tracer
	// Inject may add headers to a request before it is sent; nil adds the trace
	// context of the span in the request's context, where there is one. Header
	// names of the contract are lower case.
	Inject func(ctx context.Context, header nats.Header)
	// Extract may put what the headers of a received execution say into its
	// context; nil does so with their trace context.
	Extract func(ctx context.Context, header nats.Header) context.Context
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = 5 * time.Minute
	}
	if c.CompressAbove == 0 {
		c.CompressAbove = 256 << 10
	}
	if c.MaxReply == 0 {
		c.MaxReply = 64 << 20
	}
	return c
}

// ErrClosed is returned by requests on a closed client.
var ErrClosed = errors.New("the client is closed")

// Client is one connection's way to the workers. Close it when done.
type Client struct {
	cfg  Config
	nc   *nats.Conn
	owns bool // the connection was made by Dial

	inbox string
	sub   *nats.Subscription
	next  atomic.Uint64
	done  chan struct{}

	mu      sync.Mutex
	waiting map[string]chan *nats.Msg
	closed  bool
}

// Dial connects and returns a client that owns the connection. It fails when no
// server can be reached before ctx ends; later the connection is kept up by
// reconnecting for ever.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	url := cfg.URL
	if url == "" {
		url = nats.DefaultURL
	}
	name := cfg.Name
	if name == "" {
		name = "toolbridge-client"
	}
	options := []nats.Option{nats.Name(name), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort()}
	if cfg.Creds != "" {
		options = append(options, nats.UserCredentials(cfg.Creds))
	}
	if until, ok := ctx.Deadline(); ok {
		options = append(options, nats.Timeout(max(time.Until(until), time.Millisecond)))
	}
	nc, err := nats.Connect(url, append(options, cfg.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS at %s: %w", redact(url), err)
	}
	c, err := New(nc, cfg)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c.owns = true
	return c, nil
}

// New returns a client on a connection that stays the caller's.
func New(nc *nats.Conn, cfg Config) (*Client, error) {
	if nc == nil {
		return nil, errors.New("a client needs a NATS connection")
	}
	c := &Client{
		cfg: cfg.withDefaults(), nc: nc, inbox: nc.NewInbox(),
		done: make(chan struct{}), waiting: map[string]chan *nats.Msg{},
	}
	sub, err := nc.Subscribe(c.inbox+".*", c.deliver)
	if err != nil {
		return nil, fmt.Errorf("subscribing to replies: %w", err)
	}
	c.sub = sub
	return c, nil
}

// Close ends the client's requests with ErrClosed and its connection, if Dial
// made it. It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	close(c.done)
	if c.owns {
		c.nc.Close()
		return nil
	}
	if err := c.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("closing the client: %w", err)
	}
	return nil
}

// Conn is the NATS connection.
func (c *Client) Conn() *nats.Conn { return c.nc }

// Session names one session of a tenant. It sends nothing; the error is a
// *subjects.ErrToken.
func (c *Client) Session(tenant, session string) (*Session, error) {
	if err := subjects.CheckToken("tenant", tenant); err != nil {
		return nil, err
	}
	if err := subjects.CheckToken("session", session); err != nil {
		return nil, err
	}
	return &Session{client: c, tenant: tenant, name: session}, nil
}
