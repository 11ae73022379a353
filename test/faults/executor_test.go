//go:build unix

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/state"
	"toolbridge/subjects"
)

const (
	tenant  = "t"
	toolset = "mcp-faults"
)

// tools are what the executor offers, by what may be done with them.
var tools = map[string]struct{ parallel, repeatable bool }{
	"mcp__faults__seq":     {false, false},
	"mcp__faults__seq_rep": {false, true},
	"mcp__faults__par":     {true, false},
	"mcp__faults__par_rep": {true, true},
}

const definitions = `[
 {"name":"mcp__faults__seq","description":"Append a row.","parameters":{"type":"object"}},
 {"name":"mcp__faults__seq_rep","description":"Set a value.","annotations":{"idempotentHint":true},"parameters":{"type":"object"}},
 {"name":"mcp__faults__par","description":"Send a mail.","parallel":true,"parameters":{"type":"object"}},
 {"name":"mcp__faults__par_rep","description":"Read a row.","parallel":true,"annotations":{"idempotentHint":true},"parameters":{"type":"object"}}]`

// work is what an entry's arguments ask the executor for.
type work struct {
	Takes int  `json:"takes"` // milliseconds
	Fails bool `json:"fails,omitempty"`
}

// note is one line of the executor's log.
type note struct {
	ID   string    `json:"id"`  // execution
	Run  int       `json:"run"` // counts the starts of this execution
	End  string    `json:"end"` // "": it starts; else how it ended
	Time time.Time `json:"time"`
}

func logOf(dir string) string { return filepath.Join(dir, "executions") }

// runExecutor is the pool of one toolset. What it does is written down before
// anybody hears of it.
func runExecutor(o order) error {
	file, err := os.OpenFile(logOf(o.Dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	nc, err := connect(o.URL)
	if err != nil {
		return err
	}
	defer nc.Close()
	x := &pool{file: file, nc: nc, runs: map[string]int{}, cancels: map[string]context.CancelFunc{}}
	space := subjects.Space{}
	if _, err := nc.QueueSubscribe(space.ExecRun(tenant, toolset), subjects.QueueExecutors, func(m *nats.Msg) { go x.run(m) }); err != nil {
		return err
	}
	if _, err := nc.Subscribe(space.ExecCancel(tenant, toolset), x.cancel); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := x.register(ctx); err != nil {
		return err
	}
	go func() {
		for tick := time.NewTicker(5 * time.Second); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := x.register(ctx); err != nil {
					fmt.Fprintln(os.Stderr, "executor: registering again:", err)
				}
			}
		}
	}()
	serve("executor")
	return nil
}

// pool runs executions and remembers how often each was started.
type pool struct {
	file *os.File
	nc   *nats.Conn

	mu      sync.Mutex
	runs    map[string]int
	cancels map[string]context.CancelFunc
}

func (x *pool) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	st, err := state.Open(ctx, x.nc, subjects.Space{}, state.Config{})
	if err != nil {
		return err
	}
	name, err := st.Blobs.PutIfAbsent(ctx, []byte(definitions))
	if err != nil {
		return err
	}
	value, err := subjects.Encode(subjects.Registration{DefinitionsSHA256: name, Blob: name, Since: "2026-01-01T00:00:00Z", State: subjects.StateReady, Trusted: true})
	if err != nil {
		return err
	}
	_, err = st.Toolsets.Put(ctx, subjects.ToolsetKey(tenant, toolset, "x1"), value)
	return err
}

func (x *pool) write(n note) {
	n.Time = time.Now()
	line, err := json.Marshal(n)
	if err == nil {
		_, err = x.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "executor: its log:", err)
		os.Exit(1)
	}
}

func (x *pool) run(m *nats.Msg) {
	var r subjects.ExecRequest
	var w work
	if err := subjects.Decode(m.Data, &r); err != nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		return
	}
	if err := json.Unmarshal(r.Arguments, &w); err != nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		return
	}
	if time.Now().UnixMilli() > r.StartBy {
		_ = m.Respond([]byte(`{"error":{"code":"TOO_LATE","message":"start_by has passed"}}`))
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x.mu.Lock()
	run := x.runs[r.ExecutionID]
	x.runs[r.ExecutionID]++
	x.cancels[r.ExecutionID] = cancel
	x.write(note{ID: r.ExecutionID, Run: run})
	x.mu.Unlock()
	body, end := fmt.Sprintf(`{"result":{"run":%d}}`, run), "done"
	if w.Fails {
		body, end = fmt.Sprintf(`{"error":{"code":"TOOL_ERROR","message":"run %d"}}`, run), "failed"
	}
	select {
	case <-time.After(time.Duration(w.Takes) * time.Millisecond):
	case <-ctx.Done():
		body, end = `{"error":{"code":"CANCELLED","message":"cancelled"}}`, "cancelled"
	}
	x.write(note{ID: r.ExecutionID, Run: run, End: end})
	_ = m.Respond([]byte(body))
}

func (x *pool) cancel(m *nats.Msg) {
	var r subjects.ExecCancel
	if subjects.Decode(m.Data, &r) != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if cancel := x.cancels[r.ExecutionID]; cancel != nil {
		cancel()
	}
}

// executed are the starts of an execution, and how each ended.
type executed struct {
	starts []time.Time
	ends   []string // "": never
	ended  []time.Time
}

// readLog reads what the executor wrote.
func readLog(t testing.TB, dir string) map[string]*executed {
	t.Helper()
	file, err := os.Open(logOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	all := map[string]*executed{}
	for in := bufio.NewScanner(file); in.Scan(); {
		var n note
		if err := json.Unmarshal([]byte(strings.TrimSpace(in.Text())), &n); err != nil {
			t.Fatalf("the executor's log: %q: %v", in.Text(), err)
		}
		e := all[n.ID]
		if e == nil {
			e = &executed{}
			all[n.ID] = e
		}
		if n.End == "" {
			e.starts, e.ends, e.ended = append(e.starts, n.Time), append(e.ends, ""), append(e.ended, time.Time{})
			continue
		}
		e.ends[n.Run], e.ended[n.Run] = n.End, n.Time
	}
	return all
}
