package worker

import (
	"log/slog"
	"time"

	"toolbridge/approval"
	"toolbridge/catalog"
	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
	"toolbridge/worker/call"
)

// Config is what one worker needs to know. The zero value serves the default
// prefix with the defaults named at each field, outside dev.
type Config struct {
	// Space builds and parses subjects; the zero value is the default prefix.
	Space subjects.Space
	// Dev lifts what protects a shared deployment: sessions without a grant see
	// the whole registry, and approvals default to allow.
	Dev bool
	// ToolSearch are the settings of tools.tool_search that a session's own
	// config overrides; nil means the defaults.
	ToolSearch *catalog.Config
	// Policy decides which calls need a person; the zero value asks for every
	// call save trusted read-only tools, or allows all in Dev.
	Policy approval.Policy
	// Hooks are asked before and after tools run, in this order.
	Hooks []call.Hook
	// Guardrails are built-in rules about single calls.
	Guardrails call.Guardrails
	// RejectLocalBatches is batch.local: reject; a batch with a local entry is
	// then refused whole unless it has one entry.
	RejectLocalBatches bool
	// ReplyPrefixes are the beginnings of replies that are answered; nil means
	// _INBOX. and _R_.
	ReplyPrefixes []string
	// MaxInFlight bounds the requests in work at once; above it the answer is
	// BUSY. 0 means 4096.
	MaxInFlight int
	// MaxWaiting bounds the requests beside them that only wait for the result of a
	// stored call, such as one that waits for a person; 0 means 50,000, less than 0
	// none. Further ones count as in work.
	MaxWaiting int
	// MaxRequest bounds a request's body in bytes, unpacked; 0 means 64 MiB.
	MaxRequest int64
	// MaxTools bounds the definitions of one assembly; 0 means 20,000.
	MaxTools int
	// CacheBytes bounds the catalogs kept in memory, with their indexes; 0 means
	// 512 MiB. The one in use stays, however large.
	CacheBytes int64
	// RequestTimeout bounds every request but tool_call; 0 means 30 s. A
	// Toolbridge-Deadline that comes earlier wins.
	RequestTimeout time.Duration
	// ToolTimeout is how long one execution may take from its start; 0 means
	// 2 minutes.
	ToolTimeout time.Duration
	// CallSlots is how many calls this worker runs at once; 0 means 256. A call
	// that waits for a person holds none.
	CallSlots int
	// CallLease is how long a lost worker's call stays with it; 0 means 30 s.
	CallLease time.Duration
	// CallQueued sends every call through the queue; otherwise a worker with a free
	// slot runs what it accepts.
	CallQueued bool
	// CallStep hears of the points of every call; for tests that stop a worker at
	// one of them. See call.Config.Step.
	CallStep func(point, callID string)
	// Partitions is how many queues and journals the calls are spread over, the
	// same for every worker of a deployment; 0 means 1.
	Partitions int
	// ApprovalTimeout is how long a person is waited for; 0 means 5 minutes.
	ApprovalTimeout time.Duration
	// ApprovalWait waits for people although nobody listens for approvals now;
	// otherwise what needs a person is denied at once then.
	ApprovalWait bool
	// MaxResult is how many characters of a result go into a reply; what is larger
	// goes to the object store with a preview. 0: only max_payload bounds it.
	MaxResult int
	// ToolConcurrency bounds the parallel-safe entries of one batch that run at
	// once; 0 means 10.
	ToolConcurrency int
	// Gateway is the hosted gateway of connectors, started; nil: there is none. The
	// worker neither starts nor stops it.
	Gateway *connectors.Gateway
	// State is how buckets are made where they are missing.
	State state.Config
	// Logger; nil means slog.Default.
	Logger *slog.Logger
	// Tracer makes spans; nil makes none, and trace headers are passed on as they came.
	Tracer *tracing.Tracer
	// Metrics are counted into; nil counts nothing.
	Metrics *tracing.Metrics
	// Version is shown by the micro service, in SemVer; "" means 0.0.0.
	Version string
}

// checks are the hooks and guardrails of calls.
func (c Config) checks() call.ChecksConfig {
	return call.ChecksConfig{Space: c.Space, Hooks: c.Hooks, Guardrails: c.Guardrails, Logger: c.Logger, Tracer: c.Tracer, Metrics: c.Metrics}
}

func (c Config) withDefaults() Config {
	if c.ReplyPrefixes == nil {
		c.ReplyPrefixes = subjects.ReplyPrefixes()
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 4096
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = 50_000
	}
	if c.MaxRequest == 0 {
		c.MaxRequest = 64 << 20
	}
	if c.MaxTools == 0 {
		c.MaxTools = 20_000
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = 512 << 20
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 30 * time.Second
	}
	if c.ToolTimeout == 0 {
		c.ToolTimeout = 2 * time.Minute
	}
	if c.ToolConcurrency == 0 {
		c.ToolConcurrency = 10
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	return c
}
