package tracing

import (
	"toolbridge/subjects"
)

// OK is the outcome of what succeeded; any other outcome is a code.
const OK = "OK"

// Failed reports whether a code is a failure that somebody must look at. What
// people, rules or a missing connection kept from running is none: it can be
// found by its outcome.
func Failed(code subjects.Code, reason string) bool {
	switch code {
	case "", OK, subjects.CodeInterrupted, subjects.CodeCancelled, subjects.CodeApprovalTimeout, subjects.CodeConnectionRequired:
		return false
	case subjects.CodeApprovalDenied:
		return false
	case subjects.CodeBlocked: // by a rule; but a hook that is not there is a fault
		return reason == "hook_failed" || reason == "unchecked"
	}
	return true
}
