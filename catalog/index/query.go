package index

import (
	"strings"
	"unicode/utf8"
)

// slot is one term that the query asks for.
type slot struct {
	term  uint32 // its number in the index; unknown if the index lacks it
	stem  string
	taken bool // a unit of the query stands for it already
}

// unknown is the term of a slot that no document of the index holds.
const unknown = ^uint32(0)

// unit is one word of the query: a term, or a compound word, which a document
// holds when it holds the whole or all of its parts.
type unit struct {
	whole      int // slot
	parts      int // the compound's slots are search.parts[parts:partsEnd]
	partsEnd   int
	text       string // as it stands in the query; of pairs, empty
	stop       bool
	run, place int // pairs of one piece of text share a run above 0
	script     script

	docs        []uint32 // its postings
	frequencies []uint16
	everywhere  []uint16 // its frequency in every document, where it is common; else nil
	holders     int      // number of documents, extra ones included
	idf         float64
	at          int // how far docs have been read
}

// opens tells whether the unit is a compound word that no document holds.
func (u *unit) opens() bool { return u.parts < u.partsEnd && u.holders == 0 }

// nameWords is how many words of a name the unit stands for.
func (u *unit) nameWords() int { return max(1, u.partsEnd-u.parts) }

// readReference turns the query into units, one for each distinct word, and
// into the sequence of its words, which counts repetitions.
func (s *search) readReference() {
	s.ascii.text, s.ascii.end = s.query, 0
	for len(s.sequence) < MaxQueryWords && s.ascii.next() {
		at := s.slotOf(&s.ascii.word)
		if !s.slots[at].taken {
			s.slots[at].taken = true
			s.units = append(s.units, unit{whole: at, text: s.query[s.ascii.start:s.ascii.end]})
		}
		for i := range s.units {
			if s.units[i].whole == at {
				s.sequence = append(s.sequence, i)
			}
		}
	}
}

// readStandard turns the query into units, still with repetitions.
func (s *search) readStandard() {
	w := &s.words
	w.reset(s.query)
	run := 0
	for len(s.units) < MaxQueryWords && w.next() {
		if w.gram != nil {
			run++
			s.readGrams(run)
			continue
		}
		if s.isWirePrefix() {
			continue
		}
		u := unit{parts: len(s.parts)}
		u.whole, u.stop = s.wordSlot(&w.word)
		if u.text = s.query[w.start:w.end]; w.mixed {
			u.text = w.string()
		}
		if len(w.cuts) > 0 {
			for i := 0; i <= len(w.cuts); i++ {
				s.parts = append(s.parts, s.slotOf(w.part(i)))
			}
		}
		u.partsEnd = len(s.parts)
		s.units = append(s.units, u)
	}
}

// isWirePrefix tells whether the scanner stands on the "mcp" of a name like
// mcp__server__tool. Documents do not have it either.
func (s *search) isWirePrefix() bool {
	w := &s.words
	return w.end-w.start == 3 && len(s.query) >= w.end+2 && strings.EqualFold(s.query[w.start:w.end+2], "mcp__") &&
		(w.start == 0 || s.query[w.start-1] != '_')
}

// readGrams adds the pairs of a piece of text in a script without spaces, or its
// only character. Hiragana is mostly grammar and is taken as stop words.
func (s *search) readGrams(run int) {
	piece := s.words.gram
	var w word
	var buffer [2 * utf8.UTFMax]byte
	for i := 0; i < max(1, len(piece)-1) && len(s.units) < MaxQueryWords; i++ {
		w.folded = utf8.AppendRune(buffer[:0], piece[i])
		if i+1 < len(piece) {
			w.folded = utf8.AppendRune(w.folded, piece[i+1])
		}
		s.units = append(s.units, unit{
			whole: s.slotOf(&w), run: run, place: i, script: s.words.script, stop: s.words.script == hiragana,
		})
	}
}

// slotOf gives the slot of a word of the query.
func (s *search) slotOf(w *word) int {
	at, _ := s.wordSlot(w)
	return at
}

// wordSlot gives the slot of a word of the query, and tells whether it is a stop
// word.
func (s *search) wordSlot(w *word) (at int, stop bool) {
	lexicon := &s.postings.lexicon
	if term, ok := lexicon.find(w); ok {
		return s.slotOfTerm(term &^ stopBit), term&stopBit != 0
	}
	stop = lexicon.stops && w.stops()
	stem := s.index.stems.stem(w)
	if term, ok := lexicon.findStem(stem); ok {
		return s.slotOfTerm(term), stop
	}
	for i := range s.slots {
		if s.slots[i].term == unknown && s.slots[i].stem == stem {
			return i, stop
		}
	}
	s.slots = append(s.slots, slot{term: unknown, stem: stem})
	return len(s.slots) - 1, stop
}

func (s *search) slotOfTerm(term uint32) int {
	for i := range s.slots {
		if s.slots[i].term == term {
			return i
		}
	}
	s.slots = append(s.slots, slot{term: term, stem: s.postings.lexicon.terms[term]})
	return len(s.slots) - 1
}

// cutQuery shortens a query to MaxQueryCharacters.
func cutQuery(query string) string {
	if len(query) <= MaxQueryCharacters {
		return query
	}
	n := 0
	for i := range query {
		if n == MaxQueryCharacters {
			return query[:i]
		}
		n++
	}
	return query
}
