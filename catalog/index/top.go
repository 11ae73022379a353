package index

import (
	"cmp"
	"slices"
)

// candidate is a document that may be a hit. Matches have no share.
type candidate struct {
	doc          uint32
	share, score float64
}

// better orders candidates: by share, then score, then catalog order.
func better(a, b candidate) int {
	if a.share != b.share {
		return cmp.Compare(b.share, a.share)
	}
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return cmp.Compare(a.doc, b.doc)
}

// top keeps the best candidates offered to it, in a heap with the worst of them
// first.
type top struct {
	limit int
	heap  []candidate
}

func (t *top) begin(limit int) { t.limit, t.heap = limit, t.heap[:0] }

func (t *top) full() bool { return len(t.heap) == t.limit }

// offer takes a candidate if it is among the best so far.
func (t *top) offer(c candidate) {
	h := t.heap
	if len(h) < t.limit {
		h = append(h, c)
		i := len(h) - 1
		for i > 0 && better(h[(i-1)/2], h[i]) < 0 {
			h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
			i = (i - 1) / 2
		}
		t.heap = h
		return
	}
	if better(c, h[0]) >= 0 {
		return
	}
	h[0] = c
	for i := 0; ; {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if better(h[child], h[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		h[i], h[worst] = h[worst], h[i]
		i = worst
	}
}

// hits gives the candidates, best first.
func (t *top) hits() []Hit {
	if len(t.heap) == 0 {
		return nil
	}
	slices.SortFunc(t.heap, better)
	hits := make([]Hit, len(t.heap))
	for i, c := range t.heap {
		hits[i] = Hit{Doc: int(c.doc), Score: c.score}
		if c.share > 0 {
			hits[i].Score = c.share
		}
	}
	return hits
}
