package subjects

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// readScalar sets everything that is one raw value.
func (p *plan) readScalar(val jsontext.Value, v reflect.Value) *ErrMessage {
	if p.shape == shapeRaw {
		v.SetBytes(val[:len(val):len(val)])
		return nil
	}
	if p.shape == shapeOther || p.shape == shapeInterface {
		if err := json.Unmarshal(val, v.Addr().Interface()); err != nil {
			return &ErrMessage{Problem: err.Error()}
		}
		return nil
	}
	if val.Kind() == 'n' {
		v.SetZero()
		return nil
	}
	switch p.shape {
	case shapeString:
		if val.Kind() != '"' {
			return wrongKind("a string", val.Kind())
		}
		s, err := unquote(val)
		if err != nil {
			return &ErrMessage{Problem: "a string of valid UTF-8 is expected"}
		}
		v.SetString(s)
	case shapeBool:
		if k := val.Kind(); k != 't' && k != 'f' {
			return wrongKind("true or false", k)
		}
		v.SetBool(val[0] == 't')
	case shapeInt:
		if val.Kind() != '0' {
			return wrongKind("an integer", val.Kind())
		}
		n, err := strconv.ParseInt(integral(val), 10, 64)
		if err != nil || v.OverflowInt(n) {
			return &ErrMessage{Problem: "an integer of " + strconv.Itoa(v.Type().Bits()) + " bits is expected, not " + excerpt(val)}
		}
		v.SetInt(n)
	case shapeUint:
		if val.Kind() != '0' {
			return wrongKind("an integer of 0 or more", val.Kind())
		}
		n, err := strconv.ParseUint(integral(val), 10, 64)
		if err != nil || v.OverflowUint(n) {
			return &ErrMessage{Problem: "an integer of 0 or more and " + strconv.Itoa(v.Type().Bits()) + " bits is expected, not " + excerpt(val)}
		}
		v.SetUint(n)
	}
	return nil
}

// unquote returns the text of a JSON string; an error when it is not UTF-8.
func unquote(quoted jsontext.Value) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), nil
	}
	s, err := jsontext.AppendUnquote(nil, []byte(quoted))
	return string(s), err
}

// integral rewrites a JSON number that is a whole one, such as 2e5 or 5.0, as
// its digits; others come back as they are. Numbers that need more than 19
// digits are of no use to any field and come back as they are, too.
func integral(number []byte) string {
	s := string(number)
	if !strings.ContainsAny(s, ".eE") {
		return s
	}
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(s[i+1:]); err != nil || exponent < -40 || exponent > 40 {
			return s
		}
		mantissa = s[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	for ; exponent > 0; exponent-- {
		digit := "0"
		if fraction != "" {
			digit, fraction = fraction[:1], fraction[1:]
		}
		whole += digit
	}
	for ; exponent < 0 && strings.HasSuffix(whole, "0") && len(whole) > 1; exponent++ {
		whole = whole[:len(whole)-1]
	}
	if fraction != "" || exponent != 0 && strings.Trim(whole, "-0") != "" {
		return s
	}
	return whole
}
