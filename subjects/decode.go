package subjects

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	wire "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrMessage says what is wrong with the JSON text of a message. Its wire code
// is BAD_REQUEST.
type ErrMessage struct {
	Path    string // member that is wrong, e.g. "toolsets[2]"; "" for the whole
	Problem string
	Offset  int64 // byte in the text, where known, else 0
}

func (e *ErrMessage) Error() string {
	if e.Path != "" {
		return e.Path + ": " + e.Problem
	}
	return "message: " + e.Problem
}

// Decode reads one JSON text into the message that v points to.
//
// It is stricter than encoding/json where a sender could be misunderstood:
// names are case-sensitive, a member that stands twice in an object is refused,
// strings must be valid UTF-8, nothing may follow the value. It is as lenient
// where the contract is extended by adding members: unknown ones are ignored,
// and null leaves a member as if it were absent. An integer may be written as
// 2e5 or 5.0.
//
// Raw members (json.RawMessage) are kept as sub-slices of data, byte for byte;
// neither may be changed afterwards. They are checked to be JSON of at most
// 10,000 levels, no more: duplicate members in them, or bytes that are not
// UTF-8, are for whoever reads them. A raw member that is null holds the bytes
// "null"; see Present.
//
// The size of data is for the caller to bound. Every error is an *ErrMessage
// that names the member, except for a v that is no pointer.
func Decode(data []byte, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return fmt.Errorf("decode into %T: a pointer to a message is needed", v)
	}
	if planOf(rv.Type().Elem()).readPlain(data, rv.Elem()) {
		return nil
	}
	return decodeAny(data, rv.Elem())
}

// decodeAny is Decode for every text.
func decodeAny(data []byte, target reflect.Value) error {
	r := reading{data: data, target: target}
	err := wire.Unmarshal(data, &r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if r.err != nil {
		return r.err
	}
	if err != nil {
		return syntaxError(err, data)
	}
	return nil
}

// DecodeOptional is Decode for requests that may be empty: an empty body, or one
// of white space, leaves v as it is.
func DecodeOptional(data []byte, v any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return Decode(data, v)
}

// Present reports whether a raw member was sent and is not null.
func Present(raw json.RawMessage) bool {
	return len(raw) != 0 && !bytes.Equal(raw, []byte("null"))
}

// reading is one Decode. It takes part in the unmarshalling of
// go-json-experiment/json to get at that package's decoder over a byte slice,
// whose values are sub-slices of it.
type reading struct {
	data   []byte
	target reflect.Value
	err    *ErrMessage
}

// UnmarshalJSONFrom reads the one value of the text.
func (r *reading) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	r.err = planOf(r.target.Type()).read(dec, r.target)
	if r.err != nil {
		if r.err.Offset == 0 {
			r.err.Offset = dec.InputOffset()
		}
		return r.err
	}
	return nil
}

func syntaxError(err error, data []byte) *ErrMessage {
	if len(bytes.TrimSpace(data)) == 0 {
		return &ErrMessage{Problem: "the body is empty; a JSON object is expected"}
	}
	out := &ErrMessage{Problem: "not valid JSON"}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		out.Offset = syntactic.ByteOffset
		out.Problem = fmt.Sprintf("not valid JSON at byte %d: %v", syntactic.ByteOffset, syntactic.Err)
	}
	return out
}

func (p *plan) read(dec *jsontext.Decoder, v reflect.Value) *ErrMessage {
	switch p.shape {
	case shapeStruct, shapeMap:
		return p.readObject(dec, v)
	case shapeSlice:
		return p.readSlice(dec, v)
	case shapePointer:
		if dec.PeekKind() == 'n' {
			v.SetZero()
			return skip(dec)
		}
		v.Set(reflect.New(p.elem.typ))
		return p.elem.read(dec, v.Elem())
	}
	val, err := dec.ReadValue()
	if err != nil {
		return syntaxError(err, []byte("?"))
	}
	return p.readScalar(val, v)
}

func (p *plan) readSlice(dec *jsontext.Decoder, v reflect.Value) *ErrMessage {
	switch k := dec.PeekKind(); k {
	case 'n':
		v.SetZero()
		return skip(dec)
	case '[':
	default:
		return wrongKindOf(dec, "a list", k)
	}
	if err := token(dec); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(p.typ, 0, 4))
	for n := 0; ; n++ {
		if k := dec.PeekKind(); k == ']' {
			return token(dec)
		} else if k == 0 {
			return skip(dec) // reports what is wrong
		}
		if n == v.Cap() {
			v.Grow(n)
		}
		if err := p.refuseNull(dec); err != nil {
			return err.in("[" + strconv.Itoa(n) + "]")
		}
		v.SetLen(n + 1)
		v.Index(n).SetZero()
		if err := p.elem.read(dec, v.Index(n)); err != nil {
			return err.in("[" + strconv.Itoa(n) + "]")
		}
	}
}

func (p *plan) readObject(dec *jsontext.Decoder, v reflect.Value) *ErrMessage {
	switch k := dec.PeekKind(); k {
	case 'n':
		if dec.StackDepth() == 0 {
			return wrongKindOf(dec, "an object", k)
		}
		v.SetZero()
		return skip(dec)
	case '{':
	default:
		return wrongKindOf(dec, "an object", k)
	}
	if err := token(dec); err != nil {
		return err
	}
	if p.shape == shapeMap {
		v.Set(reflect.MakeMap(p.typ))
		return p.readMembers(dec, v)
	}
	var seen uint64 // fields met, when there are at most 64; the rest goes by name
	var others names
	for {
		quoted, done, err := memberName(dec)
		if done || err != nil {
			return err
		}
		i, known := p.byName[string(quoted[1:len(quoted)-1])]
		name := ""
		if !known || i >= 64 {
			var bad error
			if name, bad = unquote(quoted); bad != nil {
				name = strings.ToValidUTF8(string(quoted[1:len(quoted)-1]), "�")
			}
			i, known = p.byName[name]
		}
		var twice bool
		if known && i < 64 {
			twice, seen = seen&(1<<i) != 0, seen|1<<i
			name = p.fields[i].name
		} else {
			twice = others.add(name)
		}
		if twice {
			return &ErrMessage{Path: name, Problem: "the member stands twice in the same object"}
		}
		if !known {
			if err := skip(dec); err != nil {
				return err.in(shorten(name))
			}
			continue
		}
		f := &p.fields[i]
		if err := f.plan.read(dec, fieldOf(v, f.index)); err != nil {
			return err.in(name)
		}
	}
}

func (p *plan) readMembers(dec *jsontext.Decoder, v reflect.Value) *ErrMessage {
	for {
		quoted, done, err := memberName(dec)
		if done || err != nil {
			return err
		}
		name, bad := unquote(quoted)
		if bad != nil {
			return &ErrMessage{Problem: "names of members must be valid UTF-8"}
		}
		key := reflect.ValueOf(name).Convert(p.typ.Key())
		if v.MapIndex(key).IsValid() {
			return &ErrMessage{Path: shorten(name), Problem: "the member stands twice in the same object"}
		}
		if err := p.refuseNull(dec); err != nil {
			return err.in(shorten(name))
		}
		element := reflect.New(p.elem.typ).Elem()
		if err := p.elem.read(dec, element); err != nil {
			return err.in(shorten(name))
		}
		v.SetMapIndex(key, element)
	}
}

// refuseNull keeps null out of lists and maps, where nothing is absent.
func (p *plan) refuseNull(dec *jsontext.Decoder) *ErrMessage {
	if p.elem.shape == shapeRaw || p.elem.shape == shapeInterface || dec.PeekKind() != 'n' {
		return nil
	}
	return &ErrMessage{Problem: "a value is expected, not null"}
}

// memberName reads the next name of an object, quotes and all; done at its end.
func memberName(dec *jsontext.Decoder) (quoted jsontext.Value, done bool, err *ErrMessage) {
	if dec.PeekKind() == '}' {
		return nil, true, token(dec)
	}
	quoted, bad := dec.ReadValue()
	if bad != nil {
		return nil, false, syntaxError(bad, []byte("?"))
	}
	return quoted, false, nil
}

func token(dec *jsontext.Decoder) *ErrMessage {
	if _, err := dec.ReadToken(); err != nil {
		return syntaxError(err, []byte("?"))
	}
	return nil
}

func skip(dec *jsontext.Decoder) *ErrMessage {
	if _, err := dec.ReadValue(); err != nil {
		return syntaxError(err, []byte("?"))
	}
	return nil
}

// names are the members of one object that no field takes.
type names struct {
	few  []string
	many map[string]struct{}
}

// add reports whether the name was there already.
func (n *names) add(name string) bool {
	if n.many != nil {
		_, there := n.many[name]
		n.many[name] = struct{}{}
		return there
	}
	for _, have := range n.few {
		if have == name {
			return true
		}
	}
	if n.few = append(n.few, name); len(n.few) > 16 {
		n.many = make(map[string]struct{}, 2*len(n.few))
		for _, have := range n.few {
			n.many[have] = struct{}{}
		}
	}
	return false
}

func (e *ErrMessage) in(parent string) *ErrMessage {
	switch {
	case e.Path == "":
		e.Path = parent
	case strings.HasPrefix(e.Path, "["):
		e.Path = parent + e.Path
	default:
		e.Path = parent + "." + e.Path
	}
	return e
}

func wrongKindOf(dec *jsontext.Decoder, want string, got jsontext.Kind) *ErrMessage {
	if got == 0 {
		return skip(dec)
	}
	return wrongKind(want, got)
}

func wrongKind(want string, got jsontext.Kind) *ErrMessage {
	is := map[jsontext.Kind]string{
		'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '[': "a list", '{': "an object",
	}[got]
	return &ErrMessage{Problem: want + " is expected, not " + is}
}

func shorten(s string) string {
	if r := []rune(s); len(r) > MaxToken {
		return string(r[:MaxToken]) + "…"
	}
	return s
}

func excerpt(val []byte) string { return shorten(strings.ToValidUTF8(string(val), "�")) }
