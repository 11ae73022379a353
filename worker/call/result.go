package call

import (
	"encoding/json"

	"toolbridge/subjects"
)

type refusal struct {
	Error *subjects.SlotError `json:"error"`
}

func refused(e *subjects.SlotError) Result { return Result{Result: encode(refusal{e}), IsError: true} }

type batchSlot struct {
	Index    int                 `json:"index"`
	Name     string              `json:"name"`
	Response json.RawMessage     `json:"response,omitempty"`
	Error    *subjects.SlotError `json:"error,omitempty"`
}

type batchResult struct {
	Results      []batchSlot `json:"results"`
	SuccessCount int         `json:"success_count"`
	ErrorCount   int         `json:"error_count"`
	TotalCount   int         `json:"total_count"`
}

// batch is the result of several entries, in the caller's order; it is an error
// only when none succeeded.
func batch(slots []slot) Result {
	out := batchResult{TotalCount: len(slots)}
	for i := range slots {
		s := &slots[i]
		out.Results = append(out.Results, batchSlot{Index: i, Name: s.name, Response: s.response, Error: s.err})
		if s.err != nil {
			out.ErrorCount++
		} else {
			out.SuccessCount++
		}
	}
	return Result{Result: encode(out), IsError: out.SuccessCount == 0}
}

// encode writes values of this package, which can not fail.
func encode(v any) []byte {
	b, err := subjects.Encode(v)
	if err != nil {
		return []byte(`{"error":{"code":"` + string(subjects.CodeInternal) + `","message":"the result could not be written"}}`)
	}
	return b
}
