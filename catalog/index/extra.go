package index

// extraSink counts the query's terms in a document that is not in the index.
type extraSink struct {
	s           *search
	frequencies []uint16 // slot -> frequency
	length      uint32
}

func (e *extraSink) add(w *word, frequency uint16, counted bool) {
	lexicon := &e.s.postings.lexicon
	term, known := lexicon.find(w)
	if counted {
		e.length++
	}
	for at := range e.s.slots {
		if e.s.slots[at].term == term&^stopBit && known || !known && e.s.isFormOf(w, at) {
			e.frequencies[at] = addFrequency(e.frequencies[at], frequency)
			return
		}
	}
}

// isFormOf tells whether a word that the index has never seen is a form of a
// slot's term. Stemming never changes a word's first byte, which spares most
// words the work; the extra documents of one search repeat the others.
func (s *search) isFormOf(w *word, at int) bool {
	stem := s.slots[at].stem
	if stem == "" {
		return false
	}
	if w.raw != "" {
		return w.raw[0] == stem[0] && s.index.stems.stem(w) == stem
	}
	return len(w.folded) > 0 && w.folded[0] == stem[0] && s.index.stems.stem(w) == stem
}

// readExtra analyses the extra documents of the search.
func (s *search) readExtra() {
	extra := s.options.Extra
	n := len(extra) * len(s.slots)
	s.extraFrequencies = append(s.extraFrequencies[:0], make([]uint16, n)...)
	s.extraLengths, s.extraNameWords = s.extraLengths[:0], s.extraNameWords[:0]
	for i := range extra {
		sink := extraSink{s: s, frequencies: s.extraFrequencies[i*len(s.slots):][:len(s.slots)]}
		nameWords := 0
		if s.options.Ranking == Reference {
			referenceDocument(&extra[i], &s.ascii, &sink)
		} else {
			nameWords = standardDocument(&extra[i], &s.words, &sink)
		}
		s.extraLengths = append(s.extraLengths, sink.length)
		s.extraNameWords = append(s.extraNameWords, uint8(min(nameWords, 255)))
		s.totalLength += uint64(sink.length)
	}
}

// extraFrequency is the frequency of a unit in an extra document.
func (s *search) extraFrequency(u *unit, doc int) uint16 {
	frequencies := s.extraFrequencies[doc*len(s.slots):][:len(s.slots)]
	whole := frequencies[u.whole]
	if whole != 0 || u.parts == u.partsEnd {
		return whole
	}
	return combineParts(len(s.parts[u.parts:u.partsEnd]), func(i int) uint16 { return frequencies[s.parts[u.parts+i]] })
}

// combineParts is the frequency of a compound word in a document that has its
// parts apart: the least of theirs, in the name if all are.
func combineParts(n int, frequency func(i int) uint16) uint16 {
	least, bits := uint16(maxFrequency), uint16(nameBit)
	for i := range n {
		f := frequency(i)
		if f == 0 {
			return 0
		}
		least, bits = min(least, f&^nameBit), bits&f
	}
	return least | bits
}
