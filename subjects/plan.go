package subjects

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// shape is how Encode and Decode treat one Go type.
type shape uint8

const (
	shapeOther  shape = iota // through its own MarshalJSON and UnmarshalJSON, or encoding/json
	shapeRaw                 // json.RawMessage and other named []byte that hold JSON: bytes as they are
	shapeString              // string kinds
	shapeBool
	shapeInt
	shapeUint
	shapePointer
	shapeSlice
	shapeMap // string keys
	shapeStruct
	shapeInterface
)

// plan is what is known of one Go type: its shape, and what it is made of.
type plan struct {
	typ    reflect.Type
	shape  shape
	elem   *plan // of pointer, slice and map
	fields []planField
	byName map[string]int // index into fields
}

type planField struct {
	name      string
	quoted    string // `"name":`
	index     []int  // path through embedded structs
	omitEmpty bool
	omitZero  bool
	plan      *plan
}

var (
	plans sync.Map // reflect.Type → *plan; a cache of pure values

	rawType         = reflect.TypeFor[json.RawMessage]()
	marshalerType   = reflect.TypeFor[json.Marshaler]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	numberType      = reflect.TypeFor[json.Number]()
)

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	building := map[reflect.Type]*plan{}
	p := buildPlan(t, building)
	for t, p := range building {
		plans.LoadOrStore(t, p)
	}
	return p
}

func buildPlan(t reflect.Type, building map[reflect.Type]*plan) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	if p, ok := building[t]; ok { // recursive types refer to themselves
		return p
	}
	p := &plan{typ: t}
	building[t] = p
	switch {
	case t == rawType || t.Kind() == reflect.Slice && t.ConvertibleTo(rawType) && t.Implements(marshalerType):
		p.shape = shapeRaw
		return p
	case t.Kind() == reflect.Pointer:
		p.shape, p.elem = shapePointer, buildPlan(t.Elem(), building)
		return p
	case t.Kind() == reflect.Interface:
		p.shape = shapeInterface
		return p
	case t == numberType || t.Implements(marshalerType) || reflect.PointerTo(t).Implements(unmarshalerType):
		return p
	}
	switch t.Kind() {
	case reflect.String:
		p.shape = shapeString
	case reflect.Bool:
		p.shape = shapeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.shape = shapeInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.shape = shapeUint
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // []byte is base64 in JSON
			p.shape, p.elem = shapeSlice, buildPlan(t.Elem(), building)
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			p.shape, p.elem = shapeMap, buildPlan(t.Elem(), building)
		}
	case reflect.Struct:
		p.shape = shapeStruct
		p.addFields(t, nil, building)
		p.byName = make(map[string]int, len(p.fields))
		for i, f := range p.fields {
			p.byName[f.name] = i
		}
	}
	return p
}

// addFields lists the fields of t in source order; those of an embedded struct
// without a name stand where it stands. An outer name hides an embedded one.
func (p *plan) addFields(t reflect.Type, prefix []int, building map[reflect.Type]*plan) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		index := append(append([]int(nil), prefix...), i)
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			p.addFields(f.Type, index, building)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		field := planField{
			name:      name,
			quoted:    string(appendString(nil, name)) + ":",
			index:     index,
			omitEmpty: strings.Contains(options, "omitempty"),
			omitZero:  strings.Contains(options, "omitzero"),
			plan:      buildPlan(f.Type, building),
		}
		at := -1
		for j := range p.fields {
			if p.fields[j].name == name {
				at = j
			}
		}
		switch {
		case at < 0:
			p.fields = append(p.fields, field)
		case len(index) < len(p.fields[at].index):
			p.fields[at] = field
		}
	}
}
