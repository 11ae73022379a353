package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type stopCommand struct {
	CallID string `arg:"" optional:"" name:"call_id" help:"Id of the call. Default: all calls of the session."`
	sessionFlags
}

func (c *stopCommand) Run(ctx context.Context, p *program) error {
	if c.CallID != "" {
		if err := subjects.CheckToken("call id", c.CallID); err != nil {
			return usageError{err}
		}
	}
	s, stop, err := c.open(ctx)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	ctx, cancel := c.within(ctx, patience)
	defer cancel()
	body, err := s.Request(ctx, subjects.VerbStop, subjects.StopRequest{CallID: c.CallID})
	if err != nil {
		return c.fail(p, err)
	}
	if c.JSON {
		return printLine(p.stdout, body)
	}
	var r subjects.StopReply
	if err := subjects.Decode(body, &r); err != nil {
		return c.fail(p, err)
	}
	out := output.New(p.stdout, p.lookup)
	printStopped(out, c.CallID, r.Stopped)
	return out.Err()
}

func printStopped(out *output.Printer, id string, stopped []subjects.Stopped) {
	met := false
	for _, s := range stopped {
		if len(s.Interrupted)+len(s.InFlight) == 0 {
			continue
		}
		met = true
		out.Heading(s.CallID)
		if len(s.Interrupted) > 0 {
			out.Line(2, "interrupted, will never start: "+entries(s.Interrupted))
		}
		if len(s.InFlight) > 0 {
			out.Line(2, "had started and was told to end: "+entries(s.InFlight)+"; the result tells what happened")
		}
	}
	switch {
	case met:
	case id == "":
		out.Line(0, "Nothing of this session was running.")
	default:
		out.Line(0, fmt.Sprintf("Nothing of call %s was running. Should it come within 24 hours, it will not start.", id))
	}
}

func entries(indexes []int) string {
	words := make([]string, 0, len(indexes))
	for _, i := range indexes {
		words = append(words, strconv.Itoa(i))
	}
	if len(words) == 1 {
		return "entry " + words[0]
	}
	return "entries " + strings.Join(words, ", ")
}
