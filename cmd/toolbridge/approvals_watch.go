package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type approvalsWatchCommand struct {
	approverFlags
}

// Help is shown by --help.
func (approvalsWatchCommand) Help() string {
	return `Shows each call that needs a decision, one at a time, and asks:
  o  allow it this once
  s  allow this tool for the rest of the session
  a  allow this tool always, for the session's user
  d  deny it
  skip  leave it to others
Words behind the letter are the reason. While this runs, the tenant has an approver: calls that need one wait. It ends with
its input.
With --json nothing is asked: one JSON object is printed for each message, {"type":"approval.requested","approval":…} or {"type":"approval.settled","decision":…}.`
}

func (c *approvalsWatchCommand) Run(ctx context.Context, p *program) error {
	a, stop, err := c.open(ctx, p)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	bounded, done := context.WithTimeout(ctx, patience)
	defer done()
	feed, err := a.Watch(bounded)
	if err != nil {
		return c.fail(p, err)
	}
	defer feed.Stop()
	list, err := a.List(bounded, c.Session)
	if err != nil {
		return c.fail(p, err)
	}
	ctx, cancel := c.within(ctx, 0) // of watching, which begins here
	defer cancel()
	fmt.Fprintf(p.stderr, "toolbridge: watching tenant %s as approver %s\n", c.Tenant, a.Name())
	if c.JSON {
		return c.follow(ctx, p, feed, list)
	}
	w := &watch{
		approver: a, session: c.Session, out: output.New(p.stdout, p.lookup), lines: readLines(p.stdin, ctx.Done()),
		known: map[string]*asked{},
	}
	for _, q := range list.Approvals {
		w.add(q)
	}
	return w.run(ctx, feed.C)
}

// follow prints what comes, for programs.
func (c *approvalsWatchCommand) follow(ctx context.Context, p *program, feed *client.Feed[client.ApprovalNews], list *subjects.ApprovalListReply) error {
	type line struct {
		Type     subjects.EventType `json:"type"`
		Approval *subjects.Approval `json:"approval,omitempty"`
		Decision *subjects.Decision `json:"decision,omitempty"`
	}
	told := map[string]bool{}
	tell := func(l line) error {
		body, err := subjects.Encode(l)
		if err != nil {
			return err
		}
		return printLine(p.stdout, body)
	}
	for i := range list.Approvals {
		told[list.Approvals[i].ID] = true
		if err := tell(line{Type: subjects.EventApprovalRequested, Approval: &list.Approvals[i]}); err != nil {
			return err
		}
	}
	for {
		select {
		case news, ok := <-feed.C:
			var err error
			switch {
			case !ok:
				return nil
			case news.Requested != nil && (c.Session == "" || news.Requested.Session == c.Session) && !told[news.Requested.ID]:
				told[news.Requested.ID] = true
				err = tell(line{Type: subjects.EventApprovalRequested, Approval: news.Requested})
			case news.Settled != nil && (c.Session == "" || told[news.Settled.ID]):
				delete(told, news.Settled.ID)
				err = tell(line{Type: subjects.EventApprovalSettled, Decision: news.Settled})
			}
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// watch asks a person about one approval after another.
type watch struct {
	approver *client.Approver
	session  string // "" for all
	out      *output.Printer
	lines    *lines

	known   map[string]*asked // pending, as far as is known
	queue   []string          // to be shown
	current *asked            // shown, and not answered yet
	typing  bool              // a line was asked for and has not come
}

// asked is an approval that was heard of.
type asked struct {
	subjects.Approval
	since   time.Time
	skipped bool
}

// look is how often the list of what is pending is read again, should a message
// have been lost; settling is how long one may take to be in it.
const (
	look     = 30 * time.Second
	settling = 10 * time.Second
)

func (w *watch) run(ctx context.Context, news <-chan client.ApprovalNews) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		w.show()
		if err := w.out.Err(); err != nil {
			return fmt.Errorf("writing to standard output: %w", err)
		}
		select {
		case n, ok := <-news:
			switch {
			case !ok:
				return nil
			case n.Requested != nil:
				w.add(*n.Requested)
			case n.Settled != nil:
				w.ended(n.Settled.ID, outcome(*n.Settled))
			}
		case line, ok := <-w.lines.C:
			if !ok {
				w.leave()
				return w.out.Err()
			}
			w.typed(ctx, line)
		case <-w.expiry():
			w.ended(w.current.ID, w.current.ID+" expired")
		case <-tick.C:
			w.reconcile(ctx)
		case <-ctx.Done():
			w.leave()
			return w.out.Err()
		}
	}
}

func (w *watch) add(a subjects.Approval) {
	if w.known[a.ID] != nil || w.session != "" && a.Session != w.session {
		return
	}
	w.known[a.ID] = &asked{Approval: a, since: time.Now()}
	w.queue = append(w.queue, a.ID)
}

// show asks about the next one. It waits for the line that was asked for an
// approval that has ended since: that line must not decide on another.
func (w *watch) show() {
	if w.current != nil || w.typing || len(w.queue) == 0 {
		return
	}
	w.current, w.queue = w.known[w.queue[0]], w.queue[1:]
	w.out.Blank()
	printApproval(w.out, w.current.Approval, time.Now())
	w.ask()
}

func (w *watch) ask() {
	var words []string
	for _, c := range w.current.Choices {
		words = append(words, map[subjects.Choice]string{
			subjects.ChoiceOnce: "(o)nce", subjects.ChoiceSession: "(s)ession", subjects.ChoiceAlways: "(a)lways", subjects.ChoiceDeny: "(d)eny",
		}[c])
	}
	w.out.Prompt(strings.Join(append(words, "skip?"), ", "))
	w.typing = true
	w.lines.Ask()
}

// typed takes a line. One that comes when nothing is asked means nothing.
func (w *watch) typed(ctx context.Context, line string) {
	if !w.typing {
		return
	}
	w.typing = false
	if !w.lines.Terminal {
		w.out.Blank() // where no terminal echoes the end of the line
	}
	if w.current == nil {
		return // it was asked for one that has ended
	}
	choice, reason, ok := readChoice(line, w.current.Choices)
	switch {
	case !ok:
		w.out.Line(0, "Type o, s, a, d or skip; words behind it are the reason.")
		w.ask()
	case choice == "":
		w.out.Line(0, fmt.Sprintf("Left to others: toolbridge approvals decide %s once", w.current.ID))
		w.current.skipped = true
		w.current = nil
	default:
		w.decide(ctx, choice, reason)
	}
}

// readChoice reads an answer: the word, or its first letter, of a choice that is
// offered, or skip; then the reason.
func readChoice(line string, offered []subjects.Choice) (c subjects.Choice, reason string, ok bool) {
	word, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
	word = strings.ToLower(word)
	if word == "skip" {
		return "", "", true
	}
	for _, c := range offered {
		if word != "" && (word == string(c) || word == string(c)[:1]) {
			return c, strings.TrimSpace(reason), true
		}
	}
	return "", "", false
}

func (w *watch) decide(ctx context.Context, choice subjects.Choice, reason string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := w.approver.Decide(ctx, client.Answer(w.current.Approval, choice, reason))
	var e *subjects.Error
	switch {
	case err == nil:
		w.out.Line(0, outcome(*d))
		w.forget(d.ID)
	case errors.As(err, &e) && e.Code == subjects.CodeArgumentsChanged:
		w.out.Line(0, e.Message)
		w.forget(w.current.ID) // the list has it as it is
		w.reconcile(ctx)
	case errors.As(err, &e) && !e.Retryable:
		w.out.Line(0, e.Message)
		w.forget(w.current.ID)
	case errors.Is(err, nats.ErrNoResponders):
		w.out.Line(0, "No worker answers now; the decision was not taken. Try again.")
		w.ask()
	default:
		w.out.Line(0, fmt.Sprintf("It is not known whether that was taken; the same again is safe. (%v)", err))
		w.ask()
	}
}

// forget drops an approval that is settled.
func (w *watch) forget(id string) {
	delete(w.known, id)
	w.queue = slices.DeleteFunc(w.queue, func(q string) bool { return q == id })
	if w.current != nil && w.current.ID == id {
		w.current = nil
	}
}

// ended says that an approval was settled by somebody else, or by nobody.
func (w *watch) ended(id, how string) {
	a := w.known[id]
	if a == nil {
		return // decided here, or never shown
	}
	if shown := a == w.current; shown {
		w.out.Blank()
		w.out.Line(0, "Settled meanwhile: "+how)
		if w.typing {
			w.out.Prompt("Press Enter to go on:")
		}
	} else {
		w.out.Line(0, "Settled: "+how)
	}
	w.forget(id)
}

// expiry comes when the time of what is shown is over.
func (w *watch) expiry() <-chan time.Time {
	if w.current == nil {
		return nil
	}
	until, err := time.Parse(time.RFC3339Nano, w.current.ExpiresAt)
	if err != nil {
		return nil
	}
	return time.After(max(0, time.Until(until)) + time.Second) // the word of the worker comes first
}

// reconcile reads what is pending, for messages that did not come.
func (w *watch) reconcile(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before := time.Now()
	list, err := w.approver.List(ctx, w.session)
	if err != nil {
		return // the next time
	}
	pending := map[string]bool{}
	for _, a := range list.Approvals {
		pending[a.ID] = true
		w.add(a)
	}
	if list.Omitted > 0 {
		return
	}
	for id, a := range w.known {
		if !pending[id] && before.Sub(a.since) > settling {
			w.ended(id, id+" is no longer pending")
		}
	}
}

// leave says what stays undecided.
func (w *watch) leave() {
	w.out.Blank()
	if n := len(w.known); n > 0 {
		w.out.Line(0, fmt.Sprintf("Left undecided: %s. See toolbridge approvals list.", count(n, "approval")))
	}
}
