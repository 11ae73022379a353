package call_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"toolbridge/subjects"
	"toolbridge/worker/call"
)

// hostedTool is the machine's tool behind a gateway. The gateway has one effect for
// all requests with the same key, and answers them alike; a stop does not cut a
// request short, a worker that leaves does.
const hostedTool = "connectors__m__gw"

func onlyHosted(plan []entryPlan) bool {
	return !slices.ContainsFunc(plan, func(p entryPlan) bool { return p.Tool != hostedTool })
}

// isBatch reports whether a call's result has slots.
func isBatch(plan []entryPlan) bool {
	return len(plan) > 1 || slices.ContainsFunc(plan, func(p entryPlan) bool { return p.Tool == hostedTool })
}

func (x *executor) ExecuteAll(ctx context.Context, list []call.Execution) []call.Outcome {
	out := make([]call.Outcome, len(list))
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() { out[i] = x.hosted(ctx, list[i]) })
	}
	all.Wait()
	return out
}

func (x *executor) hosted(ctx context.Context, e call.Execution) call.Outcome {
	failed := func(code subjects.Code, message string) *subjects.SlotError {
		return &subjects.SlotError{Code: code, Message: message}
	}
	x.n.gate.pass()
	switch {
	case ctx.Err() != nil:
		return call.Outcome{Unsent: true, Error: failed(subjects.CodeInterrupted, "not started")}
	case !time.Now().Before(e.StartBy):
		return call.Outcome{Unsent: true, Error: failed(subjects.CodeExecutorUnavailable, "too late")}
	}
	var plan entryPlan
	if err := json.Unmarshal(e.Arguments, &plan); err != nil {
		return call.Outcome{Error: failed(subjects.CodeInternal, err.Error())}
	}
	x.w.mu.Lock()
	switch have := x.w.keys[e.ID]; {
	case e.IdempotencyKey == "", have != "" && have != e.IdempotencyKey:
		x.w.faults = append(x.w.faults, fmt.Sprintf("entry %s has the key %q, and had %q", e.ID, e.IdempotencyKey, have))
	default:
		x.w.keys[e.ID] = e.IdempotencyKey
	}
	i := len(x.w.starts[e.ID])
	x.w.starts[e.ID] = append(x.w.starts[e.ID], start{at: time.Now(), result: `{"effect":1}`})
	x.w.mu.Unlock()
	if e.Sent != nil {
		e.Sent()
	}
	left := make(chan struct{})
	undo := context.AfterFunc(ctx, func() {
		if !call.Stopped(ctx) {
			close(left)
		}
	})
	defer undo()
	timer := time.NewTimer(plan.Takes)
	defer timer.Stop()
	var out call.Outcome
	select {
	case <-timer.C:
		out.Response = json.RawMessage(`{"effect":1}`)
		if plan.Does == "fail" {
			out = call.Outcome{Error: failed(subjects.CodeToolError, "failed")}
		}
	case <-left:
		out = call.Outcome{Again: true, Error: failed(subjects.CodeOutcomeUnknown, "cancelled: the worker leaves")}
	case <-e.Leaving:
		out = call.Outcome{Again: true, Error: failed(subjects.CodeOutcomeUnknown, "cancelled: the worker leaves")}
	}
	x.w.mu.Lock()
	x.w.starts[e.ID][i].end = time.Now()
	x.w.mu.Unlock()
	x.n.gate.pass()
	return out
}

func TestARequestToTheGatewayIsRepeatedUnderItsKeyByWhoeverTakesOver(t *testing.T) {
	for _, single := range []bool{false, true} {
		for _, point := range []string{call.StepSent, call.StepReplied} {
			s := script{Slots: 8, Single: single, Calls: [][]entryPlan{{{Tool: hostedTool, Does: "ok"}, {Tool: hostedTool, Does: "fail"}, {Tool: hostedTool, Does: "ok"}}}, Ops: []op{
				{Kind: "cut", Engine: 0, Point: point}, {Kind: "accept"}, {Kind: "wait", For: long},
			}}
			play(t, s, func(w *world) {
				if w.started("c0.0") != 2 || !strings.Contains(w.reply(0), `"success_count":2`) {
					t.Errorf("single %v, worker lost at %q: started %d times, %s", single, point, w.started("c0.0"), w.reply(0))
				}
			})
		}
	}
}

func TestAWorkerThatLeavesHandsARequestToTheGatewayOver(t *testing.T) {
	for _, single := range []bool{false, true} {
		s := script{Slots: 8, Single: single, Calls: [][]entryPlan{{{Tool: hostedTool, Does: "ok", Takes: time.Second}, {Tool: hostedTool, Does: "ok"}}}, Ops: []op{
			{Kind: "accept"}, {Kind: "wait", For: 20 * time.Millisecond}, {Kind: "leave", For: 20 * time.Millisecond}, {Kind: "wait", For: long},
		}}
		play(t, s, func(w *world) {
			if w.started("c0.0") != 2 || !strings.Contains(w.reply(0), `"success_count":2`) {
				t.Errorf("single %v: started %d times, %s", single, w.started("c0.0"), w.reply(0))
			}
		})
	}
}

func TestAStopWaitsForTheGatewaysAnswer(t *testing.T) {
	s := script{Slots: 8, Calls: [][]entryPlan{{{Tool: hostedTool, Does: "ok", Takes: time.Second}, {Tool: hostedTool, Does: "ok"}}}, Ops: []op{
		{Kind: "accept"}, {Kind: "wait", For: 20 * time.Millisecond}, {Kind: "stop", Engine: 1}, {Kind: "wait", For: long},
	}}
	play(t, s, func(w *world) {
		if w.started("c0.0") != 1 || w.started("c0.1") != 0 || !strings.Contains(w.reply(0), `"effect":1`) || !strings.Contains(w.reply(0), "INTERRUPTED") {
			t.Errorf("reply = %s", w.reply(0))
		}
	})
}
