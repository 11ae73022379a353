package arguments

import "strings"

// maxInPlace bounds how many schemas are followed, one inside another, for one
// and the same value.
const maxInPlace = 64

// repair is one repair of arguments.
type repair struct {
	enforced bool // the schema has a validator; otherwise only types are judged
	steps    int
	meter    meter // what the validator may still be asked
}

// valid tells whether v needs no repair under n. What can not be decided, or
// not any more, is left alone.
func (r *repair) valid(n *node, v *value) bool {
	switch {
	case n == nil || n.always:
		return true
	case n.never:
		return false
	case !r.enforced:
		return len(n.types) == 0 && n.ref == nil || len(n.types) > 0 && n.hasType(v)
	case n.checker == nil || !r.meter.walk(n, v):
		return true
	}
	return n.checker.ok(v.plain())
}

// value repairs v under n, unless it is valid. level is 0 for the arguments as
// a whole and 1 for what is directly in them; around are the schemas that are
// applied to the same value beside n.
func (r *repair) value(n *node, v *value, level int, around []*node) *value {
	if n == nil || r.steps <= 0 || len(around) > maxInPlace || r.valid(n, v) {
		return v
	}
	return r.fix(n, v, level, around)
}

// fix repairs a value that is not valid under n, as far as it can.
func (r *repair) fix(n *node, v *value, level int, around []*node) *value {
	r.steps--
	if n.always || n.never {
		return v
	}
	if v.kind == '"' && spellsNull(v.text) && n.takesNull() {
		return scalar('n', "null")
	}
	if n.ref == nil || !n.refOnly {
		v = r.ofType(n, v, level)
	}
	beside := append(around[:len(around):len(around)], n)
	v = r.value(n.ref, v, level, beside)
	if n.ref != nil && n.refOnly {
		return v
	}
	for _, sub := range n.allOf {
		v = r.value(sub, v, level, beside)
	}
	v = r.inside(n, v, level, beside)
	for _, branches := range [...][]*node{n.anyOf, n.oneOf} {
		if len(branches) > 0 && !r.valid(n, v) {
			v = r.oneBranch(branches, v, level, beside)
		}
	}
	return v
}

// oneBranch repairs v under every branch of an anyOf or oneOf and takes the
// result if exactly one of them is then valid.
func (r *repair) oneBranch(branches []*node, v *value, level int, around []*node) *value {
	picked, valid := v, 0
	for _, sub := range branches {
		candidate := r.value(sub, v, level, around)
		if r.valid(sub, candidate) {
			picked = candidate
			valid++
		}
		if r.meter.left < 0 || r.steps <= 0 {
			return v // it can no longer be told
		}
	}
	if valid != 1 {
		return v
	}
	return picked
}

// inside repairs the members of an object and the elements of an array, and
// drops members that can only mean "not given".
func (r *repair) inside(n *node, v *value, level int, around []*node) *value {
	var kept []child // nil until something changes
	change := func(i int) {
		if kept == nil {
			kept = append(make([]child, 0, len(v.children)), v.children[:i]...)
		}
	}
	for i := range v.children {
		c := v.children[i]
		var sub *node
		switch {
		case v.kind == '{':
			sub = n.properties[c.name]
		case i < len(n.prefix):
			sub = n.prefix[i]
		default:
			sub = n.items
		}
		if sub == nil || r.steps <= 0 {
			if kept != nil {
				kept = append(kept, c)
			}
			continue
		}
		fixed := r.value(sub, c.val, level+1, nil)
		if v.kind == '{' && r.droppable(sub, fixed) && !requiredBy(around, c.name) {
			change(i)
			continue
		}
		if fixed != c.val {
			change(i)
			c.val = fixed
		}
		if kept != nil {
			kept = append(kept, c)
		}
	}
	if kept == nil {
		return v
	}
	return v.withChildren(kept)
}

// ofType turns v into a value of the node's type, when it spells one.
func (r *repair) ofType(n *node, v *value, level int) *value {
	if v.kind == '"' {
		for _, t := range n.types {
			if coerced := r.text(n, t, v); coerced != nil {
				return coerced
			}
		}
	}
	if n.mainType == "array" && level == 1 && v.kind != '[' && v.kind != 'n' {
		return wrap(v)
	}
	return v
}

// text is what a text spells as a type; nil when it spells none.
func (r *repair) text(n *node, typ string, v *value) *value {
	switch typ {
	case "integer", "number":
		literal, ok := numberFromText(v.text)
		if !ok {
			return nil
		}
		if typ == "number" {
			return scalar('0', numberLiteral(literal))
		}
		if literal, ok = integerLiteral(literal); ok {
			return scalar('0', literal)
		}
	case "boolean":
		switch strings.ToLower(trimSpace(v.text)) {
		case "true":
			return scalar('t', "true")
		case "false":
			return scalar('f', "false")
		}
	case "array":
		return r.container('[', v.text)
	case "object":
		if n.mainType == "object" && trimSpace(v.text) == "" && len(n.required) == 0 {
			empty := scalar('{', "{}")
			return empty
		}
		return r.container('{', v.text)
	}
	return nil
}

// container is the array or object that a text holds; nil when it holds none
// that could be sent.
func (r *repair) container(kind byte, text string) *value {
	trimmed := trimSpace(text)
	if trimmed == "" || trimmed[0] != kind || r.steps <= 0 {
		return nil
	}
	v, err := parse([]byte(trimmed), limits{maxArgumentBytes, maxArgumentDepth, maxArgumentValues})
	if err != nil {
		return nil
	}
	r.steps -= int(v.count) / 16
	if _, literal := uncarriable(v, nil); literal != "" {
		return nil
	}
	return v
}

// wrap makes v the only element of an array.
func wrap(v *value) *value {
	return (&value{kind: '['}).withChildren([]child{{val: v}})
}

func spellsNull(text string) bool { return strings.EqualFold(trimSpace(text), "null") }

// takesNull tells whether the schema itself, or a branch directly in it, is
// for null.
func (n *node) takesNull() bool {
	if n == nil {
		return false
	}
	for _, t := range n.types {
		if t == "null" {
			return true
		}
	}
	for _, branches := range [...][]*node{n.anyOf, n.oneOf} {
		for _, sub := range branches {
			if sub != nil && len(sub.types) == 1 && sub.types[0] == "null" {
				return true
			}
		}
	}
	return false
}
