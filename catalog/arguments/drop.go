package arguments

// maxRequiredDepth bounds how far required is followed through $ref and allOf.
const maxRequiredDepth = 16

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
	for _, n := range schemas {
		if n.requires(name, maxRequiredDepth) {
			return true
		}
	}
	return false
}

func (n *node) requires(name string, depth int) bool {
	if n == nil || depth == 0 {
		return false
	}
	for _, r := range n.required {
		if r == name {
			return true
		}
	}
	if n.ref.requires(name, depth-1) {
		return true
	}
	for _, sub := range n.allOf {
		if sub.requires(name, depth-1) {
			return true
		}
	}
	return false
}
