package subjects

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Encode returns the JSON text of a message, by the json tags of its type.
//
// Unlike encoding/json it writes raw parts (json.RawMessage, jsontext.Value)
// byte for byte, with their white space, escapes and numbers, and it leaves
// <, > and & alone. A raw part must hold one valid JSON value: it is not looked
// at again; an empty one is written as null. A nil list or map is written as an
// empty one, since none of the contract's lists may be null. Members come in the order of the
// type's fields, those of maps sorted by name, so that equal messages have equal
// bytes. Invalid UTF-8 in a string becomes U+FFFD.
//
// It fails only for types that JSON can't carry, or when a type's own
// MarshalJSON fails.
func Encode(v any) ([]byte, error) {
	room := 256
	if rv := reflect.ValueOf(v); rv.IsValid() {
		p := planOf(rv.Type())
		if p.shape == shapePointer && !rv.IsNil() {
			p, rv = p.elem, rv.Elem()
		}
		if p.shape == shapeStruct {
			room = p.room(rv)
		}
	}
	return AppendEncode(make([]byte, 0, room), v)
}

// AppendEncode appends what Encode returns to dst.
func AppendEncode(dst []byte, v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return append(dst, "null"...), nil
	}
	out, err := planOf(rv.Type()).append(dst, rv)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return out, nil
}

func (p *plan) append(dst []byte, v reflect.Value) ([]byte, error) {
	switch p.shape {
	case shapeRaw:
		raw := v.Bytes()
		if len(raw) == 0 {
			return append(dst, "null"...), nil
		}
		return append(dst, raw...), nil
	case shapeString:
		return appendString(dst, v.String()), nil
	case shapeBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case shapeInt:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case shapeUint:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case shapePointer:
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		return p.elem.append(dst, v.Elem())
	case shapeInterface:
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		return planOf(v.Elem().Type()).append(dst, v.Elem())
	case shapeSlice:
		return p.appendSlice(dst, v)
	case shapeMap:
		return p.appendMap(dst, v)
	case shapeStruct:
		return p.appendStruct(dst, v)
	}
	own, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, err
	}
	return append(dst, own...), nil
}

func (p *plan) appendSlice(dst []byte, v reflect.Value) ([]byte, error) {
	n := v.Len()
	if p.elem.shape == shapeRaw { // definitions: make room once
		size := 2 + n
		for i := range n {
			size += v.Index(i).Len()
		}
		dst = slices.Grow(dst, size)
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = p.elem.append(dst, v.Index(i)); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

func (p *plan) appendMap(dst []byte, v reflect.Value) ([]byte, error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		switch {
		case a.String() < b.String():
			return -1
		case a.String() > b.String():
			return 1
		}
		return 0
	})
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k.String()), ':')
		var err error
		if dst, err = p.elem.append(dst, v.MapIndex(k)); err != nil {
			return nil, fmt.Errorf("%q: %w", k.String(), err)
		}
	}
	return append(dst, '}'), nil
}

func (p *plan) appendStruct(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range p.fields {
		f := &p.fields[i]
		fv := fieldOf(v, f.index)
		if f.omitEmpty && isEmpty(f.plan.shape, fv) || f.omitZero && fv.IsZero() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.quoted...)
		var err error
		if dst, err = f.plan.append(dst, fv); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return append(dst, '}'), nil
}

func fieldOf(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		v = v.Field(i)
	}
	return v
}

// isEmpty is encoding/json's rule for omitempty: false, 0, nil, and anything of
// length 0.
func isEmpty(s shape, v reflect.Value) bool {
	switch s {
	case shapeRaw, shapeString, shapeSlice, shapeMap:
		return v.Len() == 0
	case shapeStruct:
		return false
	case shapeOther:
		return v.Kind() != reflect.Struct && v.IsZero()
	}
	return v.IsZero()
}

// appendString quotes s with the fewest escapes, never those of HTML.
func appendString(dst []byte, s string) []byte {
	if plainQuoted(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	dst, _ = jsontext.AppendQuote(dst, s) // the error reports invalid UTF-8, replaced in dst
	return dst
}
