package index

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// retrievalFolder is the environment variable that names a folder of labelled
// sets: one folder each with tools.jsonl and queries.jsonl.
const retrievalFolder = "TOOLBRIDGE_RETRIEVAL"

type labelledSet struct {
	name    string
	docs    []Document
	queries []labelledQuery
}

type labelledQuery struct {
	Query    string
	Relevant []string
}

// figures are the quality of one ranking on one set.
type figures struct {
	hit5, reciprocal         float64 // of matches
	hit5Near, reciprocalNear float64 // of matches and near matches
	empty                    float64 // share of queries without a match
	emptyNear                float64
}

// TestRetrievalStandardIsNoWorseThanReference prints the quality of both
// rankings on labelled queries.
func TestRetrievalStandardIsNoWorseThanReference(t *testing.T) {
	folder := os.Getenv(retrievalFolder)
	if folder == "" {
		t.Skipf("%s does not name a folder of labelled queries", retrievalFolder)
	}
	sets := readLabelledSets(t, folder)
	if len(sets) == 0 {
		t.Fatalf("no labelled sets in %s", folder)
	}
	fmt.Printf("%-16s %-9s %6s %6s %6s | %8s %6s %6s\n", "set", "ranking", "hit@5", "MRR", "empty", "near:h@5", "MRR", "empty")
	var sum figures
	for _, set := range sets {
		x := Build(set.docs)
		reference, standard := evaluate(x, set, Reference), evaluate(x, set, Standard)
		for _, row := range []struct {
			ranking Ranking
			figures
		}{{Reference, reference}, {Standard, standard}} {
			f := row.figures
			fmt.Printf("%-16s %-9s %6.3f %6.3f %6.3f | %8.3f %6.3f %6.3f\n", set.name, row.ranking,
				f.hit5, f.reciprocal, f.empty, f.hit5Near, f.reciprocalNear, f.emptyNear)
		}
		n := float64(len(sets))
		sum.hit5 += standard.hit5 / n
		sum.reciprocal += standard.reciprocal / n
		sum.hit5Near += standard.hit5Near / n
		sum.reciprocalNear += standard.reciprocalNear / n
		if standard.hit5 < reference.hit5 || standard.reciprocal < reference.reciprocal ||
			standard.hit5Near < reference.hit5Near || standard.reciprocalNear < reference.reciprocalNear {
			t.Errorf("%s: the standard ranking is worse than the reference", set.name)
		}
	}
	fmt.Printf("%-16s %-9s %6.3f %6.3f %6s | %8.3f %6.3f\n", "mean", Standard, sum.hit5, sum.reciprocal, "", sum.hit5Near, sum.reciprocalNear)
}

func evaluate(x *Index, set labelledSet, r Ranking) figures {
	var f figures
	share := 1 / float64(len(set.queries))
	for _, q := range set.queries {
		result := x.Search(q.Query, Options{Limit: 25, Ranking: r, NearMatches: true})
		all := slices.Concat(result.Matches, result.Near)
		if len(result.Matches) == 0 {
			f.empty += share
		}
		if len(all) == 0 {
			f.emptyNear += share
		}
		if at := firstRelevant(set, q, result.Matches); at > 0 {
			f.reciprocal += share / float64(at)
			if at <= 5 {
				f.hit5 += share
			}
		}
		if at := firstRelevant(set, q, all); at > 0 {
			f.reciprocalNear += share / float64(at)
			if at <= 5 {
				f.hit5Near += share
			}
		}
	}
	return f
}

// firstRelevant is the rank of the first relevant hit, 0 if there is none.
func firstRelevant(set labelledSet, q labelledQuery, hits []Hit) int {
	for i, hit := range hits {
		if slices.Contains(q.Relevant, set.docs[hit.Doc].Name) {
			return i + 1
		}
	}
	return 0
}

func readLabelledSets(t testing.TB, folder string) []labelledSet {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*", "queries.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var sets []labelledSet
	for _, file := range files {
		set := labelledSet{name: filepath.Base(filepath.Dir(file)), docs: readTools(t, filepath.Join(filepath.Dir(file), "tools.jsonl"))}
		readLines(t, file, func(line []byte) error {
			var q labelledQuery
			if err := json.Unmarshal(line, &q); err != nil {
				return err
			}
			set.queries = append(set.queries, q)
			return nil
		})
		if len(set.queries) > 0 {
			sets = append(sets, set)
		}
	}
	return sets
}

func readTools(t testing.TB, file string) []Document {
	t.Helper()
	var docs []Document
	readLines(t, file, func(line []byte) error {
		var tool struct {
			Name, Source, Description string
			Parameters                struct{ Properties json.RawMessage }
		}
		if err := json.Unmarshal(line, &tool); err != nil {
			return err
		}
		d := Document{Name: tool.Name, SourceLabel: tool.Source, Description: tool.Description}
		d.Properties = keysInOrder(tool.Parameters.Properties)
		docs = append(docs, d)
		return nil
	})
	return docs
}

// keysInOrder lists the keys of a JSON object as they stand.
func keysInOrder(object json.RawMessage) []string {
	decoder := json.NewDecoder(strings.NewReader(string(object)))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	var keys []string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return keys
		}
		keys = append(keys, key.(string))
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return keys
		}
	}
	return keys
}

func readLines(t testing.TB, file string, each func([]byte) error) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if err := each(lines.Bytes()); err != nil {
			t.Fatalf("%s:%d: %v", file, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
