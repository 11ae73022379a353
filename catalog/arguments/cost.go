package arguments

// A schema can make a validator work without end in all but name: branches
// that double at every level, patterns over long texts, many schemas over many
// values. So before the validator is asked, the same walk is made without the
// work, and counted. One step stands for one schema held against one value, or
// for as much as that takes.

// maxSteps bounds one question to the validator. A step takes it one to three
// microseconds, most when it fails.
const maxSteps = 100_000

// maxWalkDepth bounds the walk's own recursion.
const maxWalkDepth = 4000

// meter counts steps down.
type meter struct {
	left, depth int
}

// walk charges what holding v against n costs at most, and tells whether it
// can be afforded.
func (m *meter) walk(n *node, v *value) bool {
	if n == nil || m.left < 0 {
		return m.left >= 0
	}
	m.depth++
	if m.depth > maxWalkDepth {
		m.left = -1
	}
	m.left -= 1 + m.depth/4 + len(v.children)/4 // the way here is written out for every failure
	if m.left >= 0 && !n.never && !n.always && !(n.refOnly && n.ref != nil) {
		m.inside(n, v)
	}
	m.walk(n.ref, v)
	m.depth--
	return m.left >= 0
}

func (m *meter) inside(n *node, v *value) {
	if len(n.types) > 0 && !n.hasType(v) {
		return // the validator stops here too
	}
	if n.enumValues > 0 {
		m.left -= n.enumValues / 4 * (1 + int(v.count)/4)
	}
	switch v.kind {
	case '"':
		m.left -= len(v.text) / 512 * (1 + n.patternCost)
	case '0':
		m.left -= len(v.text) / 32
	case '{':
		m.object(n, v)
	case '[':
		m.array(n, v)
	}
	for _, group := range [...][]*node{n.allOf, n.anyOf, n.oneOf, n.dependents} {
		for _, sub := range group {
			m.walk(sub, v)
		}
	}
	for _, sub := range [...]*node{n.not, n.cond, n.then, n.else_} {
		m.walk(sub, v)
	}
}

func (m *meter) object(n *node, v *value) {
	for i := range v.children {
		if m.left < 0 {
			return
		}
		c := &v.children[i]
		sub, named := n.properties[c.name]
		m.walk(sub, c.val)
		for _, p := range n.patterns {
			m.left -= 1 + len(c.name)/512*p.cost
			m.walk(p.schema, c.val)
		}
		if !named {
			m.walk(n.additional, c.val)
		}
		m.walk(n.unevaluated, c.val)
		if n.names != nil {
			m.walk(n.names, &value{kind: '"', text: c.name, count: 1})
		}
	}
}

func (m *meter) array(n *node, v *value) {
	if n.unique {
		m.left -= int(v.count) * min(len(v.children), 20) / 4
	}
	for i := range v.children {
		if m.left < 0 {
			return
		}
		val := v.children[i].val
		if i < len(n.prefix) {
			m.walk(n.prefix[i], val)
		} else {
			m.walk(n.items, val)
		}
		m.walk(n.contains, val)
		m.walk(n.unevaluated, val)
	}
}

// hasType tells whether v is of one of the node's types.
func (n *node) hasType(v *value) bool {
	name := v.typeName()
	for _, t := range n.types {
		if t == name || t == "integer" && name == "number" && isWhole(v.text) {
			return true
		}
	}
	return false
}
