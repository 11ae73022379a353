package connectors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/http/httptrace"
	"sync"
	"time"

	"toolbridge/subjects"
)

// Tool is one hosted tool to run.
type Tool struct {
	Name      string          // well formed, as FoldName gives it
	Arguments json.RawMessage // as they are to be sent
	// Key is the same for every attempt at this one effect, also by another worker,
	// and no other effect's.
	Key string
}

// Errand is on whose behalf, and under which conditions, tools are run.
type Errand struct {
	Who     Who
	Surface string
	// Stop, once closed, keeps what has not left from leaving; what is on its way is
	// waited for.
	Stop <-chan struct{}
	// Continue, when not nil, is asked before a second request is sent: whether
	// nothing has come between.
	Continue func() bool
	// Sent, when not nil, is called once the first request has left.
	Sent func()
}

func (e *Errand) stopped() bool {
	select {
	case <-e.Stop:
		return true
	default:
		return false
	}
}

// over reports whether nothing more may be sent.
func (e *Errand) over(ctx context.Context) bool {
	return e.stopped() || ctx.Err() != nil || e.Continue != nil && !e.Continue()
}

// Outcome is the end of one tool: a response, or an error.
type Outcome struct {
	Response json.RawMessage
	Error    *subjects.SlotError
	Account  string // alias that it ran under, also with an error
	// Unsent, with an error, says that this attempt had no effect: it did not leave,
	// or it was refused before the tool ran.
	Unsent bool
	// Cancelled, with an error: ctx ended while it was on its way. Who repeats it with
	// the same key learns what became of it.
	Cancelled bool
}

// OtherNames are the further names under which search shows what a tool of this
// name may run: the literal slug of connectors__x__X_POST is what is shown as
// connectors__x__POST. Scope and policy count for all of them.
func OtherNames(name string) []string {
	connector, tool, ok := Parse(name)
	if !ok {
		return nil
	}
	if other := Compose(connector, tool); other != name {
		return []string{other}
	}
	return nil
}

// Execute runs tools in one request, and those that are not found once more under
// their literal slug, in a second one. There is one outcome for each tool, in their
// order. The circuit breaker counts the whole once.
func (g *Gateway) Execute(ctx context.Context, e Errand, tools []Tool) []Outcome {
	out := make([]Outcome, len(tools))
	if e.stopped() || ctx.Err() != nil {
		for i := range out {
			out[i] = Outcome{Unsent: true, Error: notSent(subjects.CodeInterrupted, "stopped before it was sent; it had no effect")}
		}
		return out
	}
	done, failure := g.Breakers.Allow(ctx, e.Who.Tenant)
	if failure != nil {
		for i := range out {
			out[i] = whole{failure: failure}.outcome(&tools[i])
		}
		return out
	}
	var last *Failure
	defer func() {
		if last != nil {
			done(last)
			return
		}
		done(nil)
	}()
	if e.Sent != nil {
		var left sync.Once
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { left.Do(e.Sent) }})
	}
	all := make([]int, len(tools))
	for i := range all {
		all[i] = i
	}
	last = g.run(ctx, &e, tools, all, 0, out)
	var literal []int
	for i := range out {
		if err := out[i].Error; last == nil && err != nil && err.Code == subjects.CodeToolNotFound {
			if connector, tool, _ := Parse(tools[i].Name); slug(connector, tool, 0) != slug(connector, tool, 1) {
				literal = append(literal, i)
			}
		}
	}
	if len(literal) > 0 && !e.over(ctx) {
		last = g.run(ctx, &e, tools, literal, 1, out)
	}
	return out
}

// run sends some of the tools under one of their slugs and puts their outcomes into
// out. The failure is that of the request.
func (g *Gateway) run(ctx context.Context, e *Errand, tools []Tool, which []int, candidate int, out []Outcome) *Failure {
	request := ExecuteRequest{Tools: make([]ToolCall, len(which))}
	if e.Surface == subjects.SurfaceDesktop {
		request.ReturnTo = g.cfg.ReturnTo
	}
	for n, i := range which {
		connector, tool, _ := Parse(tools[i].Name)
		request.Tools[n] = ToolCall{Connector: connector, Tool: slug(connector, tool, candidate), Arguments: tools[i].Arguments}
	}
	results, w := g.twice(ctx, e, request, requestKey(tools, which, candidate))
	for n, i := range which {
		switch {
		case w.failure != nil:
			out[i] = w.outcome(&tools[i])
		case n >= len(results):
			out[i] = slotOutcome(&tools[i], Result{Malformed: true}, e.Surface)
		default:
			out[i] = slotOutcome(&tools[i], results[n], e.Surface)
		}
	}
	return w.failure
}

func slug(connector, tool string, candidate int) string {
	return Candidates(connector, tool)[candidate]
}

// requestKey is the idempotency key of one request. Whoever makes the same request
// for the same tools, with their keys, makes the same key.
func requestKey(tools []Tool, which []int, candidate int) string {
	if len(which) == 1 && candidate == 0 {
		return tools[which[0]].Key
	}
	h := sha256.New()
	h.Write([]byte{byte(candidate)})
	for _, i := range which {
		h.Write([]byte(tools[i].Key))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// whole is a request that brought no results, with what came before its last try.
type whole struct {
	failure *Failure
	// answered and unanswered say that a try before the last may have taken effect:
	// the gateway failed over it, or did not answer.
	answered, unanswered bool
}

// twice sends one request, and once more with the same key after a 5xx or where no
// answer came, unless a stop has been here meanwhile.
func (g *Gateway) twice(ctx context.Context, e *Errand, request ExecuteRequest, key string) ([]Result, whole) {
	var w whole
	for try := 1; ; try++ {
		results, failure := g.Client.executeOnce(ctx, e.Who, request, key)
		w.failure = failure
		if failure == nil || try == 2 || ctx.Err() != nil {
			return results, w
		}
		switch failure.Kind {
		case KindServer:
			w.answered = true
		case KindTransport, KindTimeout:
			w.unanswered = failure.Sent
		default:
			return nil, w
		}
		if failure.Kind != KindTimeout && !pause(ctx, e.Stop, retryPause+rand.N(retryPause)) || e.over(ctx) { //nolint:gosec // spreads retries
			return nil, w
		}
		g.cfg.Metrics.GatewayRetry("execute")
	}
}

// pause waits; it returns false when a stop or the end of ctx came first.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
	case <-ctx.Done():
	}
	return false
}
