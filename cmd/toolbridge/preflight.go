package main

import (
	"context"
	"slices"

	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type preflightCommand struct {
	Name []string `arg:"" help:"Names of tools; - reads them from standard input, one a line."`
	bridgeFlags
}

func (c *preflightCommand) Run(ctx context.Context, p *program) error {
	names, err := words(p, c.Name)
	if err != nil {
		return err
	}
	s, stop, err := c.open(ctx)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	ctx, cancel := c.within(ctx, patience)
	defer cancel()
	catalog, err := c.catalog(ctx, p, s)
	if err != nil {
		return c.fail(p, err)
	}
	body, err := s.Request(ctx, subjects.VerbPreflight, subjects.PreflightRequest{Names: names, Catalog: catalog})
	if err != nil {
		return c.fail(p, err)
	}
	if c.JSON {
		return printLine(p.stdout, body)
	}
	var r subjects.PreflightReply
	if err := subjects.Decode(body, &r); err != nil {
		return c.fail(p, err)
	}
	out := output.New(p.stdout, p.lookup)
	var rows [][]string
	for _, name := range slices.Compact(names) {
		t, ok := r.Tools[name]
		if !ok {
			rows = append(rows, []string{name, "no answer", ""})
			continue
		}
		rows = append(rows, []string{name, verdict(t), string(t.Code) + " " + t.Reason})
	}
	out.Rows(0, rows)
	return out.Err()
}

func verdict(t subjects.Preflight) string {
	v := "callable"
	switch {
	case !t.Callable:
		return "not callable"
	case t.NeedsApproval:
		v = "callable after approval"
	}
	if t.Parallel {
		v += ", in parallel"
	}
	return v
}
