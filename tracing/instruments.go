package tracing

// Counter names an instrument. docs/telemetry.md lists all, with their Prometheus
// names; a test holds it against the tables below.
type Counter int

// Histogram names an instrument.
type Histogram int

// Gauge names an instrument that is read when it is asked for.
type Gauge int

// Total names a counter that is read when it is asked for.
type Total int

// Counters.
const (
	Requests Counter = iota
	RequestsDropped
	LimitsRefused
	CatalogBuilds
	CacheRequests
	Assemblies
	EagerTokens
	ListingTokensTotal
	SavedTokens
	SearchedQueries
	CallsAccepted
	CallsFinished
	ToolCalls
	Redeliveries
	CallsTakenOver
	CallsResent
	DeadLetters
	ApprovalsRequested
	ApprovalsSettled
	ApprovalsRemembered
	GatewayRequests
	GatewayRetries
	GatewaySearchLate
	BreakerTransitions
	BreakerRefused
	MCPCalls
)

// Histograms.
const (
	RequestDuration Histogram = iota
	CatalogTools
	CatalogBuildDuration
	ListingTokensEach
	MatchesEach
	SearchDuration
	CallDuration
	ToolCallDuration
	ApprovalWaitDuration
	HookDuration
	GatewayRequestDuration
	MCPCallDuration
)

// Gauges.
const (
	BuildInfo Gauge = iota
	RequestsInFlight
	Catalogs
	CatalogMemory
	CallsInWork
	CallSlots
	CallsOpen
	ApprovalsPending
	Executors
	BreakerState
	MCPServers
	QueueDepth
	QueueUnacked
	JournalRecords
	JournalBytes
	JournalLimit
	StreamMessages
	StreamBytes
	StreamLimit
	DeadLettersKept
	NATSConnected
)

// Totals.
const (
	NATSReconnects Total = iota
	NATSMessages
	NATSBytes
)

// instrument is one line of the tables.
type instrument struct {
	name, unit, about string
	labels            []string
	buckets           []float64
}

var (
	seconds     = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	longSeconds = []float64{0.01, 0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400}
	shortSecond = []float64{0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1, 1, 5, 30}
	tokens      = []float64{50, 100, 250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000}
	toolCounts  = []float64{1, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 20000, 50000}
	matchCounts = []float64{0, 1, 2, 3, 5, 10, 25, 50}
)

var counters = [...]instrument{
	Requests:            {"toolbridge.requests", "{request}", "Answered requests", []string{"operation", "code"}, nil},
	RequestsDropped:     {"toolbridge.requests.dropped", "{request}", "Requests whose reply subject may not be answered", nil, nil},
	LimitsRefused:       {"toolbridge.limits.refused", "{refusal}", "Refusals because of a limit", []string{"limit"}, nil},
	CatalogBuilds:       {"toolbridge.catalog.builds", "{build}", "Catalogs and indexes made", []string{"kind"}, nil},
	CacheRequests:       {"toolbridge.cache.requests", "{look-up}", "Look-ups in the caches", []string{"cache", "result"}, nil},
	Assemblies:          {"toolbridge.assemblies", "{assembly}", "Answered assemblies", []string{"form"}, nil},
	EagerTokens:         {"toolbridge.eager_tokens", "{token}", "Tokens that the deferred tools would have cost as definitions", nil, nil},
	ListingTokensTotal:  {"toolbridge.listing_tokens", "{token}", "Tokens of the listings of the deferred tools", nil, nil},
	SavedTokens:         {"toolbridge.saved_tokens", "{token}", "Tokens saved by deferring", nil, nil},
	SearchedQueries:     {"toolbridge.search.queries", "{query}", "Queries by what was found", []string{"outcome"}, nil},
	CallsAccepted:       {"toolbridge.calls.accepted", "{call}", "Tool calls by the way they took", []string{"path"}, nil},
	CallsFinished:       {"toolbridge.calls.finished", "{call}", "Tool calls that are final", []string{"outcome"}, nil},
	ToolCalls:           {"toolbridge.tool_calls", "{entry}", "Entries of tool calls that are final", []string{"tool", "outcome"}, nil},
	Redeliveries:        {"toolbridge.call.redeliveries", "{message}", "Queue messages that came again", nil, nil},
	CallsTakenOver:      {"toolbridge.calls.taken_over", "{call}", "Calls whose worker was lost", nil, nil},
	CallsResent:         {"toolbridge.calls.resent", "{call}", "Calls that the sweeper brought back", nil, nil},
	DeadLetters:         {"toolbridge.dead_letters", "{message}", "Dead letters written", []string{"kind"}, nil},
	ApprovalsRequested:  {"toolbridge.approvals.requested", "{approval}", "Approvals that people were asked for", nil, nil},
	ApprovalsSettled:    {"toolbridge.approvals.settled", "{approval}", "Approvals that ended", []string{"choice"}, nil},
	ApprovalsRemembered: {"toolbridge.approvals.remembered", "{entry}", "Entries that a remembered choice let pass", nil, nil},
	GatewayRequests:     {"toolbridge.gateway.requests", "{request}", "Requests to the gateway, each attempt", []string{"route", "code"}, nil},
	GatewayRetries:      {"toolbridge.gateway.retries", "{request}", "Requests to the gateway that were tried again", []string{"route"}, nil},
	GatewaySearchLate:   {"toolbridge.gateway.search.late", "{search}", "Searches answered without the gateway", nil, nil},
	BreakerTransitions:  {"toolbridge.breaker.transitions", "{transition}", "Changes of the breaker's state", []string{"to"}, nil},
	BreakerRefused:      {"toolbridge.breaker.refused", "{entry}", "Entries not sent because the breaker is open", nil, nil},
	MCPCalls:            {"toolbridge.mcp.calls", "{call}", "Calls of MCP servers", []string{"server", "outcome"}, nil},
}

var histograms = [...]instrument{
	RequestDuration:        {"toolbridge.request.duration", "s", "From a request's arrival to its reply", []string{"operation"}, seconds},
	CatalogTools:           {"toolbridge.catalog.tools", "{tool}", "Tools of an assembly", []string{"class"}, toolCounts},
	CatalogBuildDuration:   {"toolbridge.catalog.build.duration", "s", "Making a catalog or an index", []string{"kind"}, seconds},
	ListingTokensEach:      {"toolbridge.listing.tokens_per_assembly", "{token}", "Tokens of an assembly's listing", nil, tokens},
	MatchesEach:            {"toolbridge.search.matches", "{match}", "Matches of a query", nil, matchCounts},
	SearchDuration:         {"toolbridge.search.duration", "s", "Searching, by leg", []string{"leg"}, shortSecond},
	CallDuration:           {"toolbridge.call.duration", "s", "From a call's acceptance to its final state", nil, longSeconds},
	ToolCallDuration:       {"toolbridge.tool_call.duration", "s", "One attempt at an entry", []string{"executor", "outcome"}, seconds},
	ApprovalWaitDuration:   {"toolbridge.approval.wait", "s", "From a question to its end", []string{"choice"}, longSeconds},
	HookDuration:           {"toolbridge.hook.duration", "s", "Asking a hook", []string{"hook", "phase", "action"}, seconds},
	GatewayRequestDuration: {"toolbridge.gateway.request.duration", "s", "One request to the gateway", []string{"route"}, seconds},
	MCPCallDuration:        {"toolbridge.mcp.call.duration", "s", "One call of an MCP server", []string{"server"}, seconds},
}

var gauges = [...]instrument{
	BuildInfo:        {"toolbridge.build_info", "", "Which program runs; always 1", []string{"version", "commit", "role"}, nil},
	RequestsInFlight: {"toolbridge.requests.in_flight", "{request}", "Requests in work, or waiting for a stored call", []string{"kind"}, nil},
	Catalogs:         {"toolbridge.catalogs", "{catalog}", "Catalogs in memory", nil, nil},
	CatalogMemory:    {"toolbridge.catalog.memory", "By", "What the catalogs in memory weigh with their indexes, estimated", nil, nil},
	CallsInWork:      {"toolbridge.calls.in_work", "{call}", "Calls that hold a slot", nil, nil},
	CallSlots:        {"toolbridge.call.slots", "{call}", "Slots for calls", nil, nil},
	CallsOpen:        {"toolbridge.calls.open", "{call}", "Calls of the fleet that are not final, told by the worker that sweeps", []string{"state"}, nil},
	ApprovalsPending: {"toolbridge.approvals.pending", "{approval}", "Approvals that people are waited for, told by the worker that sweeps", nil, nil},
	Executors:        {"toolbridge.executors", "{registration}", "Toolsets in the registry", []string{"state"}, nil},
	BreakerState:     {"toolbridge.breaker.state", "", "1 for the state that the breaker is in", []string{"state"}, nil},
	MCPServers:       {"toolbridge.mcp.servers", "{server}", "MCP servers of this host", []string{"state"}, nil},
	QueueDepth:       {"toolbridge.queue.depth", "{message}", "Messages on the queue of calls", []string{"partition"}, nil},
	QueueUnacked:     {"toolbridge.queue.unacked", "{message}", "Messages that a worker has taken", []string{"partition"}, nil},
	JournalRecords:   {"toolbridge.journal.records", "{record}", "Records in the journal", []string{"partition"}, nil},
	JournalBytes:     {"toolbridge.journal", "By", "Size of the journal", []string{"partition"}, nil},
	JournalLimit:     {"toolbridge.journal.limit", "By", "Bound of the journal's size", []string{"partition"}, nil},
	StreamMessages:   {"toolbridge.stream.messages", "{message}", "Messages in a stream or bucket", []string{"stream"}, nil},
	StreamBytes:      {"toolbridge.stream", "By", "Size of a stream or bucket", []string{"stream"}, nil},
	StreamLimit:      {"toolbridge.stream.limit", "By", "Bound of a stream's or bucket's size", []string{"stream"}, nil},
	DeadLettersKept:  {"toolbridge.dead_letters.kept", "{message}", "Dead letters in their stream", nil, nil},
	NATSConnected:    {"toolbridge.nats.connected", "", "1 when connected to NATS", nil, nil},
}

var totals = [...]instrument{
	NATSReconnects: {"toolbridge.nats.reconnects", "", "Reconnects to NATS", nil, nil},
	NATSMessages:   {"toolbridge.nats.messages", "{message}", "Messages of the NATS connection", []string{"direction"}, nil},
	NATSBytes:      {"toolbridge.nats.bytes", "By", "Bytes of the NATS connection", []string{"direction"}, nil},
}
