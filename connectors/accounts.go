package connectors

import (
	"context"
	"strconv"
	"strings"

	"toolbridge/subjects"
)

// named are the accounts of an app that a user means by a name: those with that
// alias, else those without an alias that have it for their label.
func named(accounts []Account, connector, name string) []Account {
	var byAlias, byLabel []Account
	for _, a := range accounts {
		switch {
		case FoldConnector(a.Connector) != connector:
		case a.Alias != nil:
			if *a.Alias == name {
				byAlias = append(byAlias, a)
			}
		case a.Label == name:
			byLabel = append(byLabel, a)
		}
	}
	if len(byAlias) > 0 {
		return byAlias
	}
	return byLabel
}

// namesOf lists what the accounts of an app go by, for a message.
func namesOf(accounts []Account, connector string) string {
	var list []string
	for _, a := range accounts {
		if FoldConnector(a.Connector) != connector {
			continue
		}
		name := a.Label
		if a.Alias != nil {
			name = *a.Alias
		}
		if name = oneLine(name, maxTargetName); name != "" && len(list) < 20 {
			list = append(list, strconv.Quote(name))
		}
	}
	if len(list) == 0 {
		return connector + " has no accounts yet"
	}
	return "its accounts are " + strings.Join(list, ", ")
}

// entry sends something to the gateway when the breaker lets it, and tells the
// breaker what came of it.
func (g *Gateway) entry(ctx context.Context, tenant string, send func() error) error {
	done, failure := g.Breakers.Allow(ctx, tenant)
	if failure != nil {
		return failure
	}
	err := send()
	done(err)
	return err
}

// Reasons of a failure of manage_connections, beside the notices' own.
const (
	reasonNotAvailable = "not_available" // connectors are not for this account
	reasonRateLimited  = "rate_limited"
)

// unserved is what a model reads when the gateway or the portal did not serve a
// request of manage_connections. It tells apart what is not available to the account,
// what the user must do, and what may pass by itself. doing names the request.
func unserved(doing string, err error) *subjects.SlotError {
	e := &subjects.SlotError{Code: subjects.CodeProviderError}
	f, ok := AsFailure(err)
	if !ok {
		e.Message = doing + " failed: " + oneLine(err.Error(), maxMessageChars)
		return e
	}
	e.ExecutorCode = f.Code
	if f.RetryAfter > 0 {
		e.RetryAfterMS = max(1, f.RetryAfter.Milliseconds())
	}
	detail := f.Code
	if f.Message != "" {
		detail = strings.TrimPrefix(detail+": "+f.Message, ": ")
	}
	switch {
	case f.Kind == KindOpen:
		e.Code, e.Reason = subjects.CodeGatewayUnavailable, ReasonUnreachable
		e.Message = doing + " was not tried: the gateway of connected apps is temporarily unreachable. Nothing is wrong with the user's connections; try again later"
	case f.Kind == KindNoToken, f.Kind == KindAuth, signInCode(f.Code):
		e.Reason = ReasonSignInExpired
		e.Message = doing + " was refused: the user's sign-in is not valid any more (" + detail + "). The user must sign in again; reconnecting apps does not help"
	case f.Kind == KindDark, f.Kind == KindForbidden:
		e.Reason = reasonNotAvailable
		e.Message = doing + " was refused: connected apps are not available for this account (" + detail + "). Do not offer to connect anything; nothing is down, and nothing is disconnected"
	case f.Kind == KindRateLimited:
		e.Reason = reasonRateLimited
		e.Message = doing + " was not served: too many requests; try again later"
	case f.Retryable(), f.Kind == KindCancelled:
		e.Reason = ReasonUnreachable
		e.Message = doing + " failed: the gateway of connected apps is temporarily unreachable (" + detail + "). Nothing is wrong with the user's connections; try again later"
	default:
		e.Message = doing + " failed: " + detail
	}
	return e
}

// mintUnknown is what a model reads when the start of a connection was sent and
// nobody knows what came of it. It is never sent again by itself, as there would be
// two links.
func mintUnknown(why string) *subjects.SlotError {
	return &subjects.SlotError{
		Code:    subjects.CodeOutcomeUnknown,
		Message: "whether the connection was started is unknown (" + why + "). It was asked for once and not repeated; check status before starting again",
		Hint:    `call manage_connections with action "status" first`,
	}
}

// unknownAfter reports whether a failed request may have taken effect.
func unknownAfter(f *Failure) bool {
	switch f.Kind {
	case KindTransport, KindTimeout, KindServer, KindMalformed, KindTooLarge, KindCancelled:
		return f.Sent
	}
	return false
}
