package arguments

import "github.com/go-json-experiment/json/jsontext"

// appendJSON writes a schema's value from its parts, without regard to how it
// was written.
func appendJSON(dst []byte, v *value) []byte {
	switch v.kind {
	case '{', '[':
		closing := byte('}')
		if v.kind == '[' {
			closing = ']'
		}
		dst = append(dst, byte(v.kind))
		for i := range v.children {
			if i > 0 {
				dst = append(dst, ',')
			}
			if v.kind == '{' {
				dst, _ = jsontext.AppendQuote(dst, v.children[i].name)
				dst = append(dst, ':')
			}
			dst = appendJSON(dst, v.children[i].val)
		}
		return append(dst, closing)
	case '"':
		dst, _ = jsontext.AppendQuote(dst, v.text)
		return dst
	case '0':
		return append(dst, v.text...)
	case 't':
		return append(dst, "true"...)
	case 'f':
		return append(dst, "false"...)
	}
	return append(dst, "null"...)
}
