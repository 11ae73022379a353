package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type searchCommand struct {
	Query []string `arg:"" help:"${search_help}"`
	Limit int      `placeholder:"N" help:"At most that many matches a query."`
	bridgeFlags
}

func (c *searchCommand) Run(ctx context.Context, p *program) error {
	queries, err := words(p, c.Query)
	if err != nil {
		return err
	}
	if c.Limit < 0 {
		return usagef("--limit: must not be negative")
	}
	return c.use(ctx, p, subjects.ToolSearch, client.SearchArguments{Queries: queries, Limit: c.Limit}, printSearch)
}

func printSearch(out *output.Printer, raw json.RawMessage) error {
	var r subjects.SearchResult
	if err := subjects.Decode(raw, &r); err != nil {
		return fmt.Errorf("the search result can not be read: %w", err)
	}
	for i, g := range r.Results {
		if i > 0 {
			out.Blank()
		}
		out.Heading(g.Query)
		out.Rows(2, foundRows(g.Matches, r.Tools))
		if len(g.Matches) == 0 {
			out.Line(2, fmt.Sprintf("Nothing matches, among %s.", count(r.TotalAvailable, "tool")))
		}
		if len(g.NearMatches) > 0 {
			out.Line(2, "near:")
			out.Rows(4, foundRows(g.NearMatches, r.Tools))
		}
		if len(g.UnmatchedTerms) > 0 {
			out.Line(2, "words that no tool has: "+strings.Join(g.UnmatchedTerms, ", "))
		}
		if len(g.AvailableSources) > 0 {
			var names []string
			for _, s := range g.AvailableSources {
				name := fmt.Sprintf("%s (%d)", s.Name, s.ToolCount)
				if s.Unavailable != "" {
					name = fmt.Sprintf("%s (unavailable: %s)", s.Name, s.Unavailable)
				}
				names = append(names, name)
			}
			out.Line(2, "sources: "+strings.Join(names, ", "))
		}
	}
	if r.TotalAvailable == 0 && len(r.Results) > 0 {
		out.Blank()
		out.Line(0, "This session has no deferred tools. Toolsets of MCP servers are named mcp-NAME; `toolbridge assemble` says which are missing, and why.")
	}
	if c := r.Connectors; c != nil {
		out.Blank()
		out.Line(0, strings.TrimSpace("connectors: "+c.Status+" "+c.Reason+" "+c.Hint))
	}
	return nil
}

func foundRows(names []string, tools map[string]subjects.FoundTool) [][]string {
	rows := make([][]string, 0, len(names))
	for _, name := range names {
		t := tools[name]
		text := t.Description
		if len(t.Required) > 0 {
			text = strings.TrimSpace(text + " (needs " + strings.Join(t.Required, ", ") + ")")
		}
		rows = append(rows, []string{name, text})
	}
	return rows
}
