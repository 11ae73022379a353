package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/tracing"
)

// ChecksConfig is what stands between valid entries and their start, and behind
// their end. The zero value checks nothing.
type ChecksConfig struct {
	Space      subjects.Space
	Hooks      []Hook // asked in this order
	Guardrails Guardrails
	Logger     *slog.Logger
	Tracer     *tracing.Tracer
	Metrics    *tracing.Metrics
}

// Empty reports whether nothing is checked.
func (c ChecksConfig) Empty() bool { return len(c.Hooks) == 0 && c.Guardrails.empty() }

// Validate says what is wrong with a configuration.
func (c ChecksConfig) Validate() error {
	var faults []error
	for i, h := range c.Hooks {
		if err := h.validate(); err != nil {
			faults = append(faults, fmt.Errorf("hook %d: %w", i+1, err))
		}
	}
	if err := c.Guardrails.validate(); err != nil {
		faults = append(faults, fmt.Errorf("guardrails: %w", err))
	}
	return errors.Join(faults...)
}

// checks are the configured hooks and guardrails.
type checks struct {
	rails     Guardrails
	pre, post []Hook
	asker     asker
	tallies   tallies
	log       *slog.Logger
}

// NewChecks makes the checks of a validated configuration; nil when nothing is
// to be checked.
func NewChecks(cfg ChecksConfig, nc *nats.Conn, st *state.State, calls *state.Calls) Checks {
	if cfg.Empty() {
		return nil
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &checks{
		rails: cfg.Guardrails, asker: asker{nc: nc, space: cfg.Space, tracer: cfg.Tracer, metrics: cfg.Metrics},
		tallies: tallies{state: st, calls: calls}, log: cfg.Logger,
	}
	for _, h := range cfg.Hooks {
		if h.Timeout == 0 {
			h.Timeout = defaultHookTimeout
		}
		if h.Phase == subjects.PhasePost {
			c.post = append(c.post, h)
		} else {
			c.pre = append(c.pre, h)
		}
	}
	return c
}

// Needed implements Checks.
func (c *checks) Needed(tool string) bool {
	if c.rails.counts() || c.rails.looksAt(tool) {
		return true
	}
	for i := range c.pre {
		if c.pre[i].matches(tool) {
			return true
		}
	}
	return false
}

// Refused implements Checks.
func (c *checks) Refused(tool string) *subjects.SlotError { return c.rails.denied(tool) }

// Before implements Checks: argument patterns, then the pre hooks one after
// another, each with the arguments that the one before it left, then the
// patterns again when the arguments have changed.
func (c *checks) Before(ctx context.Context, q Check) Verdict {
	if block := c.blocked(q, true); block != nil {
		return Verdict{Block: block}
	}
	var v Verdict
	for i := range c.pre {
		h := &c.pre[i]
		if !h.matchesAny(q) {
			continue
		}
		answer, err := c.asker.ask(ctx, h, q, nil)
		if err != nil {
			c.log.WarnContext(ctx, "a hook failed", "hook", h.Name, "tool", q.Tool, "tenant", q.Tenant, "session", q.Session, "call", q.CallID, "passed", h.FailOpen, "error", err)
			if h.FailOpen && ctx.Err() == nil {
				continue
			}
			return Verdict{Block: hookFailed(h, q.Tool, err)}
		}
		if answer.Action == subjects.HookBlock {
			return Verdict{Block: hookBlocked(h, q.Tool, answer.Reason)}
		}
		if answer.Action == subjects.HookAsk && v.Ask == "" {
			v.Ask = hookAsks(h, answer.Reason)
		}
		if !subjects.Present(answer.Arguments) || bytes.Equal(answer.Arguments, q.Arguments) {
			continue
		}
		changed, invalid := q.Repair(answer.Arguments)
		if invalid != nil {
			return Verdict{Block: hookSpoiled(h, q.Tool, invalid)}
		}
		q.Arguments, v.Arguments = changed, changed
	}
	if v.Arguments != nil {
		if block := c.blocked(q, false); block != nil {
			return Verdict{Block: block}
		}
	}
	return v
}

// blocked is what the guardrails say of an entry under any of its names.
func (c *checks) blocked(q Check, first bool) *subjects.SlotError {
	for _, name := range append([]string{q.Tool}, q.Also...) {
		if first {
			if block := c.rails.denied(name); block != nil {
				return block
			}
		}
		if block := c.rails.matched(name, q.Arguments); block != nil {
			return block
		}
	}
	return nil
}

// Count implements Checks.
func (c *checks) Count(ctx context.Context, q Check) *subjects.SlotError {
	if !c.rails.counts() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	block, err := c.tallies.count(ctx, &c.rails, q)
	if err != nil {
		c.log.WarnContext(ctx, "rate and repeat could not be counted; the call is blocked", "tool", q.Tool, "tenant", q.Tenant, "session", q.Session, "call", q.CallID, "error", err)
		return &subjects.SlotError{
			Code: subjects.CodeBlocked, Reason: "unchecked", RetryAfterMS: 1000,
			Message: q.Tool + " was not run: how often it may run can not be checked now. Try again later",
		}
	}
	return block
}

// countWithin bounds the counting of one entry, other workers' writes included.
const countWithin = 5 * time.Second

// After implements Checks: the post hooks one after another, each with the result
// that the one before it left.
func (c *checks) After(ctx context.Context, q Check, result json.RawMessage) (json.RawMessage, *subjects.SlotError) {
	for i := range c.post {
		h := &c.post[i]
		if !h.matchesAny(q) {
			continue
		}
		answer, err := c.asker.ask(ctx, h, q, result)
		if err != nil {
			c.log.WarnContext(ctx, "a hook failed", "hook", h.Name, "tool", q.Tool, "tenant", q.Tenant, "session", q.Session, "call", q.CallID, "passed", h.FailOpen, "error", err)
			if h.FailOpen {
				continue
			}
			return nil, resultWithheld(h, q.Tool, err)
		}
		if subjects.Present(answer.Result) {
			result = answer.Result
		}
	}
	return result, nil
}
