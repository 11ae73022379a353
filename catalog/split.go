package catalog

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// split cuts a JSON array into its elements by brackets and quotes alone, so
// that one element that can not be read does not cost the others. What lies
// inside an element is not checked. An array that does not hold together
// (brackets or quotes left open, text behind it) is an error.
func split(array []byte) ([]span, error) {
	i := skipSpace(array, 0)
	if i == len(array) {
		return nil, errors.New("empty; a JSON array of tool definitions is expected")
	}
	if array[i] != '[' {
		return nil, errors.New("not a JSON array of tool definitions")
	}
	var out []span
	start := i + 1
	level := 1
	for i++; i < len(array); i++ {
		switch array[i] {
		case '"':
			end := closingQuote(array[i+1:])
			if end < 0 {
				return nil, errors.New("a string in the array of tool definitions has no end")
			}
			i += end + 1
		case '{', '[':
			level++
		case '}', ']':
			level--
			if level > 0 {
				continue
			}
			if array[i] != ']' {
				return nil, errors.New("the array of tool definitions ends with } in place of ]")
			}
			if skipSpace(array, i+1) != len(array) {
				return nil, errors.New("text follows after the array of tool definitions")
			}
			if s := trimSpan(array, span{start, i}); s.start < s.end || len(out) > 0 {
				out = append(out, s)
			}
			return out, nil
		case ',':
			if level == 1 {
				out = append(out, trimSpan(array, span{start, i}))
				start = i + 1
			}
		}
	}
	return nil, errors.New("the array of tool definitions has no end")
}

// closingQuote is where the string ends that b continues, -1 when it does not.
func closingQuote(b []byte) int {
	for at := 0; ; {
		q := bytes.IndexByte(b[at:], '"')
		if q < 0 {
			return -1
		}
		q += at
		backslashes := 0
		for i := q - 1; i >= at && b[i] == '\\'; i-- {
			backslashes++
		}
		if backslashes%2 == 0 {
			return q
		}
		at = q + 1
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

func trimSpan(b []byte, s span) span {
	s.start = min(skipSpace(b, s.start), s.end)
	for s.end > s.start && skipSpace(b[:s.end], s.end-1) == s.end {
		s.end--
	}
	return s
}

// repairText is a copy of a JSON text in which broken UTF-8 and halves of
// surrogate pairs are replaced by U+FFFD.
func repairText(b []byte) []byte {
	out := bytes.ToValidUTF8(b, []byte("\uFFFD"))
	if len(out) > 0 && len(b) > 0 && &out[0] == &b[0] {
		out = bytes.Clone(b)
	}
	for i := 0; i < len(out); {
		if out[i] != '\\' {
			i++
			continue
		}
		r, ok := hex4(out[i:])
		switch {
		case !ok:
			i += 2
			continue
		case r >= 0xd800 && r < 0xdc00:
			if low, ok := hex4(out[i+6:]); ok && low >= 0xdc00 && low < 0xe000 {
				i += 12
				continue
			}
			copy(out[i:], `\ufffd`)
		case r >= 0xdc00 && r < 0xe000:
			copy(out[i:], `\ufffd`)
		}
		i += 6
	}
	return out
}

// brokenText reports whether repairText would change b.
func brokenText(b []byte) bool {
	return !utf8.Valid(b) || !bytes.Equal(b, repairText(b))
}
