package subjects

import "reflect"

// Bounds of what is read the plain way.
const (
	maxPlainBytes  = 64 << 10
	maxPlainFields = 16
	maxPlainLevels = 32
)

// readPlain reads what most requests look like: one object whose members are
// known, stand there once, and are texts without escapes in ASCII, true or false,
// or raw. It reports whether it did; else v is untouched, and the whole is for
// the reader that knows every case and says what is wrong.
func (p *plan) readPlain(data []byte, v reflect.Value) bool {
	if p.shape != shapeStruct || len(data) > maxPlainBytes {
		return false
	}
	var found [maxPlainFields]struct{ field, from, to int }
	n := 0
	i := plainSpace(data, 0)
	if i == len(data) || data[i] != '{' {
		return false
	}
	if i = plainSpace(data, i+1); i < len(data) && data[i] == '}' {
		return plainSpace(data, i+1) == len(data)
	}
	var seen uint64
	for {
		end := plainText(data, i)
		if end < 0 || n == maxPlainFields {
			return false
		}
		field, known := p.byName[string(data[i+1:end-1])]
		if !known || field >= 64 || seen&(1<<field) != 0 {
			return false
		}
		seen |= 1 << field
		if i = plainSpace(data, end); i == len(data) || data[i] != ':' {
			return false
		}
		i = plainSpace(data, i+1)
		switch p.fields[field].plan.shape {
		case shapeString:
			end = plainText(data, i)
		case shapeBool:
			if end = plainWord(data, i, "true"); end < 0 {
				end = plainWord(data, i, "false")
			}
		case shapeRaw:
			end = plainValue(data, i, maxPlainLevels)
		default:
			return false
		}
		if end < 0 {
			return false
		}
		found[n].field, found[n].from, found[n].to = field, i, end
		n++
		if i = plainSpace(data, end); i == len(data) {
			return false
		}
		if data[i] == '}' {
			break
		}
		if data[i] != ',' {
			return false
		}
		i = plainSpace(data, i+1)
	}
	if plainSpace(data, i+1) != len(data) {
		return false
	}
	for _, m := range found[:n] {
		f := &p.fields[m.field]
		to := fieldOf(v, f.index)
		switch f.plan.shape {
		case shapeString:
			to.SetString(string(data[m.from+1 : m.to-1]))
		case shapeBool:
			to.SetBool(data[m.from] == 't')
		default:
			to.SetBytes(data[m.from:m.to:m.to])
		}
	}
	return true
}

// The functions below take the place where something begins and give the place
// behind it, below 0 when it is not there or is not plain.

func plainSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// plainText passes over a string of ASCII without escapes.
func plainText(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c == '\\' || c < ' ' || c >= 0x80:
			return -1
		}
	}
	return -1
}

func plainWord(data []byte, i int, word string) int {
	if len(data)-i < len(word) || string(data[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// plainValue passes over any value of at most so many levels. Its strings may
// hold any bytes, and escapes but \u.
func plainValue(data []byte, i, levels int) int {
	if i >= len(data) || levels == 0 {
		return -1
	}
	switch c := data[i]; c {
	case '"':
		return plainString(data, i)
	case 't':
		return plainWord(data, i, "true")
	case 'f':
		return plainWord(data, i, "false")
	case 'n':
		return plainWord(data, i, "null")
	case '[', '{':
		return plainNested(data, i, levels)
	default:
		return plainNumber(data, i)
	}
}

func plainNested(data []byte, i, levels int) int {
	object := data[i] == '{'
	last := byte(']')
	if object {
		last = '}'
	}
	if i = plainSpace(data, i+1); i < len(data) && data[i] == last {
		return i + 1
	}
	for {
		if object {
			if i >= len(data) || data[i] != '"' {
				return -1
			}
			if i = plainString(data, i); i < 0 {
				return -1
			}
			if i = plainSpace(data, i); i == len(data) || data[i] != ':' {
				return -1
			}
			i = plainSpace(data, i+1)
		}
		if i = plainValue(data, i, levels-1); i < 0 {
			return -1
		}
		if i = plainSpace(data, i); i == len(data) {
			return -1
		}
		if data[i] == last {
			return i + 1
		}
		if data[i] != ',' {
			return -1
		}
		i = plainSpace(data, i+1)
	}
}

func plainString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i++; i == len(data) {
				return -1
			}
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return -1
			}
		}
	}
	return -1
}

// plainNumber passes over a number.
func plainNumber(data []byte, i int) int {
	if i < len(data) && data[i] == '-' {
		i++
	}
	from := i
	if i = digits(data, i); i == from || data[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(data) && data[i] == '.' {
		from = i + 1
		if i = digits(data, from); i == from {
			return -1
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		from = i
		if i = digits(data, i); i == from {
			return -1
		}
	}
	return i
}

func digits(data []byte, i int) int {
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i
}

// room estimates how many bytes a message takes, so that it is written without
// growing: exactly but for escapes where it is made of texts and raw parts.
func (p *plan) room(v reflect.Value) int {
	n := 2
	for i := range p.fields {
		f := &p.fields[i]
		n += len(f.quoted) + 1
		switch to := fieldOf(v, f.index); f.plan.shape {
		case shapeString, shapeRaw:
			n += max(to.Len()+2, len("null"))
		case shapeStruct:
			n += f.plan.room(to)
		case shapePointer:
			if f.plan.elem.shape == shapeStruct && !to.IsNil() {
				n += f.plan.elem.room(to.Elem())
				break
			}
			n += 24
		default:
			n += 24
		}
	}
	return n
}

// plainQuoted reports whether a text stands between quotes as it is.
func plainQuoted(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}
