package index

import (
	"strings"
	"unicode/utf8"
)

// How often a word counts in the Standard ranking, by where it stands.
const (
	ownNameWeight     = 3
	serverNameWeight  = 1
	labelWeight       = 1
	descriptionWeight = 1
	propertyWeight    = 1
	aliasWeight       = 3
)

// A term's frequency in a document: a count of at most maxFrequency, and
// nameBit when the document's own name or an alias holds the term.
const (
	nameBit      = 1 << 15
	maxFrequency = nameBit - 1
)

// sink receives the terms of a document, one occurrence at a time. frequency is
// what the occurrence adds; counted tells whether it counts for the document's
// length (a compound word counts once, not for its parts as well).
type sink interface {
	add(w *word, frequency uint16, counted bool)
}

// referenceDocument sends the Reference ranking's terms of a document.
func referenceDocument(d *Document, s *asciiScanner, to sink) {
	field := func(text string) {
		s.text, s.end = text, 0
		for s.next() {
			to.add(&s.word, 1, true)
		}
	}
	name := d.searchable()
	field(name)
	if label := cut(d.SourceLabel, MaxNameBytes); labelAdds(name, label) {
		field(label)
	}
	field(cut(d.Description, MaxDescriptionBytes))
	for _, property := range cutAll(d.Properties, MaxPropertyBytes) {
		field(property)
	}
}

// standardDocument sends the Standard ranking's terms of a document. It returns
// how many words the document's own name has.
func standardDocument(d *Document, s *scanner, to sink) int {
	name := d.searchable()
	own := name
	if at := strings.LastIndex(name, "__"); at >= 0 && at+2 < len(name) {
		own = name[at+2:]
		standardField(name[:at], serverNameWeight, s, to)
	}
	words := standardField(own, ownNameWeight|nameBit, s, to)
	if label := cut(d.SourceLabel, MaxNameBytes); labelAdds(name, label) {
		standardField(label, labelWeight, s, to)
	}
	standardField(cut(d.Description, MaxDescriptionBytes), descriptionWeight, s, to)
	for _, property := range cutAll(d.Properties, MaxPropertyBytes) {
		standardField(property, propertyWeight, s, to)
	}
	for _, alias := range cutAll(d.Aliases, MaxAliasBytes) {
		standardField(alias, aliasWeight|nameBit, s, to)
	}
	return words
}

// standardField sends the terms of one text and returns how many words it has,
// the parts of compound words taken singly.
func standardField(text string, frequency uint16, s *scanner, to sink) int {
	count := 0
	s.reset(text)
	for s.next() {
		if s.gram != nil {
			count += addGrams(s.gram, frequency, to)
			continue
		}
		to.add(&s.word, frequency, true)
		count += 1 + len(s.cuts)
		if len(s.cuts) > 0 {
			for i := 0; i <= len(s.cuts); i++ {
				to.add(s.part(i), frequency, false)
			}
		}
	}
	return count
}

// addGrams sends each rune of a piece of text, for queries of one character,
// and each pair.
func addGrams(piece []rune, frequency uint16, to sink) int {
	var w word
	var buffer [2 * utf8.UTFMax]byte
	for i, r := range piece {
		w.folded = utf8.AppendRune(buffer[:0], r)
		to.add(&w, frequency, len(piece) == 1)
		if i+1 < len(piece) {
			w.folded = utf8.AppendRune(w.folded, piece[i+1])
			to.add(&w, frequency, true)
		}
	}
	return max(1, len(piece)-1)
}

// part gives the i-th part of the current word. It is valid until the next call.
func (s *scanner) part(i int) *word {
	from, to := 0, len(s.folded)
	if s.raw != "" {
		to = len(s.raw)
	}
	if i > 0 {
		from = s.cuts[i-1]
	}
	if i < len(s.cuts) {
		to = s.cuts[i]
	}
	s.onePart = word{}
	if s.raw != "" {
		s.onePart.raw = s.raw[from:to]
	} else {
		s.onePart.folded = s.folded[from:to]
	}
	return &s.onePart
}
