package arguments

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Of several failures one is reported. The rule is that of the reference
// validator's best match: the shallowest; of these the one with the greatest
// path; rather not an anyOf or oneOf; rather one whose schema wants another
// type; else the first in the schema's order. A choice between branches is
// explained by the deepest failure inside it, unless the two that come first
// are equally deep, at the same place and alike: then the choice itself is
// what is wrong.

// finding is one failure with what is needed to rank and to explain it.
type finding struct {
	at      []step
	value   *value // what is there
	schema  *node  // the schema that holds the keyword
	keyword string
	order   []int // the place of the failure in the order of the schema
	context []finding

	extra string // the member or element that has no place, for a schema false
}

func (s *Schema) report(failed failure, root *value) *Invalid {
	all := s.graph.findings(failed, root)
	if len(all) == 0 {
		return s.invalid(nil, "schema", "does not match the schema")
	}
	best := pick(all)
	return s.invalid(best.at, best.constraint(), s.reason(best))
}

// pick chooses the finding to report.
func pick(all []finding) finding {
	best := all[0]
	for _, f := range all[1:] {
		if compare(f, best) > 0 {
			best = f
		}
	}
	for len(best.context) > 0 {
		least := slices.Clone(best.context)
		slices.SortStableFunc(least, compare)
		if len(least) > 1 && compare(least[0], least[1]) == 0 {
			break
		}
		best = least[0]
	}
	return best
}

// compare ranks findings; the greater is reported.
func compare(a, b finding) int {
	if c := cmp.Compare(len(b.at), len(a.at)); c != 0 {
		return c
	}
	for i := range a.at {
		if c := cmp.Compare(a.at[i].index, b.at[i].index); c != 0 {
			return c
		}
		if c := strings.Compare(a.at[i].name, b.at[i].name); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(rank(!a.isChoice()), rank(!b.isChoice())); c != 0 {
		return c
	}
	return cmp.Compare(rank(a.otherType()), rank(b.otherType()))
}

func rank(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (f *finding) isChoice() bool { return f.keyword == "anyOf" || f.keyword == "oneOf" }

// otherType tells whether the schema wants another type, or does not say which.
func (f *finding) otherType() bool {
	return len(f.schema.types) == 0 || f.value == nil || !f.schema.hasType(f.value)
}

// findings flattens the validator's account, in the order of the schema.
func (g *graph) findings(f failure, root *value) []finding {
	list := g.flatten(nil, f, root)
	slices.SortStableFunc(list, inOrder)
	return list
}

func (g *graph) flatten(list []finding, f failure, root *value) []finding {
	if f.group {
		for _, c := range f.causes {
			list = g.flatten(list, c, root)
		}
		return list
	}
	found := g.finding(f, root)
	for _, c := range f.causes {
		found.context = g.flatten(found.context, c, root)
	}
	slices.SortStableFunc(found.context, inOrder)
	return append(list, found)
}

func inOrder(a, b finding) int {
	if c := slices.Compare(a.order, b.order); c != 0 {
		return c
	}
	return slices.CompareFunc(a.at, b.at, func(x, y step) int {
		return cmp.Or(cmp.Compare(x.index, y.index), strings.Compare(x.name, y.name))
	})
}

// finding follows the validator's way through the schema.
func (g *graph) finding(f failure, root *value) finding {
	found := finding{schema: g.root}
	n, tokens, instance := g.root, f.keyword, f.instance
	ofName := false
	for len(tokens) > 0 {
		sub, used := g.child(n, tokens)
		found.schema, found.keyword = n, tokens[0]
		found.order = append(found.order, n.doc.placeOf(tokens[0]))
		if len(tokens) > 1 {
			found.order = append(found.order, n.doc.member(tokens[0]).placeOf(tokens[1]))
		}
		ofName = ofName || tokens[0] == "propertyNames"
		if sub == nil {
			break
		}
		n, tokens = sub, tokens[min(used, len(tokens)):]
		if len(tokens) == 0 && n.never {
			instance = found.refusedBySchema(instance)
		}
	}
	if f.none {
		found.keyword = "contains"
	}
	found.at, found.value = follow(root, instance)
	if ofName && len(found.at) > 0 {
		last := found.at[len(found.at)-1]
		found.at = found.at[:len(found.at)-1]
		found.value = &value{kind: '"', text: last.name, count: 1}
	}
	return found
}

// refusedBySchema names a failure of the schema false: the value that has no
// place is told at what it is in.
func (f *finding) refusedBySchema(instance []string) []string {
	inPlace := false
	switch f.keyword {
	case "additionalProperties", "additionalItems":
		return instance // the validator tells these at the object or array already
	case "unevaluatedProperties", "unevaluatedItems", "items":
	case "$ref", "allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas", "dependencies":
		inPlace = true
		f.keyword = "schema"
	default:
		f.keyword = "schema"
	}
	if inPlace || len(instance) == 0 {
		return instance
	}
	f.extra = instance[len(instance)-1]
	return instance[:len(instance)-1]
}

// follow walks from the arguments to the value at the end of a path.
func follow(root *value, path []string) ([]step, *value) {
	steps, at := make([]step, 0, len(path)), root
	for _, token := range path {
		if at != nil && at.kind == '[' {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at.children) {
				return steps, at
			}
			steps, at = append(steps, step{index: i}), at.children[i].val
			continue
		}
		steps, at = append(steps, step{name: token, index: -1}), at.member(token)
	}
	return steps, at
}

// placeOf is where a member or an element stands among its siblings.
func (v *value) placeOf(token string) int {
	if v == nil {
		return 0
	}
	if v.kind == '[' {
		i, _ := strconv.Atoi(token)
		return i
	}
	for i := range v.children {
		if v.children[i].name == token {
			return i
		}
	}
	return len(v.children)
}

// constraint is the keyword as the schema spells it.
func (f *finding) constraint() string {
	switch {
	case f.keyword == "":
		return "schema"
	case f.keyword == "exclusiveMinimum" && f.isFlag():
		return "minimum"
	case f.keyword == "exclusiveMaximum" && f.isFlag():
		return "maximum"
	}
	return f.keyword
}

// isFlag tells whether the keyword is draft 4's true beside minimum or maximum.
func (f *finding) isFlag() bool {
	k := f.schema.doc.member(f.keyword)
	return k != nil && k.kind == 't'
}
