package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"toolbridge/client"
	"toolbridge/subjects"
)

// maxInput bounds a file or standard input.
const maxInput = 64 << 20

// sourceFlags say which tools a verb is about.
type sourceFlags struct {
	Catalog string   `xor:"catalog,catalogset" placeholder:"REF" help:"Catalog of an earlier assembly (sha256:…)."`
	Tools   string   `xor:"catalog" type:"existingfile" placeholder:"FILE" help:"Tool definitions, a JSON array; - is standard input."`
	Toolset []string `xor:"catalogset" sep:"none" placeholder:"NAME" help:"Toolset of the registry; may be repeated. Without --catalog, --tools and --toolset: all toolsets."`
}

// source reads what the flags name.
func (f sourceFlags) source(p *program) (client.Source, error) {
	if f.Catalog != "" {
		return client.Catalog(f.Catalog), nil
	}
	r, err := f.request(p)
	return client.Source{Assemble: r}, err
}

func (f sourceFlags) request(p *program) (subjects.AssembleRequest, error) {
	r := subjects.AssembleRequest{Toolsets: f.Toolset, Surface: subjects.SurfaceCLI}
	if f.Tools != "" {
		tools, err := readJSON(p, f.Tools, '[', "--tools: an array of tool definitions")
		if err != nil {
			return r, err
		}
		r.Tools = tools
	}
	if f.Tools == "" && len(f.Toolset) == 0 {
		r.Toolsets = client.AllToolsets()
	}
	return r, nil
}

// catalog is the reference that a verb needs, assembling first where no
// --catalog is given.
func (f sourceFlags) catalog(ctx context.Context, p *program, s *client.Session) (string, error) {
	if f.Catalog != "" {
		return f.Catalog, nil
	}
	r, err := f.request(p)
	if err != nil {
		return "", err
	}
	reply, err := s.Assemble(ctx, r)
	if err != nil {
		return "", err
	}
	return reply.Catalog, nil
}

// readInput reads a file, or standard input for -.
func readInput(p *program, path string) ([]byte, error) {
	from := p.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, usageError{err}
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", named(path), err)
	}
	if len(data) > maxInput {
		return nil, usagef("%s has more than %d bytes", named(path), maxInput)
	}
	return data, nil
}

func named(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// readJSON reads a JSON text that begins with first; what says what is
// expected.
func readJSON(p *program, path string, first byte, what string) (json.RawMessage, error) {
	data, err := readInput(p, path)
	if err != nil {
		return nil, err
	}
	return checkJSON(data, first, fmt.Sprintf("%s is expected in %s", what, named(path)))
}

func checkJSON(data []byte, first byte, expected string) (json.RawMessage, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, usagef("%s, but it is empty", expected)
	}
	var v json.RawMessage
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, usagef("%s: not valid JSON: %w", expected, err)
	}
	if data[0] != first {
		return nil, usagef("%s, not %s", expected, kindOf(data[0]))
	}
	return data, nil
}

func kindOf(first byte) string {
	switch first {
	case '{':
		return "a JSON object"
	case '[':
		return "a JSON array"
	case '"':
		return "a JSON string"
	}
	return "a bare value"
}

// words are arguments, with - replaced by the lines of standard input.
func words(p *program, args []string) ([]string, error) {
	var out []string
	for _, a := range args {
		if a != "-" {
			out = append(out, a)
			continue
		}
		data, err := readInput(p, a)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
	}
	return out, nil
}

func printLine(w io.Writer, body []byte) error {
	if _, err := w.Write(append(bytes.TrimRight(body, "\n"), '\n')); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	return nil
}
