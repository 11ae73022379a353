package index

import (
	"math"
	"strings"
)

// stopBit marks the words of a lexicon that are stop words.
const stopBit = 1 << 31

// lexicon numbers the terms of an index. Different words may be forms of one
// term; words are remembered as they were seen, so that most are never stemmed
// again, neither while building nor in queries.
type lexicon struct {
	words map[string]uint32 // lower-cased word -> term, with stopBit
	stems map[string]uint32 // stem -> term, where the stem was not a word first
	terms []string          // term -> stem
	stops bool              // whether there are stop words
}

// find gives the term of a word seen before.
func (l *lexicon) find(w *word) (uint32, bool) {
	if w.raw != "" {
		term, ok := l.words[w.raw]
		return term, ok
	}
	term, ok := l.words[string(w.folded)]
	return term, ok
}

// findStem gives the term of a stem.
func (l *lexicon) findStem(stem string) (uint32, bool) {
	if term, ok := l.words[stem]; ok && l.terms[term&^stopBit] == stem {
		return term &^ stopBit, true
	}
	term, ok := l.stems[stem]
	return term, ok
}

// intern gives the term of any word.
func (l *lexicon) intern(w *word) uint32 {
	if term, ok := l.find(w); ok {
		return term
	}
	text := w.string()
	stem := Stem(text)
	if strings.HasPrefix(text, stem) {
		stem = text[:len(stem)] // one string less to keep
	}
	term, ok := l.findStem(stem)
	if !ok {
		term = uint32(len(l.terms))
		l.terms = append(l.terms, stem)
		if stem != text {
			l.stems[stem] = term
		}
	}
	if l.stops && isStopWord(text) {
		term |= stopBit
	}
	l.words[text] = term
	return term
}

// postings is the inverted index of one ranking: for every term the documents
// that hold it, ascending, and how often.
type postings struct {
	lexicon     lexicon
	starts      []uint32 // term -> where its postings begin; one more at the end
	docs        []uint32
	frequencies []uint16
	lengths     []uint32 // document -> number of words
	nameWords   []uint8  // document -> number of words of its own name, Standard only
	total       uint64   // sum of lengths

	// common holds, for each term that is in one of commonEvery documents or more,
	// its frequency in every document: looking it up there costs no search.
	common map[uint32][]uint16
}

// commonEvery bounds the memory of postings.common: it has at most commonEvery
// times as many terms as an average document, of two bytes a document each.
const commonEvery = 8

// list gives the postings of a term.
func (p *postings) list(term uint32) (docs []uint32, frequencies []uint16) {
	from, to := p.starts[term], p.starts[term+1]
	return p.docs[from:to], p.frequencies[from:to]
}

// bytes estimates the memory of the postings.
func (p *postings) bytes() int64 {
	const mapEntry = 16 + 4 + 1 + 8 // key, value, control byte, and free room
	return int64(len(p.docs))*(4+2) + int64(len(p.common))*int64(2*len(p.lengths)) + int64(len(p.starts))*4 + int64(len(p.lengths))*4 + int64(len(p.nameWords)) +
		int64(len(p.lexicon.words)+len(p.lexicon.stems))*mapEntry + int64(len(p.lexicon.terms))*16
}

// builder collects the postings in the order of documents.
type builder struct {
	lexicon     lexicon
	last        []uint32 // term -> place + 1 of its latest entry
	holders     []uint32 // term -> number of documents
	terms       []uint32 // entries: a term in a document
	frequencies []uint16
	from        uint32 // where the current document's entries begin
	length      uint32
}

func (b *builder) add(w *word, frequency uint16, counted bool) {
	term := b.lexicon.intern(w) &^ stopBit
	if counted {
		b.length++
	}
	for int(term) >= len(b.last) {
		b.last = append(b.last, 0)
		b.holders = append(b.holders, 0)
	}
	if place := b.last[term]; place > b.from {
		b.frequencies[place-1] = addFrequency(b.frequencies[place-1], frequency)
		return
	}
	b.terms = append(b.terms, term)
	b.frequencies = append(b.frequencies, frequency)
	b.last[term] = uint32(len(b.terms))
	b.holders[term]++
}

// addFrequency adds two frequencies without overflow.
func addFrequency(a, b uint16) uint16 {
	return min(a&^nameBit+b&^nameBit, maxFrequency) | (a|b)&nameBit
}

// buildPostings analyses documents for a ranking.
func buildPostings(docs []Document, r Ranking) *postings {
	p := &postings{lengths: make([]uint32, len(docs))}
	if r == Standard {
		p.nameWords = make([]uint8, len(docs))
	}
	entries := estimateEntries(docs)
	vocabulary := wordsPerRootOfEntries * int(math.Sqrt(float64(entries)))
	b := &builder{
		lexicon: lexicon{
			words: make(map[string]uint32, vocabulary), stems: make(map[string]uint32, vocabulary/2), stops: r == Standard,
		},
		terms:       make([]uint32, 0, entries),
		frequencies: make([]uint16, 0, entries),
	}
	ends := make([]uint32, len(docs))
	var ascii asciiScanner
	var words scanner
	for i := range docs {
		b.from, b.length = uint32(len(b.terms)), 0
		if r == Reference {
			referenceDocument(&docs[i], &ascii, b)
		} else {
			p.nameWords[i] = uint8(min(standardDocument(&docs[i], &words, b), 255))
		}
		p.lengths[i] = b.length
		p.total += uint64(b.length)
		ends[i] = uint32(len(b.terms))
	}
	p.lexicon = b.lexicon
	b.invert(p, ends)
	return p
}

// wordsPerRootOfEntries is how the number of different words grows with a text
// (Heaps' law); a guess on the low side for the size of maps.
const wordsPerRootOfEntries = 15

// estimateEntries guesses how many different words documents have, added up, so
// that the lists of entries seldom have to grow.
func estimateEntries(docs []Document) int {
	const bytesPerEntry = 10
	bytes := 0
	for i := range docs {
		bytes += min(len(docs[i].Name), MaxNameBytes) + min(len(docs[i].Description), MaxDescriptionBytes)
		for _, property := range docs[i].Properties {
			bytes += len(property)
		}
	}
	return bytes/bytesPerEntry + len(docs)
}

// invert turns the entries of documents into the documents of terms.
func (b *builder) invert(p *postings, ends []uint32) {
	terms := len(p.lexicon.terms)
	p.starts = make([]uint32, terms+1)
	for term, n := range b.holders {
		p.starts[term+1] = n
	}
	for term := range terms {
		p.starts[term+1] += p.starts[term]
	}
	p.docs = make([]uint32, len(b.terms))
	p.frequencies = make([]uint16, len(b.terms))
	next := append([]uint32(nil), p.starts[:terms]...)
	from := uint32(0)
	for doc, end := range ends {
		for entry := from; entry < end; entry++ {
			at := next[b.terms[entry]]
			next[b.terms[entry]] = at + 1
			p.docs[at] = uint32(doc)
			p.frequencies[at] = b.frequencies[entry]
		}
		from = end
	}
	p.spreadCommon()
}

// spreadCommon fills common.
func (p *postings) spreadCommon() {
	p.common = map[uint32][]uint16{}
	for term := range uint32(len(p.starts) - 1) {
		docs, frequencies := p.list(term)
		if len(docs) == 0 || len(docs)*commonEvery < len(p.lengths) {
			continue
		}
		everywhere := make([]uint16, len(p.lengths))
		for i, doc := range docs {
			everywhere[doc] = frequencies[i]
		}
		p.common[term] = everywhere
	}
}
