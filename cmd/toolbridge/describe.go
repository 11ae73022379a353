package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type describeCommand struct {
	Name []string `arg:"" help:"${describe_help}"`
	bridgeFlags
}

func (c *describeCommand) Run(ctx context.Context, p *program) error {
	names, err := words(p, c.Name)
	if err != nil {
		return err
	}
	return c.use(ctx, p, subjects.ToolDescribe, client.DescribeArguments{Names: names}, func(out *output.Printer, raw json.RawMessage) error {
		return printDescribe(out, names, raw)
	})
}

// printDescribe prints the tools in the order in which they were asked for.
func printDescribe(out *output.Printer, names []string, raw json.RawMessage) error {
	var r subjects.DescribeResult
	if err := subjects.Decode(raw, &r); err != nil {
		return fmt.Errorf("the description can not be read: %w", err)
	}
	order := slices.DeleteFunc(slices.Clone(names), func(n string) bool { _, ok := r.Tools[n]; return !ok })
	for _, n := range sortedNames(r.Tools) {
		if !slices.Contains(order, n) {
			order = append(order, n) // found under another spelling
		}
	}
	for i, name := range order {
		if i > 0 {
			out.Blank()
		}
		out.Heading(name)
		out.Line(2, r.Tools[name].Description)
		printParameters(out, 2, r.Tools[name].Parameters)
	}
	for _, name := range sortedNames(r.Errors) {
		out.Line(0, name+": "+r.Errors[name])
	}
	if len(r.NotFound) > 0 {
		out.Line(0, "not found: "+strings.Join(r.NotFound, ", "))
		if r.Hint != "" {
			out.Line(2, r.Hint)
		}
	}
	if c := r.Connectors; c != nil {
		out.Line(0, strings.TrimSpace("connectors: "+c.Status+" "+c.Reason+" "+c.Hint))
	}
	return nil
}

func printParameters(out *output.Printer, indent int, schema json.RawMessage) {
	parameters := output.Parameters(schema)
	if len(parameters) == 0 {
		out.Line(indent, "(no parameters)")
		return
	}
	rows := make([][]string, 0, len(parameters))
	for _, p := range parameters {
		need := "optional"
		if p.Required {
			need = "required"
		}
		rows = append(rows, []string{p.Name, p.Type, need, p.Description})
	}
	out.Rows(indent, rows)
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
