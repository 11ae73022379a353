package subjects

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// Error is what a request that could not be served is answered with:
// {"error": {…}} beside the two error headers. The fields after RetryAfterMS go
// with single codes.
//
// errors.Is(err, &Error{Code: c}) reports whether err carries that code.
type Error struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable"`                // the same request may succeed later
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // milliseconds to wait before that

	Path     string    `json:"path,omitempty"`     // BAD_REQUEST: the member that is wrong
	Decision *Decision `json:"decision,omitempty"` // ALREADY_DECIDED, EXPIRED, WITHDRAWN: the one that stands
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Is compares codes only.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// NewError is an Error with the code's own word on whether to retry.
func NewError(code Code, message string) *Error {
	return &Error{Code: code, Message: message, Retryable: code.Retryable()}
}

// ErrorReply is the JSON body of a request that could not be served.
type ErrorReply struct {
	Error *Error `json:"error"`
}

// Header returns the headers that go with the body: the code's status (500 for a
// code without one) and the code with its message, cut to one line of at most
// 256 bytes.
func (e *Error) Header() map[string][]string {
	status := e.Code.Status()
	if status == 0 {
		status = CodeInternal.Status()
	}
	return map[string][]string{
		HeaderErrorCode: {strconv.Itoa(status)},
		HeaderError:     {headerText(e.Error())},
	}
}

// ErrorOf turns an error into what the requester is told: an *Error as it is;
// BAD_REQUEST for a bad token or message text; DEADLINE_EXCEEDED for a passed
// deadline; else INTERNAL without the error's text, which is for the log.
func ErrorOf(err error) *Error {
	var e *Error
	var token *ErrToken
	var message *ErrMessage
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.As(err, &message):
		out := NewError(CodeBadRequest, message.Error())
		out.Path = message.Path
		return out
	case errors.As(err, &token):
		return NewError(CodeBadRequest, token.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return NewError(CodeDeadlineExceeded, "the deadline of the request has passed")
	}
	return NewError(CodeInternal, "internal error")
}

// ErrorFromReply tells whether a reply says that the request could not be
// served: it returns what the reply says, or nil for a reply of the normal kind
// (one with is_error included: that is a result).
//
// A reply is an error when it carries the code header, or when its body is an
// object whose member error has a request's code. What the body lacks is taken
// from the headers, so that a reply whose body was lost still says something;
// an empty reply with status 503 is the server's word that nobody answers there.
// Do not use it on an executor's reply, whose errors are its own.
func ErrorFromReply(header map[string][]string, body []byte) *Error {
	status := first(header, HeaderErrorCode)
	if status == "" && len(body) == 0 && first(header, "Status") == "503" {
		return NewError(CodeUnavailable, "nobody answers on this subject")
	}
	var reply ErrorReply
	readable := Decode(body, &reply) == nil && reply.Error != nil && reply.Error.Code != ""
	if readable && (status != "" || reply.Error.Code.Status() != 0) {
		return reply.Error
	}
	if status == "" {
		return nil
	}
	code := codeOfStatus(status)
	message := first(header, HeaderError)
	if name, rest, ok := strings.Cut(message, ": "); ok && Code(name).Status() != 0 {
		code, message = Code(name), rest
	}
	if message == "" {
		message = "the reply has status " + headerText(status) + " and no message"
	}
	return NewError(code, message)
}

// codeOfStatus guesses a code where a reply has only a number.
func codeOfStatus(status string) Code {
	for _, c := range []Code{CodeForbidden, CodeTooLarge, CodeBusy, CodeUnavailable, CodeDeadlineExceeded} {
		if strconv.Itoa(c.Status()) == status {
			return c
		}
	}
	if strings.HasPrefix(status, "4") {
		return CodeBadRequest
	}
	return CodeInternal
}

func first(header map[string][]string, name string) string {
	if v := header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// headerText makes s safe as a header's value: one line, bounded, valid UTF-8.
func headerText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	const limit = 256
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.TrimSpace(strings.ToValidUTF8(s, ""))
}
