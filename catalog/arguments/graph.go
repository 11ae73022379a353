package arguments

import (
	"regexp"
	"strconv"
)

// node is one prepared schema with what repair, cost and reports ask of it.
type node struct {
	doc     *value
	pointer string
	never   bool // the schema false
	always  bool // the schema true

	types    []string
	mainType string // the type, when it is one alone, nullable aside
	ref      *node  // $ref
	refOnly  bool   // before draft 2019-09 nothing counts beside $ref
	required []string

	properties map[string]*node
	additional *node
	patterns   []namePattern
	names      *node // propertyNames
	dependents []*node

	prefix   []*node // schemas of the first elements
	items    *node   // schema of the elements after them
	contains *node

	unevaluated *node // of properties or items

	allOf, anyOf, oneOf    []*node
	not, cond, then, else_ *node

	enumValues  int // values in enum and const together
	unique      bool
	patternCost int

	checker *checker // nil when the schema is not enforced
}

type namePattern struct {
	match  *regexp.Regexp
	cost   int
	schema *node
}

// graph is the nodes of one document.
type graph struct {
	root  *node
	nodes map[*value]*node
	list  []*node
}

func buildGraph(d *document) *graph {
	g := &graph{nodes: map[*value]*node{}}
	g.root = g.node(d, d.root, "")
	g.resolveRefs(d)
	return g
}

// node makes the node of a schema and of all below it; nil for what is no
// schema.
func (g *graph) node(d *document, v *value, pointer string) *node {
	if !isSchema(v) {
		return nil
	}
	if n := g.nodes[v]; n != nil {
		return n
	}
	n := &node{doc: v, pointer: pointer, never: v.kind == 'f', always: v.kind == 't', mainType: d.mainType[v]}
	g.nodes[v] = n
	g.list = append(g.list, n)
	for i := range v.children {
		c := &v.children[i]
		g.read(d, n, c.name, c.val, pointer+"/"+escapeToken(c.name))
	}
	return n
}

// read takes one keyword into the node.
func (g *graph) read(d *document, n *node, keyword string, v *value, pointer string) {
	one := func() *node { return g.node(d, v, pointer) }
	list := func() (nodes []*node) {
		if v.kind != '[' {
			return nil
		}
		for i := range v.children {
			nodes = append(nodes, g.node(d, v.children[i].val, pointer+"/"+strconv.Itoa(i)))
		}
		return nodes
	}
	each := func(f func(name string, sub *node)) {
		if v.kind != '{' {
			return
		}
		for i := range v.children {
			c := &v.children[i]
			f(c.name, g.node(d, c.val, pointer+"/"+escapeToken(c.name)))
		}
	}
	switch keyword {
	case "type":
		n.types = typesOf(v)
		if v.kind == '"' {
			n.mainType = v.text
		}
	case "required":
		n.required = stringsOf(v)
	case "properties":
		n.properties = map[string]*node{}
		each(func(name string, sub *node) { n.properties[name] = sub })
	case "patternProperties":
		each(func(name string, sub *node) {
			if p, ok := compilePattern(name); ok {
				p.schema = sub
				n.patterns = append(n.patterns, p)
			}
		})
	case "dependentSchemas", "dependencies":
		each(func(name string, sub *node) {
			if sub != nil {
				n.dependents = append(n.dependents, sub)
			}
		})
	case "$defs", "definitions":
		each(func(string, *node) {})
	case "additionalProperties":
		n.additional = one()
	case "propertyNames":
		n.names = one()
	case "prefixItems":
		if d.draft >= 2020 {
			n.prefix = list()
		}
	case "items":
		if v.kind == '[' {
			n.prefix = list()
		} else {
			n.items = one()
		}
	case "additionalItems":
		if rest := one(); d.draft < 2020 && n.items == nil {
			n.items = rest
		}
	case "contains":
		n.contains = one()
	case "unevaluatedProperties", "unevaluatedItems":
		n.unevaluated = one()
	case "allOf":
		n.allOf = list()
	case "anyOf":
		n.anyOf = list()
	case "oneOf":
		n.oneOf = list()
	case "not":
		n.not = one()
	case "if":
		n.cond = one()
	case "then":
		n.then = one()
	case "else":
		n.else_ = one()
	case "enum", "const":
		n.enumValues += int(v.size())
	case "uniqueItems":
		n.unique = v.kind == 't'
	case "pattern":
		if v.kind == '"' {
			if p, ok := compilePattern(v.text); ok {
				n.patternCost = p.cost
			}
		}
	}
}

// resolveRefs links references; a target at a place where no schema is
// expected gets its node here.
func (g *graph) resolveRefs(d *document) {
	for i := 0; i < len(g.list); i++ { // grows with such targets
		n := g.list[i]
		target := d.targets[n.doc]
		if target == nil {
			continue
		}
		pointer := ""
		if ref := n.doc.member("$ref"); ref != nil && len(ref.text) > 0 {
			pointer = ref.text[1:]
		}
		n.ref = g.node(d, target, pointer)
		n.refOnly = d.draft <= 7
	}
}

// child follows one keyword of a schema, and the name or index after it, to
// the subschema there. It tells how many of the tokens it used.
func (g *graph) child(n *node, tokens []string) (*node, int) {
	keyword := tokens[0]
	if keyword == "$ref" {
		return n.ref, 1
	}
	v := n.doc.member(keyword)
	switch p := positions[keyword]; {
	case p == holdsNone || v == nil:
		return nil, 1
	case p == holdsOne, p == holdsOneOrList && v.kind != '[':
		return g.nodes[v], 1
	case len(tokens) < 2:
		return nil, 1
	case p == holdsMap:
		return g.nodes[v.member(tokens[1])], 2
	}
	if i, err := strconv.Atoi(tokens[1]); err == nil && v.kind == '[' && i >= 0 && i < len(v.children) {
		return g.nodes[v.children[i].val], 2
	}
	return nil, 2
}

func typesOf(v *value) []string {
	if v.kind == '"' {
		return []string{v.text}
	}
	return stringsOf(v)
}

// stringsOf are the strings in an array; anything else in it is passed over.
func stringsOf(v *value) []string {
	if v == nil || v.kind != '[' {
		return nil
	}
	var list []string
	for i := range v.children {
		if c := v.children[i].val; c.kind == '"' {
			list = append(list, c.text)
		}
	}
	return list
}

// size counts the values in v, itself included.
func (v *value) size() int32 {
	n := int32(1)
	for i := range v.children {
		n += v.children[i].val.size()
	}
	return n
}
