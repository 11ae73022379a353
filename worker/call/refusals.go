package call

import (
	"context"
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

// refusalError is the answer to an envelope that can not be read: the same input
// in a row gets a firmer one, at last one that asks the agent to stop.
func (e *Engine) refusalError(ctx context.Context, c Call, r *arguments.Refusal) *subjects.SlotError {
	n := e.countRefusal(ctx, c, r.Key)
	message, halt := r.Wording(n)
	return &subjects.SlotError{Code: r.Code(), Message: message, Path: r.Path, Halt: halt}
}

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
