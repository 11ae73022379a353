package index

import (
	"strings"
	"sync/atomic"
)

// Bounds of a stemCache.
const (
	stemCacheWords = 256
	maxCachedWord  = 48 // bytes
)

// stemCache keeps the stems of words that queries ask for and no document holds,
// since people ask for the same things again. A word has one place and replaces
// what another left there. It is safe for concurrent use.
type stemCache [stemCacheWords]atomic.Pointer[stemmed]

// stemmed is a word and its stem.
type stemmed struct{ word, stem string }

// stem is Stem of a word.
func (c *stemCache) stem(w *word) string {
	if w.raw == "" && len(w.folded) > maxCachedWord || len(w.raw) > maxCachedWord {
		return Stem(w.string())
	}
	hash := uint32(2166136261) // FNV-1a
	if w.raw != "" {
		for i := range len(w.raw) {
			hash = (hash ^ uint32(w.raw[i])) * 16777619
		}
	} else {
		for _, b := range w.folded {
			hash = (hash ^ uint32(b)) * 16777619
		}
	}
	place := &c[(hash^hash>>16)%stemCacheWords]
	if have := place.Load(); have != nil && (w.raw != "" && have.word == w.raw || w.raw == "" && have.word == string(w.folded)) {
		return have.stem
	}
	text := strings.Clone(w.string())
	made := &stemmed{word: text, stem: Stem(text)}
	place.Store(made)
	return made.stem
}
