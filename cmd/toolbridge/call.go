package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type callCommand struct {
	Name      string `arg:"" help:"Name of the tool."`
	Arguments string `arg:"" name:"json" help:"Its arguments, a JSON object; - is standard input."`
	ID        string `name:"id" placeholder:"ID" help:"Id of the call, unique in the session for 24 hours: the same call with the same id again gives the same result and runs nothing twice. Default: a new one."`
	Detach    bool   `help:"Only store the call and print its id; \"toolbridge fetch ID\" gives the result."`
	bridgeFlags
}

func (c *callCommand) Run(ctx context.Context, p *program) error {
	r, err := c.request(p)
	if err != nil {
		return err
	}
	s, stop, err := c.open(ctx)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	if c.Detach {
		return c.store(ctx, p, s, r)
	}
	ctx, cancel := c.within(ctx, callPatience)
	defer cancel()
	told := tellApprovals(ctx, p, s, r.ID)
	body, err := s.Request(ctx, subjects.VerbBridge, r)
	told()
	if err != nil {
		return c.unfinished(p, err, r.ID)
	}
	return c.reply(p, body, printResult)
}

func (c *callCommand) request(p *program) (r subjects.BridgeRequest, err error) {
	raw := []byte(c.Arguments)
	if c.Arguments == "-" {
		if c.Tools == "-" {
			return r, usagef("standard input can not be both the arguments and --tools")
		}
		if raw, err = readInput(p, "-"); err != nil {
			return r, err
		}
	}
	arguments, err := checkJSON(raw, '{', "the arguments must be a JSON object")
	if err != nil {
		return r, err
	}
	if strings.TrimSpace(c.Name) == "" {
		return r, usagef("the name of the tool must not be blank")
	}
	if c.ID != "" {
		if err := subjects.CheckToken("id", c.ID); err != nil {
			return r, usagef("--id: %w", err)
		}
	}
	from, err := c.source(p)
	if err != nil {
		return r, err
	}
	if c.Name == subjects.ToolConnections { // the worker's own, not deferred
		r, err = client.NewBridgeRequest(from, c.Name, arguments)
	} else {
		r, err = client.NewBridgeRequest(from, subjects.ToolCall, client.CallArguments{Calls: []client.CallEntry{{Name: c.Name, Arguments: arguments}}})
	}
	if c.ID != "" {
		r.ID = c.ID
	}
	return r, err
}

// store sends the call to be stored and prints its id.
func (c *callCommand) store(ctx context.Context, p *program, s *client.Session, r subjects.BridgeRequest) error {
	ctx, cancel := c.within(ctx, patience)
	defer cancel()
	body, err := s.Request(ctx, subjects.VerbCall, r)
	if err != nil {
		return c.unfinished(p, err, r.ID)
	}
	var refused *client.ResultError
	err = client.Stored(r.ID, body)
	switch {
	case errors.As(err, &refused):
		return c.reply(p, body, printResult)
	case err != nil:
		return c.fail(p, err)
	case c.JSON:
		return printLine(p.stdout, body)
	}
	if err := printLine(p.stdout, []byte(r.ID)); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "toolbridge: stored; its result: toolbridge fetch --wait %s%s\n", r.ID, c.flags())
	return nil
}

// unfinished is fail for a call that may have been stored: it goes on then.
func (c *callCommand) unfinished(p *program, err error, id string) error {
	e, advice := c.explain(err)
	if e.Code == subjects.CodeDeadlineExceeded || errors.Is(err, context.Canceled) || e.Code == subjects.CodeUnavailable && !errors.Is(err, nats.ErrNoResponders) {
		advice = fmt.Sprintf("Once accepted a call goes on. Its result: toolbridge fetch --wait %[1]s%[2]s. To stop it: toolbridge stop %[1]s%[2]s", id, c.flags())
	}
	return c.report(p, e, advice)
}

// tellApprovals says on standard error when a call waits for a person and how
// that ends, until the returned function is called. It is a courtesy: where the
// events can not be had, nothing is said.
func tellApprovals(ctx context.Context, p *program, s *client.Session, id string) (stop func()) {
	feed, err := s.Events(ctx)
	if err != nil {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range feed.C {
			if e.CallID != id {
				continue
			}
			switch {
			case e.Type == subjects.EventApprovalRequested && e.Approval != nil:
				fmt.Fprintf(p.stderr, "toolbridge: %s needs approval %s: see toolbridge approvals list\n", output.Clean(e.Tool), output.Clean(e.Approval.ID))
			case e.Type == subjects.EventApprovalSettled && e.Decision != nil:
				fmt.Fprintf(p.stderr, "toolbridge: approval %s\n", outcome(*e.Decision))
			}
		}
	}()
	return func() {
		feed.Stop()
		<-ended
	}
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
