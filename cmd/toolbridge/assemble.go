package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type assembleCommand struct {
	Input            string   `arg:"" optional:"" type:"existingfile" name:"file" help:"A whole request (JSON object) or tool definitions (JSON array); - is standard input."`
	Tools            string   `type:"existingfile" placeholder:"FILE" help:"Tool definitions, a JSON array; - is standard input."`
	Toolset          []string `sep:"none" placeholder:"NAME" help:"Toolset of the registry; may be repeated. Without file, --tools and --toolset: all toolsets."`
	EnabledToolsets  []string `sep:"none" placeholder:"NAME" help:"Only tools of these toolsets; may be repeated."`
	DisabledToolsets []string `sep:"none" placeholder:"NAME" help:"No tools of these toolsets; may be repeated."`
	ContextLength    int64    `placeholder:"TOKENS" help:"Length of the model's context."`
	Surface          string   `enum:"desktop,tui,cli,messaging,scheduled,side" default:"cli" help:"Where the user sits: ${enum}."`
	Dialect          string   `enum:",openai,responses,anthropic,mcp" default:"" placeholder:"NAME" help:"Dialect of the definitions: openai, responses, anthropic or mcp. Default: that of the first tool."`
	Settings         string   `placeholder:"JSON" help:"Settings of tool search for this assembly, as a JSON object."`
	sessionFlags
}

func (c *assembleCommand) Run(ctx context.Context, p *program) error {
	r, err := c.request(p)
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
	body, err := s.Request(ctx, subjects.VerbAssemble, r)
	if err != nil {
		return c.fail(p, err)
	}
	if c.JSON {
		return printLine(p.stdout, body)
	}
	var reply subjects.AssembleReply
	if err := subjects.Decode(body, &reply); err != nil {
		return c.fail(p, err)
	}
	return c.print(p, &reply)
}

// request is what is sent: a message of its own, for a request that was given
// whole as it came.
func (c *assembleCommand) request(p *program) (any, error) {
	tools := c.Tools
	if c.Input != "" {
		if tools != "" {
			return nil, usagef("definitions are named twice: by --tools and as an argument")
		}
		data, err := readInput(p, c.Input)
		if err != nil {
			return nil, err
		}
		if k := jsontext.Value(data).Kind(); k == '{' {
			if err := c.onlyFile(); err != nil {
				return nil, err
			}
			return checkJSON(data, '{', "a request is expected in "+named(c.Input))
		}
		raw, err := checkJSON(data, '[', "a request object or an array of tool definitions is expected in "+named(c.Input))
		if err != nil {
			return nil, err
		}
		return c.fill(subjects.AssembleRequest{Tools: raw})
	}
	var r subjects.AssembleRequest
	if tools != "" {
		raw, err := readJSON(p, tools, '[', "--tools: an array of tool definitions")
		if err != nil {
			return nil, err
		}
		r.Tools = raw
	}
	return c.fill(r)
}

func (c *assembleCommand) onlyFile() error {
	if len(c.Toolset)+len(c.EnabledToolsets)+len(c.DisabledToolsets) > 0 || c.ContextLength != 0 || c.Dialect != "" || c.Settings != "" {
		return usagef("%s holds a whole request: put toolsets, context length, dialect and settings into it", named(c.Input))
	}
	return nil
}

func (c *assembleCommand) fill(r subjects.AssembleRequest) (any, error) {
	r.Toolsets, r.DisabledToolsets = c.Toolset, c.DisabledToolsets
	r.EnabledToolsets, r.Surface, r.Dialect = c.EnabledToolsets, c.Surface, c.Dialect
	if len(r.Tools) == 0 && len(r.Toolsets) == 0 {
		r.Toolsets = client.AllToolsets()
	}
	if c.ContextLength < 0 {
		return nil, usagef("--context-length: must not be negative")
	}
	if c.ContextLength > 0 {
		r.ContextLength = &c.ContextLength
	}
	if c.Settings != "" {
		raw, err := checkJSON([]byte(c.Settings), '{', "--settings: an object is expected")
		if err != nil {
			return nil, err
		}
		r.Config = raw
	}
	return r, nil
}

func (c *assembleCommand) print(p *program, r *subjects.AssembleReply) error {
	out := output.New(p.stdout, p.lookup)
	var visible []string
	for _, t := range r.Tools {
		visible = append(visible, toolName(t))
	}
	rows := [][]string{
		{"catalog", r.Catalog},
		{"tool search", activation(r)},
		{"visible tools", strings.Join(visible, ", ")},
		{"deferred tools", fmt.Sprintf("%d (about %d tokens)", r.DeferredCount, r.DeferredTokens)},
		{"listing", fmt.Sprintf("%s, about %d of %d tokens", r.ListingForm, r.ListingTokens, r.ListingBudgetTokens)},
	}
	if len(visible) == 0 {
		rows[2][1] = "none"
	}
	out.Rows(0, rows)
	printWarnings(out, r.Warnings)
	return out.Err()
}

func activation(r *subjects.AssembleReply) string {
	if !r.Activated {
		return "not active: nothing is deferred, or it is switched off"
	}
	return fmt.Sprintf("active, tier %d", r.Tier)
}

func printWarnings(out *output.Printer, warnings []subjects.Warning) {
	if len(warnings) == 0 {
		return
	}
	out.Blank()
	out.Heading("warnings")
	rows := make([][]string, 0, len(warnings))
	for _, w := range warnings {
		rows = append(rows, []string{string(w.Code), w.Tool, w.Message})
	}
	out.Rows(2, rows)
}

// toolName is the name of a definition in any dialect.
func toolName(raw json.RawMessage) string {
	var d struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return "?"
	}
	names := slices.DeleteFunc([]string{d.Function.Name, d.Name, "?"}, func(s string) bool { return s == "" })
	return names[0]
}
