package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type eventsCommand struct {
	Call string `placeholder:"ID" help:"Only events of this call."`
	sessionFlags
}

// Help is shown by --help.
func (eventsCommand) Help() string {
	return "Prints one line for each event until it is interrupted, or --timeout is over. Events are not stored: only what happens from now on is shown."
}

func (c *eventsCommand) Run(ctx context.Context, p *program) error {
	if c.Call != "" {
		if err := subjects.CheckToken("call id", c.Call); err != nil {
			return usagef("--call: %w", err)
		}
	}
	s, stop, err := c.open(ctx)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	subscribing, subscribed := context.WithTimeout(ctx, patience)
	feed, err := s.Events(subscribing)
	subscribed()
	if err != nil {
		return c.fail(p, err)
	}
	defer feed.Stop()
	ctx, cancel := c.within(ctx, 0) // of following, which begins here
	defer cancel()
	fmt.Fprintf(p.stderr, "toolbridge: following session %s of tenant %s\n", c.Session, c.Tenant)
	lost := int64(0)
	for {
		select {
		case e, ok := <-feed.C:
			if !ok {
				return nil
			}
			if c.Call != "" && e.CallID != c.Call {
				continue
			}
			line := eventLine(e.Event)
			if c.JSON {
				line = oneLine(e)
			}
			if err := printLine(p.stdout, []byte(line)); err != nil {
				return err
			}
			if n := feed.Lost(); n > lost {
				fmt.Fprintf(p.stderr, "toolbridge: %s lost: they came faster than they could be printed\n", count(int(n-lost), "event"))
				lost = n
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func oneLine(e client.Event) string {
	v := jsontext.Value(e.JSON).Clone()
	if v.Compact() != nil { // it was readable before
		return string(e.JSON)
	}
	return string(v)
}

// eventLine is an event for people: when, what, of which call, and what the type
// adds.
func eventLine(e subjects.Event) string {
	words := []string{e.CallID}
	if e.Tool != "" {
		words = append(words, e.Tool)
	}
	if e.Index != nil && *e.Index > 0 {
		words = append(words, "(entry "+strconv.Itoa(*e.Index)+")")
	}
	words = append(words, detail(e))
	return fmt.Sprintf("%s  %-18s  %s", clock(e.At), output.Clean(string(e.Type)), output.Clean(strings.Join(words, " ")))
}

func detail(e subjects.Event) string {
	switch {
	case e.Decision != nil:
		return "approval " + outcome(*e.Decision)
	case e.Approval != nil:
		return "approval " + e.Approval.ID + ": " + e.Approval.Reason
	case e.IsError != nil && *e.IsError:
		return strings.TrimSpace("failed " + string(e.Code) + took(e))
	case e.IsError != nil && e.ErrorCount != nil && *e.ErrorCount > 0 && e.TotalCount != nil:
		return fmt.Sprintf("%d of %d failed%s", *e.ErrorCount, *e.TotalCount, took(e))
	case e.IsError != nil:
		return "ok" + took(e)
	case e.TotalCount != nil && *e.TotalCount == 1:
		return "1 entry"
	case e.TotalCount != nil:
		return strconv.Itoa(*e.TotalCount) + " entries"
	case e.Operation != "":
		var targets []string
		for _, t := range e.Targets {
			targets = append(targets, t.Name+" "+string(t.State))
		}
		return e.Operation + " " + strings.Join(targets, ", ")
	}
	return strings.TrimSpace(e.Toolset + " " + e.Catalog)
}

func took(e subjects.Event) string {
	if e.DurationMS == nil {
		return ""
	}
	return " in " + (time.Duration(*e.DurationMS) * time.Millisecond).String()
}

// clock is a time of the bus on the wall of whoever reads it.
func clock(at string) string {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return output.Clean(at)
	}
	return t.Local().Format("15:04:05.000")
}

// outcome says how an approval ended.
func outcome(d subjects.Decision) string {
	s := d.ID + " " + string(d.State)
	if d.Choice != "" && d.Choice != subjects.ChoiceDeny {
		s += " (" + string(d.Choice) + ")"
	}
	if d.By != "" {
		s += " by " + d.By
	}
	if d.Reason != "" && d.Reason != string(d.State) {
		s += ": " + d.Reason
	}
	return output.Clean(s)
}
