package call

import (
	"context"
	"strings"
	"time"

	"toolbridge/catalog/arguments"
	"toolbridge/subjects"
)

// refusals counts what a session had refused lately, in one value of the journal's
// bucket, so that it counts whichever worker answers.
type refusals struct {
	Last  string  `json:"last"`  // key of the refused input
	Times []int64 `json:"times"` // of refusals of it in a row, unix milliseconds
}

// refusalWindow is how long a refusal counts.
const refusalWindow = 10 * time.Minute

// refusalID is no valid call id in the grammar of subjects, so that no call can
// take the key; "=" may stand in keys.
const refusalID = "=refusals"

// refuse returns the answer to a call that is refused as a whole. The same input
// in a row gets a firmer answer, at last one that asks the agent to stop; so do
// entries of which none may run because of what the model has sent.
func (e *Engine) refuse(ctx context.Context, c Call, p *planned) *subjects.SlotError {
	switch {
	case p.refusal != nil:
		message, halt := p.refusal.Wording(e.countRefusal(ctx, c, p.input))
		return &subjects.SlotError{Code: p.refusal.Code(), Message: message, Path: p.refusal.Path, Halt: halt}
	case p.refused != nil:
		firmer(p.refused, e.countRefusal(ctx, c, p.input))
		return p.refused
	case !refusedAll(p.entries):
		return nil
	}
	n := e.countRefusal(ctx, c, p.input)
	for i := range p.entries {
		firmer(p.entries[i].Error, n)
	}
	return nil
}

// refusedAll reports whether every entry is refused for good: the same input will
// be refused again.
func refusedAll(entries []Entry) bool {
	for i := range entries {
		if entries[i].Error == nil {
			return false
		}
		switch entries[i].Error.Code {
		case subjects.CodeInvalidArguments, subjects.CodeToolNotFound, subjects.CodeToolNotAllowed, subjects.CodeBlocked, subjects.CodeApprovalDenied:
		default:
			return false
		}
	}
	return true
}

// firmer rewords the n-th identical refusal.
func firmer(err *subjects.SlotError, n int) {
	if n < arguments.FirmerFrom {
		return
	}
	problem := []rune(strings.TrimSuffix(strings.TrimPrefix(err.Message, arguments.NotInvoked), "."))
	if len(problem) > maxProblem {
		problem = append(problem[:maxProblem], '…')
	}
	err.Message, err.Halt = arguments.Wording(err.Message, string(problem)+".", n)
	err.Parameters, err.Hint = nil, "" // it has had them
}

// maxProblem bounds, in characters, a problem in a firmer answer.
const maxProblem = 300

func (e *Engine) countRefusal(ctx context.Context, c Call, input string) int {
	p := e.calls.Of(c.Tenant, c.Session)
	name := c.Tenant + "." + c.Session + "." + refusalID
	for range 4 {
		value, revision, err := e.state.GetFresh(ctx, p.Bucket, name)
		var have refusals
		if err == nil {
			if subjects.Decode(value, &have) != nil {
				have = refusals{}
			}
		}
		now := time.Now().UnixMilli()
		if have.Last != input {
			have = refusals{Last: input}
		}
		kept := have.Times[:0]
		for _, at := range have.Times {
			if now-at < refusalWindow.Milliseconds() {
				kept = append(kept, at)
			}
		}
		have.Times = append(kept, now)
		if len(have.Times) > arguments.HaltFrom {
			have.Times = have.Times[len(have.Times)-arguments.HaltFrom:]
		}
		body, err := subjects.Encode(have)
		if err != nil {
			return 1
		}
		if _, err := p.Journal.Update(ctx, name, body, revision); err == nil {
			return len(have.Times)
		}
	}
	return 1
}
