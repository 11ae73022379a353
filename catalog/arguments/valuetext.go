package arguments

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// member is the last member of that name: where duplicates are allowed, the
// last one stands.
func (v *value) member(name string) *value {
	if v == nil || v.kind != '{' {
		return nil
	}
	for i := len(v.children) - 1; i >= 0; i-- {
		if v.children[i].name == name {
			return v.children[i].val
		}
	}
	return nil
}

// raw is the text as it was written; only for values that were not edited.
func (v *value) raw() []byte { return v.src[v.start:v.end] }

// scalar makes a value of its own text.
func scalar(kind jsontext.Kind, literal string) *value {
	v := &value{kind: kind, src: []byte(literal), end: int32(len(literal)), count: 1}
	if kind == '0' {
		v.text = literal
	}
	return v
}

// withChildren is a copy of v that has other children.
func (v *value) withChildren(children []child) *value {
	n := *v
	n.edited, n.children = true, children
	n.asAny, n.known = nil, false
	n.count = 1
	for i := range children {
		n.count += children[i].val.count
	}
	return &n
}

// appendText writes v, every byte that was not repaired as it was written.
func (v *value) appendText(dst []byte) []byte {
	if !v.edited {
		return append(dst, v.raw()...)
	}
	closing := byte('}')
	if v.kind == '[' {
		closing = ']'
	}
	dst = append(dst, byte(v.kind))
	for i := range v.children {
		c := &v.children[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, v.src[c.seg:c.from]...)
		dst = c.val.appendText(dst)
		dst = append(dst, v.src[c.fromEnd:c.segEnd]...)
	}
	return append(dst, closing)
}

// plain is v as encoding/json would decode it with UseNumber, which is what
// the validator reads.
func (v *value) plain() any {
	if v.known {
		return v.asAny
	}
	v.known = true
	switch v.kind {
	case '{':
		m := make(map[string]any, len(v.children))
		for i := range v.children {
			m[v.children[i].name] = v.children[i].val.plain()
		}
		v.asAny = m
	case '[':
		a := make([]any, len(v.children))
		for i := range v.children {
			a[i] = v.children[i].val.plain()
		}
		v.asAny = a
	case '"':
		v.asAny = v.text
	case '0':
		v.asAny = json.Number(v.text)
	case 't':
		v.asAny = true
	case 'f':
		v.asAny = false
	}
	return v.asAny
}

// typeName is the JSON Schema name of v's type; a number is "number".
func (v *value) typeName() string {
	switch v.kind {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	}
	return "null"
}
