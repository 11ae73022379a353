package index

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Bounds on what is read from outside. Text beyond a bound is not searchable;
// it is never an error.
const (
	// MaxQueryCharacters is how many characters (code points) of a query are
	// read.
	MaxQueryCharacters = 4096
	// MaxQueryWords is how many words of a query, counted after analysis and
	// with repetitions, are used.
	MaxQueryWords = 256
	// MaxNameBytes bounds a document's name, and its source label.
	MaxNameBytes = 4 << 10
	// MaxDescriptionBytes bounds a document's description.
	MaxDescriptionBytes = 64 << 10
	// MaxPropertyBytes bounds the property names of a document, taken together.
	MaxPropertyBytes = 64 << 10
	// MaxAliasBytes bounds the aliases of a document, taken together.
	MaxAliasBytes = 4 << 10
)

// Document is one tool as the index sees it.
type Document struct {
	// Name as it stands on the wire. A leading "mcp__" is not searched.
	Name string
	// SourceLabel names where the tool comes from: its toolset without "mcp-".
	// Empty or "other" when it has none.
	SourceLabel string
	// Description is free text.
	Description string
	// Properties are the names of the top-level parameters, in source order.
	Properties []string
	// Aliases are further names. The Reference ranking does not see them.
	Aliases []string
	// Text is searched in place of Name, where it is set; what follows its last
	// "__" counts as the tool's own name. A query that is the Name still finds it.
	Text string
}

// searchable is the text that is searched as the document's name.
func (d *Document) searchable() string {
	if d.Text != "" {
		return cut(d.Text, MaxNameBytes)
	}
	return searchableName(cut(d.Name, MaxNameBytes))
}

// Ranking selects the rules by which documents are analysed and ranked.
type Ranking uint8

const (
	// Standard is the default; see the package documentation.
	Standard Ranking = iota
	// Reference is plain BM25 over ASCII words; see the package documentation.
	Reference
)

// String gives the configuration's word for the ranking.
func (r Ranking) String() string {
	if r == Reference {
		return "reference"
	}
	return "standard"
}

// Index is an immutable inverted index over the documents it was built from.
// It is safe for concurrent use. Positions of documents are their positions in
// the slice given to Build.
type Index struct {
	docs  []Document
	names nameTable

	// Prepared once each, and never changed afterwards.
	standard, reference         atomic.Pointer[postings]
	standardOnce, referenceOnce sync.Once

	stems   stemCache
	scratch sync.Pool // *search
}

// Options are the terms of one search.
type Options struct {
	// Limit is the largest number of hits, matches and near matches together.
	// Zero or less finds nothing.
	Limit int
	// Ranking is Standard unless set.
	Ranking Ranking
	// NearMatches asks for near matches, and for the query's unmatched terms,
	// when there are fewer matches than Limit.
	NearMatches bool
	// Extra documents take part in this search only: they are counted in every
	// statistic, and their positions follow those of the index. They are
	// analysed anew each time, so they should be few.
	Extra []Document
}

// Hit is one document found.
type Hit struct {
	// Doc is the document's position; Len()+i is Options.Extra[i].
	Doc int
	// Score of a match: +Inf for the exact name, else a positive sum in no
	// unit. Score of a near match: the share, above 0 and at most 1, of the
	// query's weight that the document holds.
	Score float64
}

// Result is the answer to one query.
type Result struct {
	// Matches, best first; equal scores keep catalog order.
	Matches []Hit
	// Near are documents that hold part of the query but are not matches,
	// best first. Only with Options.NearMatches.
	Near []Hit
	// UnmatchedTerms are the words of the query, as they were written and in
	// its order, that no document holds. Only with Options.NearMatches.
	UnmatchedTerms []string
	// Miss says why there are no Matches; it means nothing where there are some.
	Miss Miss
}

// Miss is why a query matches nothing.
type Miss uint8

// The reasons, see the package's documentation for gate and floor.
const (
	MissEmpty Miss = iota // no document holds any of its words
	MissGate              // none holds the word that names the intent
	MissFloor             // some hold that word, and too few of the others
)

// Build indexes docs for both rankings: Standard now, Reference when it is first
// asked for. The index shares the slice and its strings, which must not change
// afterwards.
func Build(docs []Document) *Index { return BuildFor(Standard, docs) }

// BuildFor is Build with the choice of the ranking that is prepared now.
func BuildFor(r Ranking, docs []Document) *Index {
	x := &Index{docs: docs, names: newNameTable(docs)}
	x.analysed(r)
	return x
}

// Named reports whether a query is a document's name, in whatever case.
func (x *Index) Named(query string) bool {
	query = strings.TrimFunc(query, isMargin)
	var found [1]uint32
	return len(x.names.find(x.docs, query, 1, found[:0])) > 0
}

// Len is the number of documents.
func (x *Index) Len() int { return len(x.docs) }

// Bytes estimates the memory that the index holds beyond the text it shares:
// postings, dictionary and name table of the rankings prepared so far, and the
// document headers.
func (x *Index) Bytes() int64 {
	n := int64(len(x.names))*8 + int64(unsafe.Sizeof(x.stems))
	for i := range x.docs {
		n += documentBytes + int64(len(x.docs[i].Properties)+len(x.docs[i].Aliases))*16
	}
	for _, p := range []*postings{x.standard.Load(), x.reference.Load()} {
		if p != nil {
			n += p.bytes()
		}
	}
	return n
}

// documentBytes is the size of a Document without what it points to.
const documentBytes = int64(unsafe.Sizeof(Document{}))

// analysed gives the postings of a ranking, and prepares them at the first call.
func (x *Index) analysed(r Ranking) *postings {
	ready, once := &x.standard, &x.standardOnce
	if r == Reference {
		ready, once = &x.reference, &x.referenceOnce
	}
	once.Do(func() { ready.Store(buildPostings(x.docs, r)) })
	return ready.Load()
}
