package index

import (
	"strings"
	"unicode"
)

// Tokens analyses text as the Reference ranking does: the maximal runs of ASCII
// letters and digits, lower-cased and stemmed, in order and with repetitions.
func Tokens(text string) []string {
	var tokens []string
	s := asciiScanner{text: text}
	for s.next() {
		tokens = append(tokens, Stem(s.string()))
	}
	return tokens
}

// asciiScanner walks over the maximal runs of ASCII letters and digits of a
// text.
type asciiScanner struct {
	text       string
	start, end int // the current word in text
	word
}

// word is one lower-cased word: raw when the text has it like that, else
// folded. Keeping them apart lets most words share the text they come from.
type word struct {
	raw    string
	folded []byte
}

// string copies the word if it has to.
func (w *word) string() string {
	if w.raw != "" {
		return w.raw
	}
	return string(w.folded)
}

// stops tells whether it is a stop word.
func (w *word) stops() bool {
	if w.raw != "" {
		return isStopWord(w.raw)
	}
	return len(w.folded) <= maxStopWord && isStopWord(string(w.folded))
}

func (s *asciiScanner) next() bool {
	text := s.text
	i := s.end
	for i < len(text) && !isAlnum(text[i]) {
		i++
	}
	if i == len(text) {
		s.end = i
		return false
	}
	s.start = i
	upper := false
	for ; i < len(text) && isAlnum(text[i]); i++ {
		upper = upper || isUpper(text[i])
	}
	s.end = i
	s.raw = text[s.start:s.end]
	if upper {
		s.folded = appendLower(s.folded[:0], s.raw)
		s.raw = ""
	}
	return true
}

func isAlnum(c byte) bool { return isLetter(c) || isDigit(c) }
func isLetter(c byte) bool {
	c |= 0x20
	return 'a' <= c && c <= 'z'
}
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// appendLower appends ASCII text in lower case.
func appendLower(to []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if isUpper(c) {
			c |= 0x20
		}
		to = append(to, c)
	}
	return to
}

// searchableName is a name without the "mcp__" in front.
func searchableName(name string) string { return strings.TrimPrefix(name, "mcp__") }

// labelAdds tells whether a source label says more than the name does: it is not
// already one of the name's words, which `_ . : -` and white space separate.
func labelAdds(name, label string) bool {
	if label == "" || label == "other" {
		return false
	}
	if strings.IndexFunc(label, separatesNameWords) >= 0 {
		return true
	}
	for rest := name; ; {
		at := strings.IndexFunc(rest, separatesNameWords)
		if at < 0 {
			return rest != label
		}
		if rest[:at] == label {
			return false
		}
		rest = strings.TrimLeftFunc(rest[at:], separatesNameWords)
	}
}

func separatesNameWords(r rune) bool {
	switch r {
	case '_', '.', ':', '-', 0x1c, 0x1d, 0x1e, 0x1f:
		return true
	}
	return unicode.IsSpace(r)
}

// cut shortens text to at most n bytes at the border of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n]
}

// cutAll shortens a list to the items of at most n bytes taken together.
func cutAll(items []string, n int) []string {
	for i, item := range items {
		if n -= len(item); n < 0 {
			return items[:i]
		}
	}
	return items
}
