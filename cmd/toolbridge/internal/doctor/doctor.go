// Package doctor looks at a deployment from the outside, with the rights of
// whoever asks, and says what is wrong and what to do about it.
//
// Every check is bounded in time, changes nothing, and says "skipped" where the
// connection may not look: a session's credentials see less than a worker's.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// Status is how a check ended.
type Status string

// The states of a check, from good to bad.
const (
	OK      Status = "ok"
	Skipped Status = "skipped" // not configured, or this connection may not look
	Warning Status = "warning" // works, but not for long or not for all
	Failed  Status = "failed"
)

// Finding is the outcome of one check. Advice says what to do, where something is
// to be done.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

// Worst is the worst status of some findings; OK where there are none.
func Worst(findings []Finding) Status {
	worst := OK
	for _, f := range findings {
		if f.Status == Failed {
			return Failed
		}
		if f.Status == Warning {
			worst = Warning
		}
	}
	return worst
}

// Patient is what is looked at.
type Patient struct {
	Conn            *nats.Conn
	Space           subjects.Space
	Tenant, Session string
	Version         string // of this program
	// Wait bounds one question; 0 means 2 s.
	Wait time.Duration
	// Further checks, e.g. of what a configuration file names.
	Further []func(context.Context) []Finding

	last error // of the connection, when it was last asked
}

// forbade reports whether the server has forbidden something since it was last
// asked.
func (p *Patient) forbade() bool {
	err := p.Conn.LastError()
	news := err != p.last //nolint:errorlint // the same value, not the same kind: is it the one of last time
	p.last = err
	return news && errors.Is(err, nats.ErrPermissionViolation)
}

// Examine runs every check, in an order in which the first failure explains the
// later ones.
func Examine(ctx context.Context, p *Patient) []Finding {
	if p.Wait == 0 {
		p.Wait = 2 * time.Second
	}
	var all []Finding
	add := func(list ...Finding) { all = append(all, list...) }
	add(p.connection()...)
	if add(p.inbox(ctx)...); Worst(all) == Failed {
		return all // no answer would be heard
	}
	js, err := jetstream.New(p.Conn)
	if err != nil {
		add(Finding{"jetstream", Failed, err.Error(), ""})
		return all
	}
	stores := p.storage(ctx, js)
	add(stores...)
	if Worst(stores) != Failed {
		add(p.streams(ctx, js)...)
		add(p.clock(ctx)...)
		add(p.registry(ctx, js)...)
	}
	add(p.workers(ctx)...)
	add(p.searches(ctx)...)
	for _, check := range p.Further {
		add(check(ctx)...)
	}
	return all
}

func (p *Patient) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.Wait)
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Status: OK, Detail: fmt.Sprintf(format, args...)}
}

// skipped says that this connection may not look.
func skipped(check, what string) Finding {
	return Finding{check, Skipped, "these credentials may not " + what, "Run it with a worker's credentials to see more."}
}
