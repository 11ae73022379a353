package connectors

import (
	"errors"

	"toolbridge/subjects"
)

// Words of a notice about hosted tools that are missing from an answer.
const (
	StatusUnavailable = "unavailable"
	StatusNotSetUp    = "not_set_up"

	ReasonSignInExpired = "sign_in_expired"
	ReasonUnreachable   = "unreachable"
)

// Hints of notices.
const (
	hintSignIn      = "Connected apps can not be used: the sign-in has expired. The user must sign in again; trying again before that gives the same answer. The session's other tools are not affected."
	hintUnreachable = "Connected apps can not be reached at the moment, so their tools may be missing here; nothing is wrong with the user's connections. Use other tools, or try again later."
	hintNotSetUp    = "Connected apps are not set up for this user yet. manage_connections with action connect sets them up."
	hintLastFailure = " The last attempt failed: "
)

// lastFailureChars bounds what a hint says of the last attempt.
const lastFailureChars = 200

// noticeOf is what an answer without hosted tools says about a failed request:
// nothing where connectors are not for this account (404, and 403 of another kind
// than a bad sign-in), so that nobody repairs what can not work.
func noticeOf(err error) *subjects.ConnectorsNotice {
	if errors.Is(err, ErrNoIdentity) {
		hint := hintNotSetUp
		if last, ok := LastFailure(err); ok {
			hint += hintLastFailure + oneLine(last.Error(), lastFailureChars)
		}
		return &subjects.ConnectorsNotice{Status: StatusNotSetUp, Hint: hint}
	}
	f, ok := AsFailure(err)
	switch {
	case !ok:
	case f.Kind == KindNoToken, f.Kind == KindAuth, signInCode(f.Code):
		return &subjects.ConnectorsNotice{Status: StatusUnavailable, Reason: ReasonSignInExpired, Hint: hintSignIn}
	case f.Kind == KindDark, f.Kind == KindForbidden:
		return nil
	}
	return unreachable()
}

func unreachable() *subjects.ConnectorsNotice {
	return &subjects.ConnectorsNotice{Status: StatusUnavailable, Reason: ReasonUnreachable, Hint: hintUnreachable}
}

// signInCode reports whether the gateway's code says that the token is no longer
// good, whatever the HTTP status beside it.
func signInCode(code string) bool {
	return code == "UNAUTHORIZED" || code == "INVALID_TOKEN" || code == "TOKEN_EXPIRED"
}
