package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"toolbridge/catalog/arguments"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Hook is a subject that is asked before or after the tools that it matches. It
// sees the underlying tool's name and the final arguments.
//
// A hook guards unless it is told otherwise: when nobody listens on its subject,
// when it does not answer in time, or with what is no answer, then a pre hook
// keeps the tool from running, and a post hook keeps the result from the model.
// So nobody gets past a hook by stopping it.
type Hook struct {
	Name  string             // 1 to 64 of A-Z a-z 0-9 _ -: the last token of its subject
	Match string             // glob over the tool's name; "" matches every tool
	Phase subjects.HookPhase // "" means pre
	// Timeout of one answer; 0 means 5 s.
	Timeout time.Duration
	// FailOpen: when the hook fails, go on as if it had not been there. For hooks
	// that only watch.
	FailOpen bool
}

const (
	defaultHookTimeout = 5 * time.Second
	maxHookTimeout     = 10 * time.Minute
	// maxReason is how many characters of a hook's reason are passed on.
	maxReason = 500
)

func (h *Hook) matches(tool string) bool {
	return h.Match == "" || subjects.MatchGuard(h.Match, tool)
}

// matchesAny reports whether a hook is asked about an entry, under any of its names.
func (h *Hook) matchesAny(q Check) bool {
	return h.matches(q.Tool) || slices.ContainsFunc(q.Also, h.matches)
}

func (h *Hook) validate() error {
	if err := subjects.CheckToken("hook", h.Name); err != nil {
		return err
	}
	switch h.Phase {
	case "", subjects.PhasePre, subjects.PhasePost:
	default:
		return fmt.Errorf("%s: %.40q is no phase: pre or post", h.Name, string(h.Phase))
	}
	if h.Timeout < 0 || h.Timeout > maxHookTimeout {
		return fmt.Errorf("%s: a timeout lies between 0 and %s", h.Name, maxHookTimeout)
	}
	return nil
}

// asker asks hooks over NATS.
type asker struct {
	nc      *nats.Conn
	space   subjects.Space
	tracer  *tracing.Tracer
	metrics *tracing.Metrics
}

// ask sends one question and reads its answer. Every error means that the hook
// has failed; its text may be shown.
func (a *asker) ask(ctx context.Context, h *Hook, q Check, result json.RawMessage) (answer subjects.HookAnswer, err error) {
	phase := subjects.PhasePre
	if h.Phase == subjects.PhasePost {
		phase = subjects.PhasePost
	}
	ctx, sent, done := a.span(ctx, h, &q, phase)
	defer func() { done(answer, err) }()
	body, err := subjects.Encode(subjects.HookRequest{
		Phase: phase, Session: q.Session, CallID: q.CallID, Index: q.Index, Tool: q.Tool, Arguments: q.Arguments, Result: result,
	})
	if err != nil {
		return answer, fmt.Errorf("its question could not be written: %w", err)
	}
	if limit := a.nc.MaxPayload(); limit > 0 && int64(len(body)) > limit-headerRoom {
		return answer, fmt.Errorf("its question has %d bytes, and the bus takes %d", len(body), limit-headerRoom)
	}
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	msg, err := a.nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: a.space.HookRun(q.Tenant, h.Name), Data: body, Header: header(subjects.KindHook, sent),
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return answer, errors.New("nobody listens on its subject")
	case errors.Is(err, context.DeadlineExceeded):
		return answer, fmt.Errorf("it did not answer within %s", h.Timeout)
	case err != nil:
		return answer, fmt.Errorf("it could not be asked: %w", err)
	}
	if err := subjects.Decode(msg.Data, &answer); err != nil {
		return answer, fmt.Errorf("its answer is not readable: %w", err)
	}
	answer.Reason = oneLine(answer.Reason)
	switch {
	case answer.Action == subjects.HookAllow:
	case phase == subjects.PhasePre && (answer.Action == subjects.HookBlock || answer.Action == subjects.HookAsk):
	case answer.Reason != "":
		return answer, fmt.Errorf("it answered %.40q after the tool had run: %s", string(answer.Action), answer.Reason)
	default:
		return answer, fmt.Errorf("its answer has the action %.40q", string(answer.Action))
	}
	return answer, nil
}

// oneLine makes a foreign text safe to stand in a message: one line of bounded
// length without characters that are not seen.
func oneLine(s string) string {
	if len(s) > 8*maxReason { // four bytes a character at most; what is behind is not shown
		s = strings.ToValidUTF8(s[:8*maxReason], "")
	}
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)), " ")
	if list := []rune(s); len(list) > maxReason {
		s = string(list[:maxReason]) + "…"
	}
	return s
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func hookBlocked(h *Hook, tool, reason string) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeBlocked, Reason: "hook",
		Message: tool + " was not run, hook " + h.Name + " blocked it" + because(reason) + ". Do not repeat it unchanged",
	}
}

func hookFailed(h *Hook, tool string, err error) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeBlocked, Reason: "hook_failed",
		Message: tool + " was not run: hook " + h.Name + " has to allow it, and " + oneLine(err.Error()) + ". Go on without it, or tell the user",
	}
}

// hookSpoiled is the answer when a hook has made arguments that can not be sent.
// The original ones are not run either: the hook did not want them.
func hookSpoiled(h *Hook, tool string, i *arguments.Invalid) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeBlocked, Reason: "hook", Path: i.Path, Constraint: i.Constraint,
		Message: tool + " was not run: hook " + h.Name + " changed its arguments to ones that can not be sent: " + i.Message + ". Go on without it, or tell the user",
	}
}

func hookAsks(h *Hook, reason string) string {
	return "asked for by hook " + h.Name + because(reason)
}

func resultWithheld(h *Hook, tool string, err error) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeBlocked, Reason: "hook_failed",
		Message: tool + " has run and may have taken effect, but its result is withheld: hook " + h.Name + " has to see it first, and " + oneLine(err.Error()) + ". Do not repeat the call for its result",
	}
}
