package connectors

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"toolbridge/subjects"
)

// Words for models, of bounded length, whatever the gateway sends.
const (
	maxSlotMessage = 4000 // characters
	maxURL         = 4096 // bytes
	maxLabel       = 200  // characters
)

func notSent(code subjects.Code, message string) *subjects.SlotError {
	return &subjects.SlotError{Code: code, Message: message}
}

const mayHave = ": it may have taken effect. Check before you repeat it"

// outcome is that of every tool of a request that brought no results.
func (w whole) outcome(t *Tool) Outcome {
	f := w.failure
	e := &subjects.SlotError{Code: subjects.CodeProviderError, ExecutorCode: f.Code}
	o := Outcome{Error: e}
	if f.RetryAfter > 0 {
		e.RetryAfterMS = max(1, f.RetryAfter.Milliseconds())
	}
	connector, _, _ := Parse(t.Name)
	switch f.Kind {
	case KindOpen:
		o.Unsent = true
		e.Code = subjects.CodeGatewayUnavailable
		e.Message = t.Name + " was not sent: the gateway of connectors is unavailable, " + again(f.RetryAfter) + ". It had no effect and can be repeated"
	case KindTransport, KindTimeout, KindCancelled:
		o.Cancelled = f.Kind == KindCancelled
		switch {
		case f.Sent || w.answered || w.unanswered:
			e.Code = subjects.CodeOutcomeUnknown
			e.Message = "no answer to " + t.Name + " (" + f.Message + ")" + mayHave
		case o.Cancelled:
			o.Unsent = true
			e.Code, e.Message = subjects.CodeInterrupted, t.Name+" was not sent; it had no effect"
		default:
			o.Unsent = true
			e.Code = subjects.CodeGatewayUnavailable
			e.Message = t.Name + " was not sent: " + f.Message + ". It had no effect and can be repeated later"
		}
	case KindServer:
		e.Message = "the gateway failed over " + t.Name + " (" + f.Code + ": " + f.Message + ")" + mayHave
	case KindMalformed:
		e.Message = "the gateway's answer to " + t.Name + " can not be read (" + f.Message + ")" + mayHave
	case KindTooLarge:
		e.Code = subjects.CodeResultTooLarge
		e.Message = t.Name + " has run and may have taken effect, but " + f.Message + ". Do not repeat the call unchanged for its result"
	default:
		w.refused(t.Name, connector, &o)
	}
	return o
}

// refused is the outcome of a request that the gateway, or this client, refused
// before a tool ran.
func (w whole) refused(name, connector string, o *Outcome) {
	f, e := w.failure, o.Error
	if w.unanswered { // the try before it was not refused
		e.Code, e.RetryAfterMS = subjects.CodeOutcomeUnknown, 0
		e.Message = "no answer to " + name + ", and its repetition was refused (" + f.Code + ")" + mayHave
		return
	}
	o.Unsent = !w.answered
	switch f.Kind {
	case KindNoToken:
		e.Message = name + " was not sent: " + f.Message
		if !errors.Is(f, ErrNoIdentity) {
			return
		}
		e.Reason = "not_set_up"
		e.Message = name + " was not sent: " + f.Message + ". Connecting " + connector + " with manage_connections sets it up"
	case KindAuth:
		e.Reason = "sign_in_expired"
		e.Message = name + " was not run: the gateway refuses the sign-in (" + f.Code + "). The user has to sign in again; do not repeat it before"
	case KindRateLimited:
		e.Reason = "rate_limited"
		e.Message = name + " was not run: the gateway is rate limited, " + again(f.RetryAfter)
	case KindDark, KindForbidden:
		e.Reason = reasonNotAvailable
		e.Message = name + " was not run: connected apps are not available for this account (" + f.Code + ": " + f.Message + "). Do not offer to connect anything; nothing is down, and nothing is disconnected"
	default:
		e.Message = name + " was not run: the gateway refused it (" + f.Code + ": " + f.Message + ")"
	}
}

// again says when a repetition makes sense.
func again(after time.Duration) string {
	if after <= 0 {
		return "try again later"
	}
	return fmt.Sprintf("retry after %s", after.Round(time.Millisecond))
}

// slotOutcome is what one slot of an answer says of its tool.
func slotOutcome(t *Tool, r Result, surface string) Outcome {
	o := Outcome{Account: oneLine(r.Account, maxLabel)}
	switch {
	case r.Malformed:
		o.Error = &subjects.SlotError{
			Code:    subjects.CodeProviderError,
			Message: "the gateway's answer has no result for " + t.Name + " that can be read" + mayHave,
		}
	case r.Err == nil:
		o.Response = r.Data
	case r.Err.Code == string(subjects.CodeConnectionRequired):
		o.Error = connectionRequired(t, r.Err, surface)
	default:
		o.Error = &subjects.SlotError{
			Code: subjects.Code(r.Err.Code), Message: messageOf(t, r.Err), RetryAfterMS: r.Err.RetryAfterMS,
			Connector: oneLine(r.Err.Connector, maxLabel), Hint: oneLine(r.Err.Hint, maxSlotMessage),
		}
	}
	return o
}

func messageOf(t *Tool, e *ToolError) string {
	message := e.Message
	if len(message) > maxSlotMessage { // a tool's own text may have lines
		message = oneLine(message, maxSlotMessage)
	}
	if message == "" {
		return t.Name + " failed with " + e.Code + " and no further word"
	}
	return message
}

// connectionRequired is shaped by who could act on it: where links are shown, the
// link; on a surface with cards, that a card can be had; to a side agent, that
// somebody else has to connect. A connection's id stands only beside a link.
func connectionRequired(t *Tool, from *ToolError, surface string) *subjects.SlotError {
	connector, _, _ := Parse(t.Name)
	if from.Connector != "" {
		connector = oneLine(from.Connector, maxLabel)
	}
	e := &subjects.SlotError{Code: subjects.CodeConnectionRequired, Connector: connector}
	// The gateway's own words may hold the link.
	e.Message = t.Name + " was not run: " + connector + " is not connected"
	switch surface {
	case subjects.SurfaceDesktop:
		e.ConnectCardAvailable = true
		e.Hint = "Call manage_connections with action connect and " + connector + ": the user gets a card and connects it there. Then repeat this call."
	case subjects.SurfaceSide:
		e.Hint = "A side agent can not connect apps. Say in your answer that " + connector + " has to be connected first."
	default:
		e.Message = messageOf(t, from)
		e.ConnectURL = link(from.ConnectURL)
		e.ConnectionID = oneLine(from.ConnectionID, maxLabel)
		e.Hint = oneLine(from.Hint, maxSlotMessage)
	}
	return e
}

// link is a URL that a user may be shown; "" for what is none.
func link(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxURL || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return raw
}
