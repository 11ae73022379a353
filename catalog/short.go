package catalog

import (
	"strings"
	"unicode/utf8"
)

// ShortDescriptionChars is the length of a description in the listing, without
// the ellipsis that shows a cut.
const ShortDescriptionChars = 60

// ShortDescription is a description as the listing shows it: its first sentence
// on one line, at most n characters and, when something was cut, an ellipsis.
//
// A sentence ends at ".", "!" or "?" before white space or the end, except at
// the "." of a lower-case "e.g.", "i.e." or "etc." that begins a word. A longer
// text is cut at the last space inside the first n characters, where there is
// one, and loses commas, semicolons, colons and spaces at the cut.
func ShortDescription(description string, n int) string {
	n = max(n, 0)
	s := firstSentence(description, n)
	head := cut(s, n)
	if len(head) == len(s) {
		return s
	}
	if i := strings.LastIndexByte(head, ' '); i >= 0 {
		head = head[:i]
	}
	return strings.TrimRight(head, ",;: ") + "…"
}

// firstSentence is the collapsed text up to the end of its first sentence. It
// reads no more than is needed to fill n characters.
func firstSentence(description string, n int) string {
	if end := plainSentence(description, n); end >= 0 {
		return description[:end]
	}
	var b strings.Builder
	chars, gap := 0, false
	for _, r := range description {
		switch {
		case space(r):
			if sentenceEnds(b.String()) {
				return b.String()
			}
			gap = b.Len() > 0
			continue
		case unprintable(r):
			continue
		}
		if chars > n {
			return b.String()
		}
		if gap {
			b.WriteByte(' ')
			gap = false
			chars++
		}
		b.WriteRune(r)
		chars++
	}
	return b.String()
}

// plainSentence is where the first sentence of a text ends that needs no
// cleaning up to there, -1 when it may need some or is longer than n.
func plainSentence(s string, n int) int {
	for i := range min(len(s), n) {
		switch c := s[i]; {
		case c == ' ':
			if i == 0 || s[i-1] == ' ' {
				return -1
			}
			if sentenceEnds(s[:i]) {
				return i
			}
		case c < 0x20 || c >= 0x7f:
			return -1
		}
	}
	if len(s) <= n && (s == "" || s[len(s)-1] != ' ') {
		return len(s)
	}
	return -1
}

// sentenceEnds reports whether the text before white space ends a sentence.
func sentenceEnds(s string) bool {
	if s == "" {
		return false
	}
	switch s[len(s)-1] {
	case '!', '?':
		return true
	case '.':
	default:
		return false
	}
	for _, a := range [...]string{"e.g", "i.e", "etc"} {
		if before, ok := strings.CutSuffix(s[:len(s)-1], a); ok && (before == "" || !wordEnd(before)) {
			return false
		}
	}
	return true
}

// wordEnd reports whether s ends within a word, so that what follows does not
// begin one.
func wordEnd(s string) bool {
	last, _ := utf8.DecodeLastRuneInString(s)
	return last == '_' || isWord(last)
}
