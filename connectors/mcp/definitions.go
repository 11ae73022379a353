package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// definitions are the tools of one server as they stand in the registry.
type definitions struct {
	blob   []byte // JSON array
	sha256 string // hex, of blob
	tools  map[string]offered
}

// offered is a tool that can be called.
type offered struct {
	Name   string // the server's own
	sha256 string // of the definition, as the bus contract computes it
}

// define encodes the tools of a server and hashes them as every reader of the
// registry will. A definition that readers leave out is not offered either.
func define(cfg ServerConfig, tools []shownTool) (*definitions, []Warning, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, t := range tools {
		if i > 0 {
			b.WriteByte(',')
		}
		t.encode(&b, cfg)
	}
	b.WriteByte(']')
	sum := sha256.Sum256(b.Bytes())
	d := &definitions{blob: b.Bytes(), sha256: hex.EncodeToString(sum[:]), tools: make(map[string]offered, len(tools))}

	decoded, found, err := catalog.Decode(d.blob, catalog.Limits{})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the definitions of MCP server %q back: %w", cfg.Name, err)
	}
	raw := make(map[string]string, len(tools))
	for _, t := range tools {
		raw[t.Shown] = t.Name
	}
	for i := range decoded {
		d.tools[decoded[i].Name] = offered{Name: raw[decoded[i].Name], sha256: decoded[i].SHA256()}
	}
	var warnings []Warning
	for _, w := range found {
		warnings = append(warnings, Warning{Server: cfg.Name, Tool: w.Tool, Message: w.Message})
	}
	return d, warnings, nil
}

// lookup finds the tool of a request, if the request means this definition.
func (d *definitions) lookup(server string, req subjects.ExecRequest) (offered, *refusal) {
	t, ok := d.tools[req.Tool]
	switch {
	case !ok:
		return t, refuse(subjects.CodeDefinitionMismatch, "MCP server %q offers no tool %q", server, cut(oneLine(req.Tool), 100))
	case t.sha256 != req.DefinitionSHA256:
		return t, refuse(subjects.CodeDefinitionMismatch, "tool %q has changed: its definition is %s, the call was made for %q", req.Tool, t.sha256, cut(oneLine(req.DefinitionSHA256), 80))
	}
	return t, nil
}
