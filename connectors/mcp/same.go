package mcp

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCompared is the largest value, in bytes, that is compared as JSON. A larger
// one counts as different unless it is equal byte for byte.
const maxCompared = 4 << 20

// sameJSON reports whether two JSON texts mean the same value: order of members
// and spelling of strings and numbers aside. No number is converted: 1.0, 1 and
// 10e-1 are equal, 2^53 and 2^53+1 are not.
func sameJSON(a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) > maxCompared || len(b) > maxCompared {
		return false
	}
	x, err := canonical(a)
	if err != nil {
		return false
	}
	y, err := canonical(b)
	return err == nil && bytes.Equal(x, y)
}

// canonical spells a value in one way: members sorted by name, no white space,
// strings unescaped, numbers without trailing zeros.
func canonical(v jsontext.Value) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), lenient()...)
	out, err := canonicalValue(nil, dec)
	if err != nil {
		return nil, err
	}
	return out, atEnd(dec)
}

func canonicalValue(out []byte, dec *jsontext.Decoder) ([]byte, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '"':
		return append(out, quote(tok.String())...), nil
	case '0':
		return append(out, canonicalNumber(tok.String())...), nil
	case '[':
		out = append(out, '[')
		for dec.PeekKind() != ']' {
			if out, err = canonicalValue(out, dec); err != nil {
				return nil, err
			}
			out = append(out, ',')
		}
		_, err = dec.ReadToken()
		return append(out, ']'), err
	case '{':
		type member struct {
			name  string
			value []byte
		}
		var all []member
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			m := member{name: name.String()}
			if m.value, err = canonicalValue(nil, dec); err != nil {
				return nil, err
			}
			all = append(all, m)
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
		slices.SortStableFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
		out = append(out, '{')
		for _, m := range all {
			out = append(append(append(append(out, quote(m.name)...), ':'), m.value...), ',')
		}
		return append(out, '}'), nil
	case 't', 'f', 'n':
		return append(out, tok.String()...), nil
	}
	return nil, errors.New("not a JSON value")
}

// canonicalNumber spells a JSON number as its digits without leading and
// trailing zeros and the power of ten they are multiplied with.
func canonicalNumber(s string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	sign := ""
	if m, ok := strings.CutPrefix(mantissa, "-"); ok {
		sign, mantissa = "-", m
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	e := int64(0)
	if exponent != "" {
		var err error
		if e, err = strconv.ParseInt(exponent, 10, 32); err != nil {
			return s // beyond any use: equal only as it is written
		}
	}
	e -= int64(len(fraction))
	short := strings.TrimRight(digits, "0")
	e += int64(len(digits) - len(short))
	return sign + short + "e" + strconv.FormatInt(e, 10)
}
