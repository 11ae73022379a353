package index

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestStemCacheAnswersAsStemDoes(t *testing.T) {
	var c stemCache
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 3000 {
				text := fmt.Sprintf("%s%ding", []string{"rel", "organiz", "hopp", strings.Repeat("long", 20)}[i%4], i%700)
				w := word{raw: text, folded: []byte("stale")}
				if (i+worker)%2 == 0 {
					w = word{folded: []byte(text)}
				}
				if got := c.stem(&w); got != Stem(text) {
					t.Errorf("%q: %q, want %q", text, got, Stem(text))
				}
			}
		})
	}
	group.Wait()
}

func TestAStaleFoldedWordIsNoStopWord(t *testing.T) {
	docs := []Document{tool("alpha", "zebra"), tool("beta", "gamma")}
	got := Build(docs).Search("The quagga zebra", Options{Limit: 5, NearMatches: true})
	if names(docs, got.Near) != "alpha" || len(got.UnmatchedTerms) != 1 || got.UnmatchedTerms[0] != "quagga" {
		t.Errorf("%+v", got)
	}
}
