package index

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// leastShare is the share of the query's weight that a near match must hold.
const leastShare = 0.05

// roundingSlack keeps sums that were made in another order from deciding.
const roundingSlack = 1e-9

// findNear finds the documents, matches left out, that hold the largest share of
// the query's weight. The share of a document is the sum of the idf of the words
// that it holds, divided by that of all words, unknown words included. Equal
// shares are ordered as matches would be.
//
// Words are taken rarest first, and the documents of each that hold none before
// it. Since such a document can hold no more than the words from there on, most
// queries never come to the long lists of their common words.
func (s *search) findNear(limit int) {
	s.near.begin(limit)
	s.rarest = s.rarest[:0]
	for i := range s.units {
		if !s.units[i].stop && s.units[i].holders > 0 {
			s.rarest = append(s.rarest, i)
		}
	}
	slices.SortStableFunc(s.rarest, func(a, b int) int { return cmp.Compare(s.units[a].holders, s.units[b].holders) })
	// rest[i] is the weight of the words from rarest[i] on.
	s.rest = append(s.rest[:0], make([]float64, len(s.rarest)+1)...)
	for i := len(s.rarest) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1] + s.units[s.rarest[i]].idf
	}
	for i := range s.options.Extra {
		if s.lookExtra(i) {
			s.offerNear(uint32(len(s.index.docs) + i))
		}
	}
	for i := range s.rarest {
		if s.rest[i] < s.leastWeight() {
			break
		}
		s.nearHolding(i)
	}
}

// leastWeight is what a document must hold to be worth a closer look.
func (s *search) leastWeight() float64 {
	share := leastShare
	if s.near.full() {
		share = max(share, s.near.heap[0].share)
	}
	return share*s.mass - roundingSlack*s.mass
}

// nearHolding offers the documents that hold the i-th rarest word and none that
// is rarer.
func (s *search) nearHolding(i int) {
	s.rewind()
	rarest := &s.units[s.rarest[i]]
	for at, doc := range rarest.docs {
		least := s.leastWeight()
		if s.rest[i] < least {
			return
		}
		if s.reaches(i, doc, least) {
			s.frequencies[s.rarest[i]] = rarest.frequencies[at]
			for j := range s.units {
				if u := &s.units[j]; u.stop {
					s.frequencies[j] = u.read(doc)
				}
			}
			s.offerNear(doc)
		}
	}
}

// reaches tells whether a document that holds the i-th rarest word holds at
// least so much together with the others, and none that is rarer. It sets their
// frequencies.
func (s *search) reaches(i int, doc uint32, least float64) bool {
	most := s.rest[i]
	for _, other := range s.rarest[i+1:] {
		u := &s.units[other]
		f := u.read(doc)
		if f == 0 {
			if most -= u.idf; most < least {
				return false
			}
		}
		s.frequencies[other] = f
	}
	for _, rarer := range s.rarest[:i] {
		if s.units[rarer].read(doc) != 0 {
			return false
		}
		s.frequencies[rarer] = 0
	}
	return true
}

// offerNear offers the document looked at as a near match.
func (s *search) offerNear(doc uint32) {
	weight := 0.0
	for i, f := range s.frequencies {
		if f != 0 && !s.units[i].stop {
			weight += s.units[i].idf
		}
	}
	share := weight / s.mass
	if share < leastShare || s.near.full() && share < s.near.heap[0].share || s.isMatch(doc) {
		return
	}
	s.near.offer(candidate{doc: doc, share: share, score: s.score(doc)})
}

// isMatch tells whether a document is among the matches. There are fewer than
// the limit when this is asked.
func (s *search) isMatch(doc uint32) bool {
	for _, c := range s.top.heap {
		if c.doc == doc {
			return true
		}
	}
	return false
}

// unmatched lists the words of the query that no document holds.
func (s *search) unmatched() []string {
	var terms []string
	run, place := 0, 0 // of the pair before, if it was unmatched
	for i := range s.units {
		u := &s.units[i]
		if u.holders > 0 || u.stop {
			continue
		}
		if u.run == 0 {
			if len(terms) == 0 || terms[len(terms)-1] != u.text { // parts of one word
				terms = append(terms, u.text)
			}
			continue
		}
		pair := s.slots[u.whole].stem
		if u.run == run && u.place == place+1 {
			_, n := utf8.DecodeLastRuneInString(pair)
			terms[len(terms)-1] += pair[len(pair)-n:]
		} else {
			terms = append(terms, pair)
		}
		run, place = u.run, u.place
	}
	return terms
}
