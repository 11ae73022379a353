package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/connectors/mcp"
	"toolbridge/subjects"
)

// devSession is the session as which dev itself asks its worker.
const devSession = "dev"

// seen waits until the worker offers what the MCP servers have registered, so
// that the first request after the ready line finds it.
func (d *dev) seen(ctx context.Context) {
	var toolsets []string
	for _, s := range d.servers() {
		if s.State == subjects.StateReady {
			toolsets = append(toolsets, s.Toolset)
		}
	}
	if len(toolsets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		reply, err := d.session.Assemble(ctx, subjects.AssembleRequest{Toolsets: toolsets})
		if err == nil && !slices.ContainsFunc(reply.Warnings, func(w subjects.Warning) bool { return w.Code == subjects.WarnToolsetUnavailable }) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.log.Warn("the worker does not offer every toolset yet", "error", err)
			return
		}
	}
}

func (d *dev) servers() []mcp.ServerStatus {
	if d.host == nil {
		return nil
	}
	return d.host.Status()
}

// tryIt says how the MCP servers stand and what to type next.
func (d *dev) tryIt(ctx context.Context, w io.Writer, store string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nNATS at %s, data in %s. Nothing is protected: for this machine only.\n", d.server.URL(), store)
	for _, s := range d.servers() {
		stands := count(s.ToolCount, "tool")
		if s.State != subjects.StateReady {
			stands = strings.TrimSpace(s.State + ": " + s.Reason)
		}
		fmt.Fprintf(&b, "MCP server %s: %s\n", s.Name, output.Clean(stands))
	}
	flag := ""
	if url := d.server.URL(); url != defaultNATS {
		flag = " --nats " + url
	}
	e, ok := d.example(ctx)
	if !ok {
		fmt.Fprintf(&b, "\nThere is no tool yet. Start again with an MCP server:\n  toolbridge dev --mcp everything='npx -y @modelcontextprotocol/server-everything'\n")
	} else {
		fmt.Fprintf(&b, "\nTry, in another terminal:\n")
		fmt.Fprintf(&b, "  toolbridge search %s%s\n", shellQuote(e.query), flag)
		fmt.Fprintf(&b, "  toolbridge describe %s%s\n", shellQuote(e.tool), flag)
		fmt.Fprintf(&b, "  toolbridge call %s %s%s\n", shellQuote(e.tool), shellQuote(e.arguments), flag)
	}
	fmt.Fprintf(&b, "Stop with Ctrl-C.\n")
	_, _ = io.WriteString(w, b.String()) // help only
}

// example is a tool to try.
type example struct{ query, tool, arguments string }

// example looks for the first tool of the first server that has one.
func (d *dev) example(ctx context.Context) (example, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, server := range d.servers() {
		if server.State != subjects.StateReady || server.ToolCount == 0 {
			continue
		}
		from := client.Source{Assemble: subjects.AssembleRequest{Toolsets: []string{server.Toolset}}}
		found, err := d.session.Search(ctx, from, client.SearchArguments{Queries: []string{server.Name}, Limit: 1})
		if err != nil || len(found.Results) == 0 || len(found.Results[0].Matches) == 0 {
			continue
		}
		e := example{tool: found.Results[0].Matches[0], arguments: "{}"}
		e.query = output.Clean(strings.NewReplacer("_", " ", "-", " ").Replace(strings.TrimPrefix(e.tool, "mcp__")))
		if described, err := d.session.Describe(ctx, from, e.tool); err == nil {
			e.arguments = sample(output.Parameters(described.Tools[e.tool].Parameters))
		}
		return e, true
	}
	return example{}, false
}

// sample are arguments of the right types for the required parameters.
func sample(parameters []output.Parameter) string {
	var members []string
	for _, p := range parameters {
		if !p.Required {
			continue
		}
		value := `"…"`
		switch first, _, _ := strings.Cut(p.Type, "|"); {
		case first == "string":
			value = `"hello"`
		case first == "integer" || first == "number":
			value = "1"
		case first == "boolean":
			value = "true"
		case first == "array":
			value = "[]"
		case first == "object":
			value = "{}"
		case strings.HasPrefix(first, `"`):
			value = first // of an enumeration
		}
		name, err := subjects.Encode(p.Name)
		if err != nil {
			continue
		}
		members = append(members, string(name)+":"+value)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// shellQuote makes one word of a POSIX shell.
func shellQuote(s string) string {
	s = output.Clean(s)
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
