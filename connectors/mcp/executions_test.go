package mcp

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"toolbridge/subjects"
)

func TestExecutionsKeepABoundedMemory(t *testing.T) {
	now := time.Unix(1, 0)
	x := newExecutions(func() time.Time { return now })
	cancel := func(error) {}
	request := func(i int) subjects.ExecRequest {
		return subjects.ExecRequest{ExecutionID: strconv.Itoa(i), Session: "s"}
	}
	large := []byte(strings.Repeat("a", 1<<20))
	for i := range 100 {
		e, first, _ := x.join(request(i), "r", cancel)
		if !first {
			t.Fatal("not the first")
		}
		x.finish(e, large, true)
	}
	if x.bytes > keptAnswers {
		t.Errorf("%d bytes are kept", x.bytes)
	}
	if _, first, answer := x.join(request(99), "r", cancel); first || len(answer) != len(large) {
		t.Errorf("the last one: first %v, %d bytes", first, len(answer))
	}
	// An answer that was dropped still keeps its call from running again.
	if _, first, answer := x.join(request(0), "r", cancel); first || !strings.Contains(string(answer), "OUTCOME_UNKNOWN") {
		t.Errorf("the first one: first %v, %s", first, answer)
	}
	for i := range keptDone + 50 {
		e, _, _ := x.join(request(1000+i), "r", cancel)
		x.finish(e, nil, true)
	}
	if n := len(x.done); n != keptDone || len(x.byKey) != keptDone {
		t.Errorf("%d and %d are remembered", n, len(x.byKey))
	}
	now = now.Add(keptFor)
	if _, first, _ := x.join(request(99), "r", cancel); !first || len(x.done) != 0 || x.bytes != 0 {
		t.Errorf("after %s: first %v, %d left, %d bytes", keptFor, first, len(x.done), x.bytes)
	}
}

func TestExecutionsTellRequestsApart(t *testing.T) {
	base := subjects.ExecRequest{ExecutionID: "c.0", Session: "s", Tool: "t", DefinitionSHA256: "d", IdempotencyKey: "k", Arguments: json.RawMessage(`{}`)}
	for name, change := range map[string]func(*subjects.ExecRequest){
		"id":        func(r *subjects.ExecRequest) { r.ExecutionID = "c.1" },
		"session":   func(r *subjects.ExecRequest) { r.Session = "s2" },
		"tool":      func(r *subjects.ExecRequest) { r.Tool = "u" },
		"hash":      func(r *subjects.ExecRequest) { r.DefinitionSHA256 = "e" },
		"key":       func(r *subjects.ExecRequest) { r.IdempotencyKey = "l" },
		"arguments": func(r *subjects.ExecRequest) { r.Arguments = json.RawMessage(`{"a":1}`) },
		"borders":   func(r *subjects.ExecRequest) { r.ExecutionID, r.Session = ".0", "sc" },
	} {
		r := base
		change(&r)
		if keyOf(r) == keyOf(base) {
			t.Errorf("%s does not matter", name)
		}
	}
	late := base
	late.StartBy, late.Deadline = 5, 6
	if keyOf(late) != keyOf(base) {
		t.Error("a delivery with another deadline is another call")
	}
}

func TestCancelMeansOneExecution(t *testing.T) {
	x := newExecutions(time.Now)
	cancelled := map[string]bool{}
	for _, session := range []string{"s1", "s2"} {
		x.join(subjects.ExecRequest{ExecutionID: "c.0", Session: session}, "r", func(error) { cancelled[session] = true })
	}
	if x.cancel("", "c.0") || len(cancelled) != 0 {
		t.Errorf("without a session it must not guess: %v", cancelled)
	}
	if !x.cancel("s2", "c.0") || cancelled["s1"] || !cancelled["s2"] {
		t.Errorf("cancelled %v", cancelled)
	}
	for i := range keptCancels + 10 {
		x.cancel("s", fmt.Sprint("early", i))
	}
	if len(x.early) > keptCancels {
		t.Errorf("%d cancels are remembered", len(x.early))
	}
}
