package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// listedTool is a tool as its server lists it. The JSON is the server's, byte
// for byte.
type listedTool struct {
	Name        string
	Description string
	Parameters  jsontext.Value // the input schema, an object
	Annotations jsontext.Value // an object, or nil when absent
}

// shownTool is a listed tool under the name that the bus knows it by.
type shownTool struct {
	Shown string
	listedTool
}

const (
	maxRawName     = 1024      // bytes of a tool's own name
	maxDescription = 256 << 10 // bytes of a description; longer ones are cut
	maxAnnotations = 64 << 10  // bytes of annotations; longer ones are left out
	maxWarnings    = 200       // warnings of one list
	maxCursor      = 64 << 10  // bytes of a cursor
)

// methodNotFound is JSON-RPC's code for a method that a server does not have.
const methodNotFound = -32601

// list reads every page of tools/list. A server without that method has no
// tools. What is wrong with one tool costs that tool only; a cursor that
// repeats, or one of the bounds, ends the list with a warning and keeps what
// was read.
func (s *session) list(ctx context.Context) ([]listedTool, []Warning, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.ListTimeout, fmt.Errorf("tools/list took longer than %s", s.cfg.ListTimeout))
	defer cancel()
	l := &listing{server: s.cfg.Name, cfg: s.cfg}
	seen := map[string]bool{}
	cursor := ""
	for page := 1; ; page++ {
		result, err := s.request(ctx, func(ctx context.Context) error {
			_, err := s.client.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			return err
		})
		var answered *rpcError
		switch {
		case errors.As(err, &answered) && answered.Code == methodNotFound && page == 1:
			return nil, nil, nil
		case ctx.Err() != nil:
			return nil, nil, context.Cause(ctx)
		case err != nil:
			return nil, nil, fmt.Errorf("tools/list, page %d: %w", page, err)
		}
		next, err := l.page(result)
		if err != nil {
			return nil, nil, fmt.Errorf("tools/list, page %d: %w", page, err)
		}
		switch {
		case next == "" || l.full:
			return l.tools, l.warnings, nil
		case seen[next]:
			l.warn("", fmt.Sprintf("tools/list repeats the cursor of an earlier page on page %d; the rest is not read", page))
			return l.tools, l.warnings, nil
		case page == s.cfg.MaxPages:
			l.warn("", fmt.Sprintf("tools/list has more than %d pages; the rest is not read", page))
			return l.tools, l.warnings, nil
		}
		seen[next] = true
		cursor = next
	}
}

// listing is a list while it is read.
type listing struct {
	server   string
	cfg      ServerConfig
	tools    []listedTool
	warnings []Warning
	bytes    int
	full     bool
}

func (l *listing) warn(tool, message string) {
	if len(l.warnings) < maxWarnings {
		l.warnings = append(l.warnings, Warning{Server: l.server, Tool: cut(oneLine(tool), 200), Message: message})
	}
}

// page takes one result of tools/list and returns the cursor of the next page.
func (l *listing) page(result jsontext.Value) (next string, err error) {
	tools := false
	err = members(result, func(name string, value jsontext.Value) error {
		switch name {
		case "tools":
			tools = true
			if value.Kind() != '[' {
				return errors.New("tools is not an array")
			}
			return elements(value, l.tool)
		case "nextCursor":
			next, _ = text(value)
			if len(next) > maxCursor {
				return fmt.Errorf("nextCursor is %d bytes long", len(next))
			}
		}
		return nil
	})
	if err == nil && !tools {
		err = errors.New("the result has no tools")
	}
	return next, err
}

// tool takes one element of tools.
func (l *listing) tool(value jsontext.Value) error {
	if l.full {
		return nil
	}
	t, warnings, bad := readTool(value, l.cfg.MaxToolBytes)
	for _, w := range warnings {
		l.warn(t.Name, w)
	}
	if bad != nil {
		l.warn(t.Name, "left out: "+bad.Error())
		return nil //nolint:nilerr // one bad tool costs itself only
	}
	size := len(t.Name) + len(t.Description) + len(t.Parameters) + len(t.Annotations)
	switch {
	case len(l.tools) == l.cfg.MaxTools:
		l.full = true
		l.warn("", fmt.Sprintf("more than %d tools; the rest is left out", l.cfg.MaxTools))
		return nil
	case l.bytes+size > l.cfg.MaxListBytes:
		l.full = true
		l.warn("", fmt.Sprintf("the definitions are larger than %d bytes; the tools after the %dth are left out", l.cfg.MaxListBytes, len(l.tools)))
		return nil
	}
	l.bytes += size
	l.tools = append(l.tools, t)
	return nil
}

// readTool takes a tool of tools/list apart. The error says why it can not be
// offered; its Name is then still set when it has one.
func readTool(value jsontext.Value, maxBytes int) (t listedTool, warnings []string, err error) {
	if value.Kind() != '{' {
		return t, nil, errors.New("a definition that is not an object")
	}
	var title, annotated string
	described := false
	err = members(value, func(name string, v jsontext.Value) error {
		switch name {
		case "name":
			t.Name, _ = text(v)
		case "title":
			title, _ = text(v)
		case "description":
			if t.Description, described = text(v); !described && v.Kind() != 'n' {
				warnings = append(warnings, "its description is not a string and is left out")
			}
		case "inputSchema":
			t.Parameters = v.Clone()
		case "annotations":
			t.Annotations = v.Clone()
		}
		return nil
	})
	if err != nil {
		return t, warnings, fmt.Errorf("a definition that is not readable: %w", err)
	}
	switch {
	case t.Name == "":
		return t, warnings, errors.New("a definition without a name")
	case len(t.Name) > maxRawName:
		return t, warnings, fmt.Errorf("its name is %d bytes long; at most %d", len(t.Name), maxRawName)
	case len(t.Parameters) > maxBytes:
		return t, warnings, fmt.Errorf("its schema is %d bytes long; at most %d", len(t.Parameters), maxBytes)
	}
	if k := t.Parameters.Kind(); k != '{' {
		if t.Parameters != nil && k != 'n' {
			warnings = append(warnings, "its input schema is not an object; any arguments are let through")
		}
		t.Parameters = jsontext.Value(`{"type":"object"}`)
	}
	switch {
	case t.Annotations.Kind() == 'n':
		t.Annotations = nil
	case t.Annotations != nil && t.Annotations.Kind() != '{':
		t.Annotations = nil
		warnings = append(warnings, "its annotations are not an object and are left out")
	case len(t.Annotations) > maxAnnotations:
		t.Annotations = nil
		warnings = append(warnings, fmt.Sprintf("its annotations are larger than %d bytes and are left out", maxAnnotations))
	}
	if strings.TrimSpace(t.Description) == "" {
		if t.Annotations != nil && title == "" {
			_ = members(t.Annotations, func(name string, v jsontext.Value) error {
				if name == "title" {
					annotated, _ = text(v)
				}
				return nil
			})
			title = annotated
		}
		t.Description = title
	}
	if len(t.Description) > maxDescription {
		warnings = append(warnings, fmt.Sprintf("its description is %d bytes long and is cut to %d", len(t.Description), maxDescription))
		t.Description = cut(t.Description, maxDescription)
	}
	return t, warnings, nil
}

// encode writes a tool as a definition of the registry.
func (t shownTool) encode(b *bytes.Buffer, s ServerConfig) {
	b.WriteString(`{"name":`)
	b.Write(quote(t.Shown))
	b.WriteString(`,"description":`)
	b.Write(quote(t.Description))
	b.WriteString(`,"parameters":`)
	b.Write(t.Parameters)
	b.WriteString(`,"toolset":`)
	b.Write(quote(s.Toolset()))
	if t.Annotations != nil {
		b.WriteString(`,"annotations":`)
		b.Write(t.Annotations)
	}
	if s.SupportsParallelToolCalls {
		b.WriteString(`,"parallel":true}`)
	} else {
		b.WriteString(`,"parallel":false}`)
	}
}
