package catalog

import "unicode/utf8"

// measure walks a part of a JSON text that begins outside a string and returns
// its length in characters when it is written compactly, with as few escapes as
// JSON allows, and how deeply objects and arrays nest in it. It does not check
// the grammar.
func measure(b []byte) (chars, depth int) {
	level := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\n', '\r':
			continue
		case '{', '[':
			level++
			depth = max(depth, level)
		case '}', ']':
			level--
		case '"':
			n, size := measureString(b[i+1:])
			chars += n
			i += size
		}
		chars++
	}
	return chars, depth
}

// measureString measures what follows an opening quote: the characters up to and
// with the closing quote, and the bytes they take.
func measureString(b []byte) (chars, size int) {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return chars + 1, i + 1
		case c == '\\':
			n, skip := measureEscape(b[i:])
			chars += n
			i += skip - 1
		case c&0xc0 != 0x80: // not a further byte of a character
			chars++
		}
	}
	return chars, len(b)
}

// measureEscape measures one escape: the characters of its shortest spelling and
// the bytes it takes here. A pair of surrogates is one character.
func measureEscape(b []byte) (chars, size int) {
	if len(b) < 2 {
		return 1, len(b)
	}
	switch b[1] {
	case '/':
		return 1, 2
	case 'u':
	default:
		return 2, 2
	}
	r, ok := hex4(b)
	if !ok {
		return 1, 2
	}
	switch {
	case r == '"' || r == '\\' || r == '\b' || r == '\f' || r == '\n' || r == '\r' || r == '\t':
		return 2, 6
	case r < 0x20:
		return 6, 6
	case r >= 0xd800 && r < 0xdc00:
		if low, ok := hex4(b[6:]); ok && low >= 0xdc00 && low < 0xe000 {
			return 1, 12
		}
	}
	return 1, 6
}

// hex4 is the value of the \uXXXX escape that b begins with.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case digit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// tokens is the estimate of how many tokens a text of that many characters
// takes: a quarter of them, rounded up.
func tokens(chars int) int { return (chars + 3) / 4 }

// textTokens is the estimate for a text.
func textTokens(s string) int { return tokens(utf8.RuneCountInString(s)) }
