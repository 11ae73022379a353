package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type callCommand struct {
	Name      string `arg:"" help:"Name of the tool."`
	Arguments string `arg:"" name:"json" help:"Its arguments, a JSON object; - is standard input."`
	bridgeFlags
}

func (c *callCommand) Run(ctx context.Context, p *program) error {
	raw := []byte(c.Arguments)
	what := "the arguments must be a JSON object"
	if c.Arguments == "-" {
		if c.Tools == "-" {
			return usagef("standard input can not be both the arguments and --tools")
		}
		data, err := readInput(p, "-")
		if err != nil {
			return err
		}
		raw = data
	}
	arguments, err := checkJSON(raw, '{', what)
	if err != nil {
		return err
	}
	if strings.TrimSpace(c.Name) == "" {
		return usagef("the name of the tool must not be blank")
	}
	calls := client.CallArguments{Calls: []client.CallEntry{{Name: c.Name, Arguments: arguments}}}
	return c.use(ctx, p, subjects.ToolCall, calls, callPatience, printResult)
}

// printResult prints a tool's own result: text as text, content blocks one
// after another, anything else as indented JSON.
func printResult(out *output.Printer, raw json.RawMessage) error {
	if jsontext.Value(raw).Kind() == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err == nil {
			out.Block(text)
			return nil
		}
	}
	if blocks, ok := contentBlocks(raw); ok {
		for _, b := range blocks {
			out.Block(b)
		}
		return nil
	}
	out.Block(output.Indented(raw))
	return nil
}

// contentBlocks reads {"content":[…]} with nothing else beside it; blocks that
// are not text are named.
func contentBlocks(raw json.RawMessage) ([]string, bool) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || len(members) != 1 {
		return nil, false
	}
	var content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		MIMEType string `json:"mimeType"`
		Data     string `json:"data"`
		URI      string `json:"uri"`
		Resource struct {
			URI  string `json:"uri"`
			Text string `json:"text"`
		} `json:"resource"`
	}
	if err := json.Unmarshal(members["content"], &content); err != nil || len(content) == 0 {
		return nil, false
	}
	var out []string
	for _, b := range content {
		switch b.Type {
		case "text":
			out = append(out, b.Text)
		case "image", "audio":
			out = append(out, fmt.Sprintf("[%s %s, %d characters of base64; --json shows it]", b.Type, b.MIMEType, len(b.Data)))
		case "resource":
			out = append(out, strings.TrimSpace(fmt.Sprintf("[resource %s] %s", b.Resource.URI, b.Resource.Text)))
		case "resource_link":
			out = append(out, fmt.Sprintf("[resource %s]", b.URI))
		default:
			return nil, false
		}
	}
	return out, true
}
