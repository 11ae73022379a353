package worker

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// silent is a request of micro's of which only the headers are read.
type silent struct{ micro.Request }

func (silent) Headers() micro.Headers { return nil }
func (silent) Reply() string          { return "_INBOX.x" }

// What stands in a request's way for the sake of tracing costs nothing where
// nothing is traced or counted.
func TestNotConfiguredTelemetryAllocatesNothing(t *testing.T) {
	w := &Worker{log: slog.New(slog.DiscardHandler), base: t.Context()}
	q := newRequest(subjects.Address{Tenant: "t", Session: "s", Verb: subjects.VerbBridge}, silent{})
	q.trace[0] = "00-11111111111111111111111111111111-2222222222222222-01"
	searched := 0
	if n := testing.AllocsPerRun(100, func() {
		ctx := w.begin(q, silent{})
		q.bridged(catalog.ToolSearch)
		w.rank(ctx, func(found *catalog.SearchStats) {
			if found == nil {
				searched++
			}
		})
		_, made := w.making(ctx, "assembly")
		made(nil)
		w.answered(q, nil, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if searched == 0 {
		t.Error("nothing was searched")
	}
}
