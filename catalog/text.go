package catalog

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// space reports whether r separates words: Unicode's white space, the line and
// paragraph separators and the information separators U+001C to U+001F.
func space(r rune) bool {
	return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r)
}

// unprintable reports whether r must not reach a prompt: control characters, the
// marks that turn the direction of text, byte order marks, what has no
// shape (tags and variation selectors of plane 14 can carry hidden text) and
// letters that look like a blank. White space is not meant, nor what joins or
// parts letters: some scripts and emoji need it.
func unprintable(r rune) bool {
	switch {
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return true
	case r < 0x115f:
		return r == 0xad || r == 0x34f || r == 0x61c
	case r == 0x115f || r == 0x1160 || r == 0x17b4 || r == 0x17b5 || r == 0x180e || r == 0x2800 || r == 0x3164 || r == 0xffa0:
		return true
	case r == 0x200e || r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r == 0xfeff, r >= 0xfff9 && r <= 0xfffb, r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// joiner reports whether r joins or parts its neighbours without being seen.
func joiner(r rune) bool { return r >= 0x200b && r <= 0x200d }

// plainASCII reports whether s holds only printable ASCII, of which nothing has
// to be cleaned.
func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// cut is s with at most n characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := 0
	for range n {
		if at >= len(s) {
			return s
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return s[:at]
}

// clip is s, or its first n characters and an ellipsis.
func clip(s string, n int) string {
	if c := cut(s, n); len(c) < len(s) {
		return c + "…"
	}
	return s
}

// oneLine is s as one line of at most n characters and an ellipsis: white space
// runs become one space, what must not reach a prompt is dropped.
func oneLine(s string, n int) string {
	// Four bytes a character at most; what lies far behind is not shown.
	if most := 8 * n; len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return clip(collapse(s), n)
}

// collapse turns runs of white space into one space, none at the ends, and drops
// what must not reach a prompt.
func collapse(s string) string {
	if plainASCII(s) && !strings.Contains(s, "  ") {
		return strings.Trim(s, " ")
	}
	var b strings.Builder
	b.Grow(len(s))
	gap := false
	for _, r := range s {
		switch {
		case space(r):
			gap = b.Len() > 0
		case unprintable(r):
		default:
			if gap {
				b.WriteByte(' ')
				gap = false
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// trim drops white space at both ends.
func trim(s string) string { return strings.TrimFunc(s, space) }

// quoteShort quotes outside text for a message: one line, at most 64 characters.
func quoteShort(s string) string { return strconv.Quote(oneLine(s, 64)) }

// isWord reports whether r is a letter or digit of any script.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
