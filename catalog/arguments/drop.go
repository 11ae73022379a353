package arguments

import "slices"

// droppable tells whether a property's value is null or "", and not one that
// its schema takes: models fill in parameters that they mean to leave out. Null
// for a property that is nullable is meant, even where another keyword rules it
// out.
func (r *repair) droppable(n *node, v *value) bool {
	switch {
	case !r.enforced:
		return false
	case v.kind == 'n' && !n.takesNull() && !n.ref.takesNull():
	case v.kind == '"' && v.text == "":
	default:
		return false
	}
	return !r.valid(n, v)
}

// requiredBy tells whether any of the schemas that are applied to the same
// object needs the property.
func requiredBy(schemas []*node, name string) bool {
	found := false
	inPlace(schemas, func(n *node) bool {
		found = slices.Contains(n.required, name)
		return !found
	}, false)
	return found
}

// inPlace calls f once for each of the schemas and of those that are applied
// to the same value through $ref and allOf, and through the branches of anyOf
// and oneOf if they are asked for, until f returns false.
func inPlace(schemas []*node, f func(*node) bool, branches bool) {
	seen := map[*node]bool{}
	queue := schemas
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if n == nil || seen[n] {
			continue
		}
		seen[n] = true
		if !f(n) {
			return
		}
		queue = append(slices.Clip(queue), n.ref)
		queue = append(queue, n.allOf...)
		if branches {
			queue = append(append(queue, n.anyOf...), n.oneOf...)
		}
	}
}
