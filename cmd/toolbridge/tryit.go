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
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, server := range d.servers() {
		if server.State != subjects.StateReady || server.ToolCount == 0 {
			continue
		}
		from := client.Source{Assemble: subjects.AssembleRequest{Toolsets: []string{server.Toolset}}}
		found, err := d.session.Search(ctx, from, client.SearchArguments{Queries: []string{server.Name}, Limit: 25})
		if err != nil || len(found.Results) == 0 || len(found.Results[0].Matches) == 0 {
			continue
		}
		e := d.plainest(ctx, from, found.Results[0].Matches)
		e.query = output.Clean(strings.NewReplacer("_", " ", "-", " ").Replace(strings.TrimPrefix(e.tool, "mcp__")))
		return e, true
	}
	return example{}, false
}

// plainest picks the tool that made-up arguments are most likely to satisfy, and
// that is most likely to change nothing.
func (d *dev) plainest(ctx context.Context, from client.Source, names []string) example {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return doubts(a, "", nil) - doubts(b, "", nil) })
	names = names[:min(len(names), 10)] // what one describe answers
	best, least := example{tool: names[0], arguments: "{}"}, -1
	described, err := d.session.Describe(ctx, from, names...)
	if err != nil {
		return best
	}
	for _, name := range names {
		tool := described.Tools[name]
		parameters := output.Parameters(tool.Parameters)
		if doubt := doubts(name, tool.Description, parameters); least < 0 || doubt < least {
			best, least = example{tool: name, arguments: sample(parameters)}, doubt
		}
	}
	return best
}

// doubts counts what speaks against a tool as an example.
func doubts(name, description string, parameters []output.Parameter) int {
	n := 4
	short := strings.ToLower(name[strings.LastIndex(name, "__")+1:])
	for _, verb := range []string{"echo", "list", "read", "get", "show", "search"} {
		if strings.HasPrefix(strings.TrimLeft(short, "_"), verb) {
			n = 0
		}
	}
	if strings.Contains(strings.ToLower(description), "deprecated") {
		n += 8
	}
	for _, p := range parameters {
		switch plain := p.Name == "message" || p.Name == "text" || p.Name == "query"; {
		case !p.Required || plain:
		default:
			n += 3
		}
	}
	return n
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
