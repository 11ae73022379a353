package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// generated makes a catalog of n tools like those of many servers: names of a
// verb and an object, descriptions of sentences whose words follow a Zipf
// distribution, a handful of properties. It also gives the bytes that the
// definitions would have as JSON, schema included.
func generated(n int) (docs []Document, bytes int64) {
	random := rand.New(rand.NewPCG(1, 2))
	words := vocabulary(random, 12000)
	zipf := rand.NewZipf(random, 1.07, 8, uint64(len(words)-1))
	word := func() string { return words[zipf.Uint64()] }
	for i := range n {
		server := fmt.Sprintf("%s_%d", words[40+(i/40)%400], i/16000)
		verb, object := verbs[random.IntN(len(verbs))], words[random.IntN(3000)]
		name := fmt.Sprintf("mcp__%s__%s_%s", server, verb, object)
		switch i % 5 {
		case 3:
			name += "_" + word()
		case 4:
			name = fmt.Sprintf("mcp__%s__%s%s", server, verb, strings.ToUpper(object[:1])+object[1:])
		}
		var text strings.Builder
		text.WriteString(strings.ToUpper(verb[:1]) + verb[1:] + " the " + object)
		for range 25 + random.IntN(60) {
			text.WriteByte(' ')
			text.WriteString(word())
			if random.IntN(12) == 0 {
				text.WriteByte('.')
			}
		}
		d := Document{Name: name, SourceLabel: server, Description: text.String()}
		for range 2 + random.IntN(6) {
			d.Properties = append(d.Properties, word()+"_"+word())
		}
		docs = append(docs, d)
		// {"type":"function",…} around it, and a schema of a type and a short
		// description for each property.
		bytes += int64(130+len(name)+len(d.Description)) + int64(len(d.Properties)*75)
	}
	return docs, bytes
}

var verbs = []string{
	"get", "list", "create", "update", "delete", "search", "export", "import", "send", "fetch", "sync", "archive",
	"approve", "cancel", "find", "add", "remove", "start", "stop", "read", "write", "merge", "validate", "convert",
}

// vocabulary makes pronounceable words, common function words first.
func vocabulary(random *rand.Rand, n int) []string {
	words := strings.Fields("the a of to and for in with by is from on or an be this that it as")
	syllables := strings.Fields("ba con der fi ga hel in jo ka lum mer nor op par qua res ser tal un ver wi xen yor zan tion ment ing ed al er")
	seen := map[string]bool{}
	for len(words) < n {
		var w string
		for range 2 + random.IntN(3) {
			w += syllables[random.IntN(len(syllables))]
		}
		if !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	return words
}

var catalogSizes = []int{500, 5000, 50000}

func BenchmarkBuild(b *testing.B) {
	for _, r := range []Ranking{Standard, Reference} {
		for _, n := range catalogSizes {
			b.Run(fmt.Sprintf("%s/%d", r, n), func(b *testing.B) {
				docs, bytes := generated(n)
				b.SetBytes(bytes)
				b.ReportAllocs()
				var x *Index
				for b.Loop() {
					x = BuildFor(r, docs)
				}
				b.ReportMetric(float64(x.Bytes())/float64(bytes), "memory/definitions")
			})
		}
	}
}

// BenchmarkSearch asks for five words: three of a tool's name and description,
// which give matches, and two that make most queries need near matches as well.
func BenchmarkSearch(b *testing.B) {
	for _, r := range []Ranking{Standard, Reference} {
		for _, n := range catalogSizes {
			docs, _ := generated(n)
			x := BuildFor(r, docs)
			for _, near := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/near=%t/%d", r, near, n), func(b *testing.B) {
					queries := fiveWordQueries(docs)
					b.ReportAllocs()
					i := 0
					for b.Loop() {
						x.Search(queries[i%len(queries)], Options{Limit: 5, Ranking: r, NearMatches: near})
						i++
					}
				})
			}
		}
	}
}

func fiveWordQueries(docs []Document) []string {
	random := rand.New(rand.NewPCG(3, 4))
	var queries []string
	for range 200 {
		d, other := docs[random.IntN(len(docs))], docs[random.IntN(len(docs))]
		text, more := strings.Fields(d.Description), strings.Fields(other.Description)
		queries = append(queries, strings.Join([]string{
			text[0], text[2], text[3+random.IntN(len(text)-3)], more[2], more[random.IntN(len(more))],
		}, " "))
	}
	slices.Sort(queries)
	return queries
}
