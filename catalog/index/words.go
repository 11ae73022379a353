package index

import (
	"unicode"
	"unicode/utf8"
)

// maxParts bounds the parts of one compound word; one with more is not split.
const maxParts = 16

// scanner walks over the words of a text for the Standard ranking. After next,
// either gram is set, a piece of text in a script without spaces, or the
// embedded word is: accents folded and lower-cased. cuts are the places in the
// word where its parts begin (camel case, letters beside digits), without the
// first; they are empty for a word of one part.
type scanner struct {
	text       string
	start, end int // where the current word comes from in text

	word
	cuts    []int
	onePart word

	gram   []rune
	script script
	mixed  bool // the word is only a piece of text[start:end]

	pending []rune // what is left of a folded stretch of text
	kinds   []kind
	offsets []int
	runes   []rune
	folder  folder
}

// kind is what a rune of a word means for its parts.
type kind uint8

const (
	lower kind = iota // also letters without case
	upper
	digit
)

// reset begins with another text.
func (s *scanner) reset(text string) {
	s.text, s.start, s.end, s.pending = text, 0, 0, nil
}

// next finds the next word.
func (s *scanner) next() bool {
	for {
		if len(s.pending) > 0 {
			s.segment()
			return true
		}
		s.skip()
		if s.start == len(s.text) {
			return false
		}
		if s.plain() {
			return true
		}
		s.unfolded()
	}
}

// skip moves start and end to the next rune of a word.
func (s *scanner) skip() {
	text, i := s.text, s.end
	for i < len(text) {
		if text[i] < utf8.RuneSelf {
			if isAlnum(text[i]) {
				break
			}
			// The 's of a word is no word.
			if text[i] == '\'' && i > 0 && isAlnum(text[i-1]) && endsPossessive(text[i+1:]) {
				i++
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == '’' && i > 0 && isAlnum(text[i-1]) && endsPossessive(text[i+n:]) {
			n++
		} else if isWordRune(r) {
			break
		}
		i += n
	}
	s.start, s.end = i, i
}

// endsPossessive tells whether text begins with a lone s.
func endsPossessive(text string) bool {
	if text == "" || text[0] != 's' {
		return false
	}
	r, _ := utf8.DecodeRuneInString(text[1:])
	return len(text) == 1 || !isWordRune(r)
}

// plain takes a word of ASCII only; it fails on a word that goes on beyond ASCII.
func (s *scanner) plain() bool {
	text, i := s.text, s.start
	uppers, digits := 0, 0
	for ; i < len(text); i++ {
		c := text[i]
		if c-'a' < 26 {
			continue
		}
		if c-'A' < 26 {
			uppers++
		} else if c-'0' < 10 {
			digits++
		} else {
			break
		}
	}
	if i < len(text) && text[i] >= utf8.RuneSelf {
		if r, _ := utf8.DecodeRuneInString(text[i:]); isWordRune(r) {
			return false
		}
	}
	s.end = i
	s.gram, s.mixed = nil, false
	s.cuts = s.cuts[:0]
	s.raw = text[s.start:i]
	length := len(s.raw)
	compound := digits > 0 && digits < length || uppers > 1 && uppers < length || uppers == 1 && !isUpper(s.raw[0])
	if compound {
		s.kinds = s.kinds[:0]
		for j := 0; j < length; j++ {
			switch c := s.raw[j]; {
			case isUpper(c):
				s.kinds = append(s.kinds, upper)
			case isDigit(c):
				s.kinds = append(s.kinds, digit)
			default:
				s.kinds = append(s.kinds, lower)
			}
		}
		s.split(s.raw[length-1] == 's')
	}
	if uppers > 0 {
		word := s.raw
		if compound && s.pluralOfCapitals(word[length-1] == 's') {
			word = word[:length-1]
		}
		s.folded = appendLower(s.folded[:0], word)
		s.raw = ""
	}
	return true
}

// unfolded takes a stretch of word runes that are not all ASCII, and leaves it
// folded in pending. Nothing may be left of it.
func (s *scanner) unfolded() {
	i := s.start
	for i < len(s.text) {
		r, n := utf8.DecodeRuneInString(s.text[i:])
		if !isWordRune(r) {
			break
		}
		i += n
	}
	s.end = i
	s.runes = s.folder.fold(s.text[s.start:i], s.runes[:0])
	s.pending, s.mixed = s.runes, false
}

// segment takes the next piece of one script from pending.
func (s *scanner) segment() {
	in, _ := scriptOf(s.pending[0])
	n := 1
	for ; n < len(s.pending); n++ {
		if other, continues := scriptOf(s.pending[n]); other != in && !continues {
			break
		}
	}
	piece := s.pending[:n]
	s.pending = s.pending[n:]
	s.mixed = s.mixed || len(s.pending) > 0
	s.cuts, s.raw = s.cuts[:0], ""
	if in != spaced {
		s.gram, s.script = piece, in
		return
	}
	s.gram = nil
	s.folded, s.kinds, s.offsets = s.folded[:0], s.kinds[:0], s.offsets[:0]
	for _, r := range piece {
		s.offsets = append(s.offsets, len(s.folded))
		switch {
		case unicode.IsDigit(r):
			s.kinds = append(s.kinds, digit)
		case unicode.IsUpper(r):
			s.kinds = append(s.kinds, upper)
		default:
			s.kinds = append(s.kinds, lower)
		}
		s.folded = utf8.AppendRune(s.folded, unicode.ToLower(r))
	}
	s.split(piece[n-1] == 's')
	if s.pluralOfCapitals(piece[n-1] == 's') {
		s.folded = s.folded[:len(s.folded)-1]
	}
	for i, at := range s.cuts {
		s.cuts[i] = s.offsets[at]
	}
}

// split finds the borders of parts by the kinds of a word's runes: a capital
// behind a small letter, the last capital of several before a small letter
// (XML|Http), and letters beside digits. A single letter takes no border: iPhone,
// s3, k8s, IDs stay whole.
func (s *scanner) split(endsInS bool) {
	kinds, from := s.kinds, 0
	for i := 1; i < len(kinds); i++ {
		before, here := kinds[i-1], kinds[i]
		border := false
		switch {
		case here == digit && before != digit:
			border = i-from >= 2
		case here != digit && before == digit:
			border = i+1 < len(kinds) && kinds[i+1] != digit
		case here == upper && before == lower:
			border = i-from >= 2
		case here == upper && before == upper && i+1 < len(kinds) && kinds[i+1] == lower:
			plural := endsInS && i+2 == len(kinds)
			border = i-from >= 2 && !plural
		}
		if border {
			if len(s.cuts) == maxParts-1 {
				s.cuts = s.cuts[:0]
				return
			}
			s.cuts = append(s.cuts, i)
			from = i
		}
	}
}

// pluralOfCapitals tells whether the word, or the last part of it, is a plural
// like PRs or VMs: two capitals or more and an s. No stemmer knows these, since
// stemmers keep the s of words without a vowel.
func (s *scanner) pluralOfCapitals(endsInS bool) bool {
	last := len(s.kinds) - 1
	from := 0
	if len(s.cuts) > 0 {
		from = s.cuts[len(s.cuts)-1]
	}
	if !endsInS || last-from < 2 {
		return false
	}
	for _, k := range s.kinds[from:last] {
		if k != upper {
			return false
		}
	}
	return true
}
