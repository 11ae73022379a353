package index

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// leastShare is the share of the query's weight that a near match must hold.
const leastShare = 0.05

// roundingSlack is the part of the query's weight by which sums made in another
// order, and in single precision, may be off. It keeps them from deciding: what
// comes so close is summed as the result is.
const roundingSlack = 1e-4

// nearScratch is what findNear works with. weights has a place for every document
// of the index and is all zero between searches.
type nearScratch struct {
	top     top
	rarest  []int     // units but stop words that a document of the index holds, fewest holders first
	rest    []float32 // rest[i] is the weight of the words from rarest[i] on
	weights []float32 // document -> weight of the words seen so far
	touched []uint32  // documents with a weight; those that one word brought are ascending
	open    []uint32  // of these, the ones that may still be a result
	best    []float32 // the largest weights, a heap with the least first
}

// findNear finds the documents, matches left out, that hold the largest share of
// the query's weight. The share of a document is the sum of the idf of the words
// that it holds, divided by that of all words, unknown words included. Equal
// shares are ordered as matches would be.
//
// Words are taken rarest first, and their weight is added to all documents that
// hold them, as long as a document with no other words could still be a result.
// From there on only documents that have some weight are looked up in the longer
// lists of the common words. Only what can be a result is rated.
func (s *search) findNear(limit int) {
	n := &s.near
	n.top.begin(limit)
	for i := range s.options.Extra {
		if s.lookExtra(i) {
			s.offerNear(uint32(len(s.index.docs) + i))
		}
	}
	s.orderRarest()
	if len(n.rarest) == 0 {
		return
	}
	if len(n.weights) < len(s.index.docs) {
		n.weights = make([]float32, len(s.index.docs))
	}
	n.touched, n.open = n.touched[:0], n.open[:0]
	slack := float32(roundingSlack * s.mass)
	least := float32(s.leastWeight())
	for _, i := range n.rarest {
		// So many documents hold the word that a result has at least its weight.
		if u := &s.units[i]; len(u.docs) >= limit+len(s.top.heap) {
			least = max(least, float32(u.idf))
			break
		}
	}
	at := 0
	for ; at < len(n.rarest) && n.rest[at] >= least-slack; at++ {
		n.spread(&s.units[n.rarest[at]])
	}
	for _, c := range s.top.heap { // matches; the extra ones have no weight here
		if int(c.doc) < len(s.index.docs) {
			n.weights[c.doc] = 0
		}
	}
	n.open = append(n.open, n.touched...)
	least = n.settle(least, slack, n.rest[at], limit)
	for ; at < len(n.rarest); at++ {
		n.look(&s.units[n.rarest[at]])
		least = n.settle(least, slack, n.rest[at+1], limit)
	}
	s.rateOpen()
	for _, doc := range n.touched {
		n.weights[doc] = 0
	}
}

// orderRarest sets the order of the words and what is left of them.
func (s *search) orderRarest() {
	n := &s.near
	n.rarest = n.rarest[:0]
	for i := range s.units {
		if !s.units[i].stop && len(s.units[i].docs) > 0 {
			n.rarest = append(n.rarest, i)
		}
	}
	slices.SortStableFunc(n.rarest, func(a, b int) int { return cmp.Compare(len(s.units[a].docs), len(s.units[b].docs)) })
	n.rest = append(n.rest[:0], make([]float32, len(n.rarest)+1)...)
	for i := len(n.rarest) - 1; i >= 0; i-- {
		n.rest[i] = n.rest[i+1] + float32(s.units[n.rarest[i]].idf)
	}
}

// leastWeight is what a document must hold to be a result.
func (s *search) leastWeight() float64 {
	share := leastShare
	if s.near.top.full() {
		share = max(share, s.near.top.heap[0].share)
	}
	return share * s.mass
}

// spread adds a word's weight to all documents that hold it.
func (n *nearScratch) spread(u *unit) {
	weight, weights := float32(u.idf), n.weights
	n.touched = slices.Grow(n.touched, len(u.docs))
	free := n.touched[len(n.touched) : len(n.touched)+len(u.docs)]
	fresh := 0
	for _, doc := range u.docs {
		w := weights[doc]
		weights[doc] = w + weight
		free[fresh] = doc
		if w == 0 {
			fresh++
		}
	}
	n.touched = n.touched[:len(n.touched)+fresh]
}

// look adds a word's weight to the open documents that hold it.
func (n *nearScratch) look(u *unit) {
	weight, at := float32(u.idf), 0
	if u.everywhere != nil {
		for _, doc := range n.open {
			if u.everywhere[doc] != 0 {
				n.weights[doc] += weight
			}
		}
		return
	}
	before := uint32(0)
	for _, doc := range n.open {
		if doc < before {
			at = 0
		}
		before = doc
		if at = seek(u.docs, at, doc); at < len(u.docs) && u.docs[at] == doc {
			n.weights[doc] += weight
		}
	}
}

// settle gives what a result holds at least, judged by the weights so far, and
// closes the documents that can not come to it with what is left of the words.
func (n *nearScratch) settle(least, slack, left float32, limit int) float32 {
	n.best = n.best[:0]
	for _, doc := range n.open {
		if w := n.weights[doc]; len(n.best) < limit || w > n.best[0] {
			n.keep(w, limit)
		}
	}
	if len(n.best) == limit {
		least = max(least, n.best[0])
	}
	kept := n.open[:0]
	for _, doc := range n.open {
		if w := n.weights[doc]; w > 0 && w+left >= least-slack {
			kept = append(kept, doc)
		}
	}
	n.open = kept
	return least
}

// keep puts a weight among the best.
func (n *nearScratch) keep(weight float32, limit int) {
	if len(n.best) < limit {
		n.best = append(n.best, weight)
		for i := len(n.best) - 1; i > 0 && n.best[i] < n.best[(i-1)/2]; i = (i - 1) / 2 {
			n.best[i], n.best[(i-1)/2] = n.best[(i-1)/2], n.best[i]
		}
		return
	}
	h := n.best
	h[0] = weight
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child] < h[least] {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// rateOpen offers the documents that are left.
func (s *search) rateOpen() {
	before := ^uint32(0)
	for _, doc := range s.near.open {
		if doc < before { // the next word's documents
			s.rewind()
		}
		before = doc
		for i := range s.units {
			s.frequencies[i] = s.units[i].read(doc)
		}
		s.offerNear(doc)
	}
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
	near := &s.near.top
	if share < leastShare || near.full() && share < near.heap[0].share || s.isMatch(doc) {
		return
	}
	near.offer(candidate{doc: doc, share: share, score: s.score(doc)})
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
