package subjects

// Code is an error code of the contract. Codes of requests go with a status;
// codes of slots stand in a result that the model reads.
type Code string

// Requests that could not be served.
const (
	CodeBadRequest       Code = "BAD_REQUEST"
	CodeForbidden        Code = "FORBIDDEN"
	CodeUnknownCatalog   Code = "UNKNOWN_CATALOG"
	CodeUnknownCall      Code = "UNKNOWN_CALL"
	CodeIDReused         Code = "ID_REUSED"
	CodeTooLarge         Code = "TOO_LARGE"
	CodeBusy             Code = "BUSY"
	CodeInternal         Code = "INTERNAL"
	CodeUnavailable      Code = "UNAVAILABLE"
	CodeDeadlineExceeded Code = "DEADLINE_EXCEEDED"
)

// Decisions on approvals.
const (
	CodeUnknownApproval  Code = "UNKNOWN_APPROVAL"
	CodeAlreadyDecided   Code = "ALREADY_DECIDED"
	CodeExpired          Code = "EXPIRED"
	CodeWithdrawn        Code = "WITHDRAWN"
	CodeArgumentsChanged Code = "ARGUMENTS_CHANGED"
)

// Slots of a tool call.
const (
	CodeToolNotFound        Code = "TOOL_NOT_FOUND"
	CodeToolNotAllowed      Code = "TOOL_NOT_ALLOWED"
	CodeInvalidArguments    Code = "INVALID_ARGUMENTS"
	CodeBlocked             Code = "BLOCKED"
	CodeApprovalDenied      Code = "APPROVAL_DENIED"
	CodeApprovalTimeout     Code = "APPROVAL_TIMEOUT"
	CodeInterrupted         Code = "INTERRUPTED"
	CodeTimeout             Code = "TIMEOUT"
	CodeOutcomeUnknown      Code = "OUTCOME_UNKNOWN"
	CodeExecutorUnavailable Code = "EXECUTOR_UNAVAILABLE"
	CodeToolError           Code = "TOOL_ERROR"
	CodeResultTooLarge      Code = "RESULT_TOO_LARGE"
	CodeConnectionRequired  Code = "CONNECTION_REQUIRED"
	CodeProviderError       Code = "PROVIDER_ERROR"
	CodeGatewayUnavailable  Code = "GATEWAY_UNAVAILABLE"
)

// What an executor answers when it did not run the tool (TooLate,
// DefinitionMismatch: never started), or when a cancel was confirmed.
const (
	CodeTooLate            Code = "TOO_LATE"
	CodeDefinitionMismatch Code = "DEFINITION_MISMATCH"
	CodeCancelled          Code = "CANCELLED"
)

// Status is the HTTP-like number that goes with the code of a request that
// could not be served; 0 for the codes of slots.
func (c Code) Status() int {
	switch c {
	case CodeBadRequest:
		return 400
	case CodeForbidden:
		return 403
	case CodeUnknownCatalog, CodeUnknownCall, CodeUnknownApproval:
		return 404
	case CodeIDReused, CodeAlreadyDecided, CodeArgumentsChanged:
		return 409
	case CodeExpired, CodeWithdrawn:
		return 410
	case CodeTooLarge:
		return 413
	case CodeBusy:
		return 429
	case CodeInternal:
		return 500
	case CodeUnavailable:
		return 503
	case CodeDeadlineExceeded:
		return 504
	}
	return 0
}

// Retryable reports whether the same request may succeed later.
func (c Code) Retryable() bool {
	switch c {
	case CodeBusy, CodeUnavailable, CodeDeadlineExceeded, CodeInternal, CodeGatewayUnavailable, CodeExecutorUnavailable:
		return true
	}
	return false
}

// WarningCode says why a tool, toolset or setting was left out or repaired.
type WarningCode string

// Warnings of an assembly.
const (
	WarnNotAnObject        WarningCode = "NOT_AN_OBJECT"        // left out: the item is no JSON object, or not readable
	WarnNameMissing        WarningCode = "NAME_MISSING"         // left out
	WarnNameInvalid        WarningCode = "NAME_INVALID"         // left out, or shown repaired
	WarnNameDuplicate      WarningCode = "NAME_DUPLICATE"       // left out: the first definition stands
	WarnNameReserved       WarningCode = "NAME_RESERVED"        // left out: a bridge or connector name
	WarnParametersInvalid  WarningCode = "PARAMETERS_INVALID"   // kept: the schema is replaced by one that takes any object
	WarnDescriptionInvalid WarningCode = "DESCRIPTION_INVALID"  // kept: the description is left out or repaired
	WarnDescriptionTooLong WarningCode = "DESCRIPTION_TOO_LONG" // kept: only its beginning is indexed
	WarnFieldInvalid       WarningCode = "FIELD_INVALID"        // kept: an own field of the wrong type is ignored
	WarnTooLarge           WarningCode = "TOO_LARGE"            // left out
	WarnTooManyTools       WarningCode = "TOO_MANY_TOOLS"       // the rest is left out
	WarnToolsetUnavailable WarningCode = "TOOLSET_UNAVAILABLE"  // requested, but not offered to this session now
	WarnConnectorsMissing  WarningCode = "CONNECTORS_UNAVAILABLE"
	WarnConfigInvalid      WarningCode = "CONFIG_INVALID"     // the default is used
	WarnConfigUnknownKey   WarningCode = "CONFIG_UNKNOWN_KEY" // ignored
	WarnNamesAlike         WarningCode = "NAMES_ALIKE"        // two names differ only in case, "-", "_" or space
	WarnExecutorsDisagree  WarningCode = "EXECUTORS_DISAGREE" // rivals offer other definitions; the oldest stands
)
