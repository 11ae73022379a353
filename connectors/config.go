package connectors

import (
	"log/slog"
	"net/http"
	"time"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

// ClientConfig is how the gateway and the portal are reached.
type ClientConfig struct {
	// URL is the gateway's origin, with a path before the routes where it has one.
	URL string
	// PortalURL is the portal's; "" means URL.
	PortalURL string
	// Credentials finds tokens. A Gateway asks its guests' identities after them, and
	// needs none.
	Credentials Credentials
	// MaxAnswer bounds an answer's body in bytes, unpacked; 0 means 8 MiB.
	MaxAnswer int64
	// Time limits of one attempt; 0 means 30 s, 10 s, 60 s and 30 s. The context's
	// deadline wins when it comes earlier.
	SearchTimeout, SchemasTimeout, ExecuteTimeout, OtherTimeout time.Duration
	// CAFile names a PEM file of certificates that are trusted beside the system's.
	CAFile string
	// Proxy is the proxy's URL, "direct" for none; "" takes HTTPS_PROXY, HTTP_PROXY
	// and NO_PROXY.
	Proxy string
	// Transport wraps the transport that requests go through, for tracing; nil
	// leaves it as it is.
	Transport func(http.RoundTripper) http.RoundTripper
	// Metrics may be nil.
	Metrics *tracing.Metrics
	// UserAgent of every request; "" means "toolbridge".
	UserAgent string
}

// BreakerConfig is the circuit breaker before the gateway.
type BreakerConfig struct {
	// Disabled lets everything pass.
	Disabled bool
	// Threshold is how many entries in a row must fail to open it; 0 means 5.
	Threshold int
	// Cooldown is how long it stays open before a probe; 0 means 10 s.
	Cooldown time.Duration
	// OnTransition hears of every change of a tenant's state on this worker; states
	// are "closed", "open" and "half_open". It must not block.
	OnTransition func(tenant, from, to string)
	// Metrics may be nil.
	Metrics *tracing.Metrics
}

// Config is what a worker needs to know of the gateway. A Gateway needs a URL.
type Config struct {
	Client  ClientConfig
	Breaker BreakerConfig
	// Disabled is tools.connectors.enabled: false. Nothing is then available.
	Disabled bool
	// NoGuests is nous.guest: false. Users without an identity then have no
	// connectors.
	NoGuests bool
	// DevUser is the user of sessions without one, in dev only; "" outside.
	DevUser string
	// SearchWait is how long an answer with local matches waits for the gateway; 0
	// means 1 s.
	SearchWait time.Duration
	// Single is connectors.batching: single, one request for a connector-only batch.
	Single bool
	// ReturnTo is what the gateway is told about where a connection page leads
	// back to, on surfaces with cards; "" says nothing.
	ReturnTo string
	// Space builds subjects; the zero value is the default prefix.
	Space subjects.Space
	// State is how buckets are made where they are missing.
	State state.Config
	// Tracer and Metrics may be nil.
	Tracer  *tracing.Tracer
	Metrics *tracing.Metrics
	// Logger; nil means slog.Default.
	Logger *slog.Logger
}
