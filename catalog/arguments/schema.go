package arguments

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Schema holds the arguments of one tool against its parameters. It is
// compiled once, never changes, and is safe for concurrent use.
type Schema struct {
	source   jsontext.Value
	required []string
	graph    *graph            // nil when there is nothing to hold arguments against
	patterns map[string]string // a pattern as the validator has it, and as the schema spells it
	notes    []string
}

// Compile prepares a tool's parameters, a JSON Schema of draft 4, 6, 7, 2019-09
// or 2020-12 by its $schema, 2020-12 when it names none that is known. It never
// fails: what can not be enforced is left out, and Notes tells of it. A schema
// that is absent, or no object, takes any arguments; so does one that is
// invalid, refers to another document or to nothing, or is larger than 1 MiB,
// 2,000 subschemas or 128 levels, apart from its top-level required. Nothing is
// ever fetched. The schema must not be changed afterwards.
func Compile(schema []byte) *Schema {
	s := &Schema{source: schema}
	if len(bytes.TrimSpace(schema)) == 0 {
		return s
	}
	s.required = requiredOf(schema)
	d, note := readDocument(schema)
	if d == nil {
		if note != "" {
			s.notes = append(s.notes, note)
		}
		return s
	}
	d.discover()
	d.checkShapes()
	d.weaken()
	d.allowNulls()
	d.relink()
	s.graph = buildGraph(d)
	if d.unenforceable == "" {
		if err := s.graph.attach(d); err != nil {
			d.giveUp(validatorError(err))
		}
	}
	s.notes, s.patterns = d.notes, d.spelled
	return s
}

// Notes says, one sentence each, what of the schema is not enforced and why;
// empty when all of it is.
func (s *Schema) Notes() []string { return s.notes }

// Enforced tells whether arguments are held against the schema, at least in
// part, beyond the required parameters.
func (s *Schema) Enforced() bool { return s.graph != nil && s.graph.root.checker != nil }

// attach gives the nodes that repair asks their checkers.
func (g *graph) attach(d *document) error {
	asked := g.reachable()
	pointers := make([]string, len(asked))
	for i, n := range asked {
		pointers[i] = n.pointer
	}
	root, at, err := compileCheckers(appendJSON(nil, d.root), d.draft, pointers)
	if err != nil {
		return err
	}
	for _, n := range asked {
		n.checker = at[n.pointer]
	}
	g.root.checker = root
	return nil
}

// reachable are the nodes below the root that repair follows.
func (g *graph) reachable() []*node {
	seen := map[*node]bool{g.root: true, nil: true}
	queue := []*node{g.root}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		add := func(subs ...*node) {
			for _, sub := range subs {
				if !seen[sub] {
					seen[sub] = true
					queue = append(queue, sub)
				}
			}
		}
		if p := n.doc.member("properties"); p != nil && p.kind == '{' {
			for i := range p.children {
				add(n.properties[p.children[i].name])
			}
		}
		add(n.prefix...)
		add(n.items, n.ref)
		add(n.allOf...)
		add(n.anyOf...)
		add(n.oneOf...)
	}
	return queue[1:]
}

// requiredOf reads the names in the top-level required of a schema of any size.
func requiredOf(schema []byte) []string {
	dec, err := newDecoder(schema, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil
	}
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil
	}
	var names []string
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return names
		}
		if name.String() != "required" {
			if err := dec.SkipValue(); err != nil {
				return names
			}
			continue
		}
		list, err := dec.ReadValue()
		if err != nil {
			return names
		}
		v, err := parse(list.Clone(), limits{maxSchemaBytes, maxSchemaDepth, maxSchemaValues}, jsontext.AllowDuplicateNames(true))
		if err != nil {
			return names
		}
		names = unique(stringsOf(v))
	}
	return names
}

func unique(names []string) []string {
	seen := make(map[string]bool, len(names))
	kept := names[:0]
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			kept = append(kept, n)
		}
	}
	return kept
}
