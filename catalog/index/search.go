package index

import (
	"math"
	"strings"
	"unicode"
)

// search is the scratch of one search. Its buffers are used again.
type search struct {
	index    *Index
	postings *postings
	options  Options
	query    string

	ascii asciiScanner
	words scanner

	slots             []slot
	parts             []int // slots of the compound units' parts
	units             []unit
	opened            []unit
	most              int      // how many units there were at most
	joinedDocs        []uint32 // postings of compound words with their parts
	joinedFrequencies []uint16

	sequence []int // Reference: the query's words as units, with repetitions

	extraFrequencies []uint16 // document by slot
	extraLengths     []uint32
	extraNameWords   []uint8

	documents     int // with the extra ones
	totalLength   uint64
	averageLength float64
	mass          float64 // idf of all units but stop words
	gate          int     // unit that a match must hold; -1 if there is none
	floor         int     // number of units that a match must hold

	exact       []uint32
	frequencies []uint16 // unit -> frequency in the document looked at
	top         top
	near        nearScratch
}

// Search ranks the documents for one query.
func (x *Index) Search(query string, o Options) Result {
	if o.Limit <= 0 || len(x.docs)+len(o.Extra) == 0 {
		return Result{}
	}
	s, _ := x.scratch.Get().(*search)
	if s == nil {
		s = &search{}
	}
	result := s.run(x, query, o)
	s.release()
	x.scratch.Put(s)
	return result
}

// release drops what belongs to others.
func (s *search) release() {
	s.index, s.postings, s.options, s.query = nil, nil, Options{}, ""
	s.ascii.text, s.ascii.raw = "", ""
	s.words.reset("")
	s.words.raw, s.words.onePart = "", word{}
	if cap(s.joinedDocs) > maxKeptJoined {
		s.joinedDocs, s.joinedFrequencies = nil, nil
	}
	clear(s.slots)
	// Either list may have become shorter since it was filled.
	clear(s.units[:min(max(s.most, len(s.units)), cap(s.units))])
	clear(s.opened[:min(max(s.most, len(s.opened)), cap(s.opened))])
}

// maxKeptJoined bounds the joined postings that are kept for the next search.
const maxKeptJoined = 64 << 10

func (s *search) run(x *Index, query string, o Options) Result {
	s.index, s.options, s.query = x, o, cutQuery(query)
	s.postings = x.analysed(o.Ranking)
	s.slots, s.parts, s.units, s.sequence = s.slots[:0], s.parts[:0], s.units[:0], s.sequence[:0]
	s.documents, s.totalLength = len(x.docs)+len(o.Extra), s.postings.total
	s.joinedDocs, s.joinedFrequencies = s.joinedDocs[:0], s.joinedFrequencies[:0]
	s.most = 0
	if o.Ranking == Reference {
		s.readReference()
		if len(s.units) == 0 {
			return Result{}
		}
	} else {
		s.readStandard()
	}
	s.most = len(s.units)
	s.readExtra()
	s.resolve()
	s.weigh()
	s.top.begin(o.Limit)
	s.findExact()
	s.match()
	result := Result{Matches: s.top.hits()}
	if len(result.Matches) == 0 {
		result.Miss = s.miss()
	}
	if o.NearMatches && len(result.Matches) < o.Limit {
		s.findNear(o.Limit - len(result.Matches))
		result.Near = s.near.top.hits()
		result.UnmatchedTerms = s.unmatched()
	}
	return result
}

// miss tells why nothing was admitted.
func (s *search) miss() Miss {
	if s.gate < 0 {
		return MissEmpty
	}
	if s.units[s.gate].holders > 0 {
		return MissFloor
	}
	for i := range s.units {
		if s.units[i].holders > 0 && !s.units[i].stop {
			return MissGate
		}
	}
	return MissEmpty
}

// weigh sets the statistics of the search: the weight of each unit, the gate,
// the floor.
func (s *search) weigh() {
	s.averageLength = max(1, float64(s.totalLength)/float64(s.documents))
	s.gate, s.mass = -1, 0
	held := 0
	for i := range s.units {
		u := &s.units[i]
		u.idf = idf(s.documents, u.holders)
		if u.stop {
			continue
		}
		s.mass += u.idf
		if u.holders > 0 {
			held++
		}
		if s.gate < 0 || u.holders < s.units[s.gate].holders {
			s.gate = i
		}
	}
	s.floor = 1
	if held >= floorFrom {
		s.floor = (held + 1) / 2
	}
}

// floorFrom is the number of known words from which on a match must hold half of
// them.
const floorFrom = 4

// idf is the weight of a word that holders of so many documents hold.
func idf(documents, holders int) float64 {
	return math.Log(1 + (float64(documents-holders)+0.5)/(float64(holders)+0.5))
}

// findExact admits the documents whose name is the query.
func (s *search) findExact() {
	name := strings.TrimFunc(s.query, isMargin)
	x := s.index
	s.exact = x.names.find(x.docs, name, s.options.Limit, s.exact[:0])
	for i := range s.options.Extra {
		if len(s.exact) < s.options.Limit && foldedEqual(s.options.Extra[i].Name, name) {
			s.exact = append(s.exact, uint32(len(x.docs)+i))
		}
	}
	for _, doc := range s.exact {
		s.top.offer(candidate{doc: doc, score: math.Inf(1)})
	}
}

// isMargin tells what is trimmed from a query: white space, and the separator
// characters that count as such elsewhere.
func isMargin(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// isExact tells whether a document was admitted for its name.
func (s *search) isExact(doc uint32) bool {
	for _, exact := range s.exact {
		if exact == doc {
			return true
		}
	}
	return false
}

// match admits the documents that hold the gate's word and reach the floor.
func (s *search) match() {
	if s.gate < 0 || s.units[s.gate].holders == 0 || len(s.exact) == s.options.Limit {
		return
	}
	s.rewind()
	gate := &s.units[s.gate]
	for at, doc := range gate.docs {
		held := 0
		for i := range s.units {
			u := &s.units[i]
			f := gate.frequencies[at]
			if i != s.gate {
				f = u.read(doc)
			}
			s.frequencies[i] = f
			if f != 0 && !u.stop {
				held++
			}
		}
		if held >= s.floor {
			s.admit(doc)
		}
	}
	for i := range s.options.Extra {
		if s.lookExtra(i) && s.frequencies[s.gate] != 0 && s.held() >= s.floor {
			s.admit(uint32(len(s.index.docs) + i))
		}
	}
}

// rewind starts to read all postings from their beginning.
func (s *search) rewind() {
	s.frequencies = append(s.frequencies[:0], make([]uint16, len(s.units))...)
	for i := range s.units {
		s.units[i].at = 0
	}
}

// read gives the frequency of the unit in a document of the index, 0 if it does
// not hold it. Documents must be asked for in ascending order.
func (u *unit) read(doc uint32) uint16 {
	if u.everywhere != nil {
		return u.everywhere[doc]
	}
	at := u.at
	if at < len(u.docs) && u.docs[at] < doc {
		at = seek(u.docs, at, doc)
		u.at = at
	}
	if at < len(u.docs) && u.docs[at] == doc {
		return u.frequencies[at]
	}
	return 0
}

// admit offers the document looked at as a match.
func (s *search) admit(doc uint32) {
	if len(s.exact) > 0 && s.isExact(doc) {
		return
	}
	s.top.offer(candidate{doc: doc, score: s.score(doc)})
}

// lookExtra sets frequencies to those of an extra document. It tells whether
// there are any.
func (s *search) lookExtra(i int) bool {
	s.frequencies = s.frequencies[:0]
	all := uint16(0)
	for j := range s.units {
		f := s.extraFrequency(&s.units[j], i)
		s.frequencies = append(s.frequencies, f)
		all |= f
	}
	return all != 0
}

// held counts the units, but stop words, that the document looked at holds.
func (s *search) held() int {
	n := 0
	for i, f := range s.frequencies {
		if f != 0 && !s.units[i].stop {
			n++
		}
	}
	return n
}

// length is a document's number of words.
func (s *search) length(doc uint32) uint32 {
	if extra := int(doc) - len(s.index.docs); extra >= 0 {
		return s.extraLengths[extra]
	}
	return s.postings.lengths[doc]
}

// seek gives the first place from `from` on whose document is at least doc. It
// gallops, which costs little when the place is near.
func seek(docs []uint32, from int, doc uint32) int {
	if from >= len(docs) || docs[from] >= doc {
		return from
	}
	step := 1
	for from+step < len(docs) && docs[from+step] < doc {
		from += step
		step *= 2
	}
	low, high := from+1, min(from+step, len(docs))
	for low < high {
		if middle := int(uint(low+high) / 2); docs[middle] < doc {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
