package arguments

// allowNulls writes OpenAPI's "nullable": true as JSON Schema: a type also
// takes "null"; a schema without a type is wrapped so that null passes beside
// it. Only schemas are rewritten, never data in const, enum, default or
// examples, and never a property that is called nullable.
func (d *document) allowNulls() {
	for _, s := range d.schemas {
		n := s.member("nullable")
		if n == nil {
			continue
		}
		drop(s, "nullable")
		if n.kind != 't' || s == d.root {
			continue // the arguments as a whole are always an object
		}
		switch t := s.member("type"); {
		case t == nil:
			d.wrapNullable(s)
		case t.kind == '"':
			d.mainType[s] = t.text
			set(s, "type", list(scalarText(t.text), scalarText("null")))
		case t.kind == '[' && !holds(t, "null"):
			t.children = append(t.children, child{val: scalarText("null")})
		}
	}
}

// wrapNullable makes s the choice between what it was and null. Whoever
// refers to s keeps referring to the choice.
func (d *document) wrapNullable(s *value) {
	inner := *s
	if target, ok := d.targets[s]; ok {
		d.targets[&inner] = target
		delete(d.targets, s)
	}
	null := &value{kind: '{', count: 1, children: []child{{name: "type", val: scalarText("null")}}}
	s.children = []child{{name: "anyOf", val: list(&inner, null)}}
}

func list(items ...*value) *value {
	v := &value{kind: '[', count: 1}
	for _, i := range items {
		v.children = append(v.children, child{val: i})
	}
	return v
}

// holds tells whether an array of strings has this one.
func holds(array *value, text string) bool {
	for i := range array.children {
		if v := array.children[i].val; v.kind == '"' && v.text == text {
			return true
		}
	}
	return false
}
