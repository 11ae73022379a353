package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file.
const (
	maxBytes  = 256 << 10
	maxDepth  = 64
	maxValues = 20_000
)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindList
	kindMapping
)

func (k kind) String() string {
	return [...]string{"nothing", "a boolean", "a number", "a text", "a list", "a mapping"}[k]
}

// node is one value of a file with its place; aliases and merges are resolved.
type node struct {
	kind         kind
	text         string // kindText: the text; kindNumber: a JSON number, nan, inf or -inf
	truth        bool   // kindBool
	line, column int
	items        []*node
	members      []member
}

type member struct {
	key          string
	line, column int
	value        *node
}

// member returns the value of a key, nil when the mapping has none; of
// duplicates the last.
func (n *node) member(key string) *node {
	var found *node
	for _, m := range n.members {
		if m.key == key {
			found = m.value
		}
	}
	return found
}

// parse turns a file into its root node; nil for an empty file.
func parse(data []byte) (*node, *Problem) {
	if len(data) > maxBytes {
		return nil, &Problem{Line: 1, Column: 1, Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), maxBytes)}
	}
	if p := checkText(data); p != nil {
		return nil, p
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxProblem(err)
	}
	var body ast.Node
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			p := problemAt(d.Body, "a second document begins here: one file holds one document")
			return nil, &p
		}
		body = d.Body
	}
	if body == nil {
		return nil, nil
	}
	b := builder{anchors: map[string]*node{}}
	root, err := b.build(body, 0)
	if err != nil {
		var at *placed
		if errors.As(err, &at) {
			return nil, &at.Problem
		}
		return nil, &Problem{Line: 1, Column: 1, Message: err.Error()}
	}
	return root, nil
}

// checkText refuses what the YAML parser would read wrongly or slowly: text
// that is no UTF-8, and nesting without end (its time grows with the square of
// the depth).
func checkText(data []byte) *Problem {
	line, nested, dashes, fresh := 1, 0, 0, true
	for i, c := range data {
		switch {
		case c == '\n':
			line, dashes, fresh = line+1, 0, true
			continue
		case c == '[' || c == '{':
			nested++
		case c == ']' || c == '}':
			nested = max(0, nested-1)
		case fresh && c == '-' && i+1 < len(data) && data[i+1] == ' ':
			dashes++
		}
		if c != ' ' && c != '-' && c != '?' {
			fresh = false
		}
		if nested > maxDepth || dashes > maxDepth {
			return &Problem{Line: line, Column: 1, Message: fmt.Sprintf("values are nested more than %d deep", maxDepth)}
		}
	}
	if !utf8.Valid(data) {
		at := 0
		for at < len(data) {
			r, n := utf8.DecodeRune(data[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return &Problem{Line: 1 + strings.Count(string(data[:at]), "\n"), Column: 1, Message: "the file is not UTF-8 text"}
	}
	return nil
}

var errorPlace = regexp.MustCompile(`^\[(\d+):(\d+)\] ([^\n]*)`)

func syntaxProblem(err error) *Problem {
	p := &Problem{Line: 1, Column: 1, Message: "not readable as YAML: " + firstLine(err.Error())}
	if m := errorPlace.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Column, _ = strconv.Atoi(m[2])
		p.Message = "not readable as YAML: " + m[3]
	}
	return p
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// placed is a fault of building a node, with its place.
type placed struct{ Problem }

func (p *placed) Error() string { return p.Message }

func problemAt(n ast.Node, format string, args ...any) Problem {
	p := Problem{Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	if t := n.GetToken(); t != nil && t.Position != nil {
		p.Line, p.Column = t.Position.Line, max(1, t.Position.Column)
	}
	return p
}

type builder struct {
	anchors map[string]*node
	values  int
}

func (b *builder) fail(n ast.Node, format string, args ...any) error {
	return &placed{problemAt(n, format, args...)}
}

func (b *builder) build(n ast.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, b.fail(n, "values are nested more than %d deep", maxDepth)
	}
	if b.values++; b.values > maxValues {
		return nil, b.fail(n, "more than %d values", maxValues)
	}
	at := problemAt(n, "")
	out := &node{line: at.Line, column: at.Column}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.kind, out.truth = kindBool, n.Value
	case *ast.IntegerNode:
		out.kind, out.text = kindNumber, plainNumber(n.GetToken().Value, fmt.Sprint(n.Value))
	case *ast.FloatNode:
		out.kind, out.text = kindNumber, plainNumber(n.GetToken().Value, strconv.FormatFloat(n.Value, 'g', -1, 64))
	case *ast.NanNode:
		out.kind, out.text = kindNumber, "nan"
	case *ast.InfinityNode:
		out.kind, out.text = kindNumber, "inf"
		if n.Value < 0 {
			out.text = "-inf"
		}
	case *ast.StringNode:
		b.text(out, n)
	case *ast.LiteralNode:
		out.kind, out.text = kindText, n.Value.Value
	case *ast.TagNode:
		return b.tagged(n, depth)
	case *ast.AnchorNode:
		v, err := b.build(n.Value, depth+1)
		if err == nil {
			b.anchors[n.Name.String()] = v
		}
		return v, err
	case *ast.AliasNode:
		v, ok := b.anchors[n.Value.String()]
		if !ok {
			return nil, b.fail(n, "alias *%s has no anchor before it", n.Value.String())
		}
		if b.values += v.count(); b.values > maxValues {
			return nil, b.fail(n, "more than %d values once aliases are expanded", maxValues)
		}
		return v, nil
	case *ast.SequenceNode:
		out.kind = kindList
		for _, item := range n.Values {
			v, err := b.build(item, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, v)
		}
	case *ast.MappingNode:
		return out, b.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		return out, b.mapping(out, []*ast.MappingValueNode{n}, depth)
	default:
		return nil, b.fail(n, "%s is not supported here", strings.ToLower(n.Type().String()))
	}
	return out, nil
}

// text reads an unquoted or quoted scalar: unquoted on, off, yes and no are
// booleans, as in YAML 1.1, and unquoted numbers too long for the parser stay
// numbers.
func (b *builder) text(out *node, n *ast.StringNode) {
	out.kind, out.text = kindText, n.Value
	if t := n.GetToken(); t == nil || t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
		return
	}
	switch n.Value {
	case "on", "On", "ON", "yes", "Yes", "YES":
		*out = node{kind: kindBool, truth: true, text: n.Value, line: out.line, column: out.column}
	case "off", "Off", "OFF", "no", "No", "NO":
		*out = node{kind: kindBool, text: n.Value, line: out.line, column: out.column}
	default:
		if jsonNumber.MatchString(n.Value) {
			out.kind = kindNumber
		}
	}
}

func (b *builder) tagged(n *ast.TagNode, depth int) (*node, error) {
	v, err := b.build(n.Value, depth+1)
	if err != nil || v == nil {
		return v, err
	}
	switch tag := n.GetToken().Value; tag {
	case "!!str":
		if v.kind == kindList || v.kind == kindMapping {
			return nil, b.fail(n, "tag !!str on %s", v.kind)
		}
		text := ""
		if n.Value.GetToken() != nil && v.kind != kindNull {
			text = n.Value.GetToken().Value
		}
		return &node{kind: kindText, text: text, line: v.line, column: v.column}, nil
	case "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		want := map[string]kind{"!!int": kindNumber, "!!float": kindNumber, "!!bool": kindBool, "!!null": kindNull, "!!map": kindMapping, "!!seq": kindList}[tag]
		if v.kind != want {
			return nil, b.fail(n, "tag %s on %s", tag, v.kind)
		}
		return v, nil
	default:
		return nil, b.fail(n, "tag %s is not supported", tag)
	}
}

func (b *builder) mapping(out *node, values []*ast.MappingValueNode, depth int) error {
	out.kind = kindMapping
	var merged []member
	for _, mv := range values {
		v, err := b.build(mv.Value, depth+1)
		if err != nil {
			return err
		}
		if _, ok := mv.Key.(*ast.MergeKeyNode); ok {
			from, err := b.merge(mv, v)
			if err != nil {
				return err
			}
			merged = append(merged, from...)
			continue
		}
		key, err := b.build(mv.Key, depth+1)
		if err != nil {
			return err
		}
		if key.kind == kindList || key.kind == kindMapping {
			return b.fail(mv.Key, "%s can not be a key", key.kind)
		}
		at := problemAt(mv.Key, "")
		out.members = append(out.members, member{key: keyText(key, mv.Key), line: at.Line, column: at.Column, value: v})
	}
	for _, m := range merged {
		if out.member(m.key) == nil {
			out.members = append(out.members, m)
		}
	}
	return nil
}

func (b *builder) merge(mv *ast.MappingValueNode, v *node) ([]member, error) {
	switch v.kind {
	case kindMapping:
		return v.members, nil
	case kindList:
		var all []member
		for _, item := range v.items {
			if item.kind != kindMapping {
				return nil, b.fail(mv.Value, "<< needs mappings, not %s", item.kind)
			}
			all = append(all, item.members...)
		}
		return all, nil
	}
	return nil, b.fail(mv.Value, "<< needs a mapping, not %s", v.kind)
}

// keyText is the text of a key as it is written: on, 1 and null are the keys
// "on", "1" and "null".
func keyText(key *node, written ast.Node) string {
	if k, ok := written.(*ast.MappingKeyNode); ok {
		written = k.Value
	}
	if key.kind != kindText && written.GetToken() != nil {
		return written.GetToken().Value
	}
	return key.text
}

func (n *node) count() int {
	total := 1
	for _, i := range n.items {
		total += i.count()
	}
	for _, m := range n.members {
		total += 1 + m.value.count()
	}
	return total
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// plainNumber keeps a number as it is written when that is a JSON number;
// YAML's other spellings (0x1F, 1_000, +5, 5.) become one.
func plainNumber(written, value string) string {
	if jsonNumber.MatchString(written) {
		return written
	}
	if jsonNumber.MatchString(value) {
		return value
	}
	return "nan"
}
