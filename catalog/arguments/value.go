package arguments

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// value is one JSON value together with the text it was read from. A value
// that has been handed out is never changed: a repair makes new values that
// share the untouched ones.
type value struct {
	kind   jsontext.Kind // '{' '[' '"' '0' 't' 'f' 'n'
	edited bool          // the text is composed from the children, not src[start:end]
	// src[start:end] is the value as it was written.
	src        []byte
	start, end int32
	count      int32  // values in this one, itself included
	text       string // a string's content, a number's literal
	children   []child

	asAny any // memo of plain, for one goroutine
	known bool
}

// child is a member of an object or an element of an array. The four offsets
// point into the parent's src: the segment between two commas, and in it the
// original value.
type child struct {
	name          string
	val           *value
	seg, segEnd   int32
	from, fromEnd int32
}

// limits bound what is read. Zero means unbounded.
type limits struct {
	bytes, depth, values int
}

// Errors of parse beyond jsontext's own.
var (
	errTooLarge = errors.New("too large")
	errTooDeep  = errors.New("nested too deeply")
	errTooMany  = errors.New("too many")
)

// parse reads the one JSON value that src holds. Duplicate members are an
// error unless opts allow them; then the last one stands. A lone surrogate
// written as an escape is kept as written.
func parse(src []byte, lim limits, opts ...jsontext.Options) (*value, error) {
	if lim.bytes > 0 && len(src) > lim.bytes {
		return nil, errTooLarge
	}
	dec, err := newDecoder(src, opts...)
	if err != nil {
		return nil, err
	}
	p := &parser{dec: dec, src: src, lim: lim}
	v, err := p.value(0, 1)
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.ReadToken(); err == nil {
		return nil, errTrailing
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return v, nil
}

type parser struct {
	dec    *jsontext.Decoder
	src    []byte
	lim    limits
	values int
}

// value reads the next value, whose text begins at or after the offset from.
func (p *parser) value(from, depth int) (*value, error) {
	p.values++
	if p.lim.values > 0 && p.values > p.lim.values {
		return nil, errTooMany
	}
	if p.lim.depth > 0 && depth > p.lim.depth {
		return nil, errTooDeep
	}
	tok, err := p.dec.ReadToken()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	v := &value{kind: tok.Kind(), src: p.src, start: int32(p.skip(from)), end: int32(p.dec.InputOffset()), count: 1}
	switch v.kind {
	case '"':
		v.text = tok.String()
	case '0':
		v.text = string(p.src[v.start:v.end])
	case '{', '[':
		if err := p.children(v, depth); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (p *parser) children(v *value, depth int) error {
	closing := jsontext.Kind('}')
	if v.kind == '[' {
		closing = ']'
	}
	seg := int(v.end)
	for p.dec.PeekKind() != closing {
		var c child
		c.seg = int32(seg)
		from := seg
		if v.kind == '{' {
			name, err := p.dec.ReadToken()
			if err != nil {
				return err
			}
			c.name = name.String()
			from = int(p.dec.InputOffset())
		}
		val, err := p.value(from, depth+1)
		if err != nil {
			return err
		}
		c.val, c.from, c.fromEnd = val, val.start, val.end
		seg = p.skipSpace(int(val.end))
		c.segEnd = int32(seg)
		if seg < len(p.src) && p.src[seg] == ',' {
			seg++
		}
		v.count += val.count
		v.children = append(v.children, c)
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	v.end = int32(p.dec.InputOffset())
	return nil
}

func (p *parser) skipSpace(i int) int {
	for i < len(p.src) {
		switch p.src[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

func (p *parser) skip(i int) int {
	i = p.skipSpace(i)
	if i < len(p.src) && p.src[i] == ':' {
		i = p.skipSpace(i + 1)
	}
	return i
}
