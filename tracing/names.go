package tracing

import "go.opentelemetry.io/otel/attribute"

// Versions of the semantic conventions that the names below are taken from. The
// names of GenAI and MCP have left the package semconv since.
const (
	ConventionMessaging = "1.43.0"
	ConventionGenAI     = "1.41.0"
	ConventionMCP       = "1.41.0"
)

// Names of the conventions.
const (
	ErrorType = attribute.Key("error.type")

	MessagingSystem        = attribute.Key("messaging.system")
	MessagingOperationName = attribute.Key("messaging.operation.name")
	MessagingOperationType = attribute.Key("messaging.operation.type")
	MessagingDestination   = attribute.Key("messaging.destination.name")
	MessagingTemplate      = attribute.Key("messaging.destination.template")
	MessagingConsumerGroup = attribute.Key("messaging.consumer.group.name")
	MessagingBodySize      = attribute.Key("messaging.message.body.size")

	GenAIOperationName  = attribute.Key("gen_ai.operation.name")
	GenAIConversationID = attribute.Key("gen_ai.conversation.id")
	GenAIToolName       = attribute.Key("gen_ai.tool.name")
	GenAIToolType       = attribute.Key("gen_ai.tool.type")
	GenAIToolCallID     = attribute.Key("gen_ai.tool.call.id")
	GenAIToolArguments  = attribute.Key("gen_ai.tool.call.arguments")
	GenAIToolResult     = attribute.Key("gen_ai.tool.call.result")

	MCPMethodName    = attribute.Key("mcp.method.name")
	MCPSessionID     = attribute.Key("mcp.session.id")
	NetworkTransport = attribute.Key("network.transport")
)

// Values of the conventions.
const (
	SystemNATS    = "nats"
	ExecuteTool   = "execute_tool"
	MCPToolsCall  = "tools/call"
	TypeProcess   = "process"
	TypeSend      = "send"
	TransportPipe = "pipe"
	TransportTCP  = "tcp"
)

// Toolbridge's own names, all beginning with "toolbridge."; docs/telemetry.md has
// the table, and a test holds it against this list.
const (
	Tenant          = attribute.Key("toolbridge.tenant")
	Session         = attribute.Key("toolbridge.session")
	Operation       = attribute.Key("toolbridge.operation")
	Outcome         = attribute.Key("toolbridge.outcome")
	OutcomeReason   = attribute.Key("toolbridge.outcome.reason")
	CallID          = attribute.Key("toolbridge.call.id")
	CallEntries     = attribute.Key("toolbridge.call.entries")
	CallInterrupted = attribute.Key("toolbridge.call.interrupted")
	CallTakenOver   = attribute.Key("toolbridge.call.taken_over")
	EntryIndex      = attribute.Key("toolbridge.entry.index")
	Toolset         = attribute.Key("toolbridge.toolset")
	Executor        = attribute.Key("toolbridge.executor")
	ExecutorCode    = attribute.Key("toolbridge.executor.code")
	Attempt         = attribute.Key("toolbridge.attempt")
	WorkerID        = attribute.Key("toolbridge.worker.id")
	WorkerLost      = attribute.Key("toolbridge.worker.lost")
	Redelivered     = attribute.Key("toolbridge.redelivered")
	Catalog         = attribute.Key("toolbridge.catalog")
	CatalogDeferred = attribute.Key("toolbridge.catalog.deferred")
	CatalogVisible  = attribute.Key("toolbridge.catalog.visible")
	ListingForm     = attribute.Key("toolbridge.listing.form")
	ListingTokens   = attribute.Key("toolbridge.listing.tokens")
	SearchQueries   = attribute.Key("toolbridge.search.queries")
	SearchMatches   = attribute.Key("toolbridge.search.matches")
	SearchNear      = attribute.Key("toolbridge.search.near")
	SearchEmpty     = attribute.Key("toolbridge.search.empty")
	ApprovalID      = attribute.Key("toolbridge.approval.id")
	ApprovalChoice  = attribute.Key("toolbridge.approval.choice")
	HookName        = attribute.Key("toolbridge.hook.name")
	HookPhase       = attribute.Key("toolbridge.hook.phase")
	HookAction      = attribute.Key("toolbridge.hook.action")
	MCPServer       = attribute.Key("toolbridge.mcp.server")
	GatewayRoute    = attribute.Key("toolbridge.gateway.route")
	ContentCut      = attribute.Key("toolbridge.content.cut")
)

// Names of spans that are not a tool's, a request's or a protocol's own.
const (
	SpanBridge   = "bridge"        // followed by the bridge tool: a request
	SpanCall     = "tool_call"     // a call from acceptance to its final state
	SpanValidate = "validate"      // scope, arguments and policy of all entries
	SpanWork     = "process call"  // one worker's part of a call
	SpanApproval = "approval wait" // from the question to its end
	SpanAttempt  = "attempt"       // one start of an entry: until its executor has answered
	SpanHook     = "hook"
	SpanRank     = "search local"
	SpanGateway  = "search gateway"
	SpanBuild    = "build catalog"
	SpanExec     = "exec" // an executor's part of an attempt
)

// EventInterrupted is the event on a call's span of an entry that was never
// started and has no span of its own.
const EventInterrupted = "entry interrupted"
