package index

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// nameTable finds documents by their whole name, case folded: hash in the upper
// half, position in the lower, sorted.
type nameTable []uint64

func newNameTable(docs []Document) nameTable {
	t := make(nameTable, len(docs))
	for i := range docs {
		t[i] = uint64(foldedHash(docs[i].Name))<<32 | uint64(i)
	}
	slices.Sort(t)
	return t
}

// find appends the positions of the documents of that name to found, in catalog
// order and at most limit of them.
func (t nameTable) find(docs []Document, name string, limit int, found []uint32) []uint32 {
	hash := uint64(foldedHash(name))
	at, _ := slices.BinarySearch(t, hash<<32)
	for ; at < len(t) && t[at]>>32 == hash && len(found) < limit; at++ {
		if doc := uint32(t[at]); foldedEqual(docs[doc].Name, name) {
			found = append(found, doc)
		}
	}
	return found
}

// foldedHash is FNV-1a over the lower-cased runes of a name.
func foldedHash(name string) uint32 {
	h := uint32(2166136261)
	for _, r := range name {
		h = (h ^ uint32(lowerRune(r))) * 16777619
	}
	return h
}

// foldedEqual compares two names with every rune lower-cased.
func foldedEqual(a, b string) bool {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb && lowerRune(ra) != lowerRune(rb) {
			return false
		}
		a, b = a[na:], b[nb:]
	}
	return a == b
}

func lowerRune(r rune) rune {
	switch {
	case r >= utf8.RuneSelf:
		return unicode.ToLower(r)
	case 'A' <= r && r <= 'Z':
		return r + ('a' - 'A')
	}
	return r
}
