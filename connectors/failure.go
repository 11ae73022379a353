package connectors

import (
	"errors"
	"fmt"
	"time"
)

// Kind is why a request to the gateway brought no answer that can be used.
type Kind uint8

// Kinds of failure.
const (
	KindNoToken     Kind = iota + 1 // there is no token for this user; nothing was sent
	KindAuth                        // 401: the token was refused
	KindForbidden                   // 403
	KindDark                        // 404: connectors are not available to this account
	KindConflict                    // 409
	KindRateLimited                 // 429
	KindServer                      // 5xx
	KindRefused                     // another answer that is no success
	KindTransport                   // no answer, or one that broke off
	KindTimeout                     // no answer in time
	KindMalformed                   // an answer that can not be read
	KindTooLarge                    // an answer larger than what is read
	KindCancelled                   // the caller went away
	KindOpen                        // the circuit breaker is open; nothing was sent
)

// kindNames are words for logs and metrics.
var kindNames = [...]string{
	"", "no_token", "auth", "forbidden", "dark", "conflict", "rate_limited", "server", "refused",
	"transport", "timeout", "malformed", "too_large", "cancelled", "open",
}

// String is a word for logs and metrics, e.g. "rate_limited".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Failure is a request to the gateway or the portal that brought no answer that
// can be used. Neither its fields nor its text ever hold a token.
type Failure struct {
	Kind       Kind
	Status     int           // HTTP status, 0 where there was no answer
	Code       string        // the gateway's code as it came, HTTP_<status> where it names none, NO_TOKEN; else ""
	Message    string        // for people and models: one line of at most 600 characters
	RequestID  string        // the gateway's, where it names one
	RetryAfter time.Duration // how long to wait before the next try, where that is known (KindRateLimited, KindOpen, KindServer)
	// Sent says that the gateway may have received the request, so that it may have
	// taken effect. False only where that is certain.
	Sent bool

	early bool // the caller's own deadline left the gateway no fair time
	err   error
}

// Error names what was being done, the code and the message.
func (f *Failure) Error() string {
	switch {
	case f.Code != "" && f.Message != "":
		return fmt.Sprintf("gateway: %s: %s", f.Code, f.Message)
	case f.Message != "":
		return "gateway: " + f.Message
	case f.Code != "":
		return "gateway: " + f.Code
	}
	return "gateway: " + f.Kind.String()
}

// Unwrap is context.Canceled or context.DeadlineExceeded where one of them ended
// the request, an error that is ErrNoIdentity where there is none, what kept a token
// from being had, else nil.
func (f *Failure) Unwrap() error { return f.err }

// Retryable reports whether the same request may succeed later without anybody
// changing anything.
func (f *Failure) Retryable() bool {
	switch f.Kind {
	case KindRateLimited, KindServer, KindTransport, KindTimeout, KindOpen:
		return true
	}
	return false
}

// AsFailure is the Failure in an error's chain.
func AsFailure(err error) (*Failure, bool) {
	var f *Failure
	ok := errors.As(err, &f)
	return f, ok
}
