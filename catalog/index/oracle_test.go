package index

import (
	"math"
	"slices"
	"strings"
)

// naiveSearch is Search without an index: it analyses and rates every document.
// It follows the package documentation step by step and shares only the analysis
// of text with the real one.
func naiveSearch(docs []Document, query string, o Options) Result {
	docs = slices.Concat(docs, o.Extra)
	if o.Limit <= 0 || len(docs) == 0 {
		return Result{}
	}
	n := naive{ranking: o.Ranking}
	total := 0
	for i := range docs {
		d := naiveDocument{terms: map[string]uint16{}}
		if o.Ranking == Reference {
			referenceDocument(&docs[i], &asciiScanner{}, &d)
		} else {
			d.nameWords = min(standardDocument(&docs[i], &scanner{}, &d), 255)
		}
		total += d.length
		n.docs = append(n.docs, d)
	}
	n.average = max(1, float64(total)/float64(len(docs)))
	query = cutQuery(query)
	n.read(query)
	if o.Ranking == Reference && len(n.words) == 0 {
		return Result{}
	}
	return n.rank(docs, query, o)
}

type naive struct {
	ranking  Ranking
	docs     []naiveDocument
	average  float64
	words    []naiveWord
	sequence []string // Reference
}

type naiveDocument struct {
	terms     map[string]uint16
	length    int
	nameWords int
}

func (d *naiveDocument) add(w *word, frequency uint16, counted bool) {
	stem := Stem(w.string())
	d.terms[stem] = addFrequency(d.terms[stem], frequency)
	if counted {
		d.length++
	}
}

type naiveWord struct {
	stem, text string
	parts      []string
	stop, pair bool
	run, place int
	idf        float64
	holders    int
}

// frequency of the word in a document.
func (w naiveWord) frequency(d naiveDocument) uint16 {
	if f := d.terms[w.stem]; f != 0 || len(w.parts) == 0 {
		return f
	}
	least, inName := uint16(maxFrequency), uint16(nameBit)
	for _, part := range w.parts {
		f := d.terms[part]
		if f == 0 {
			return 0
		}
		least, inName = min(least, f&^nameBit), inName&f
	}
	return least | inName
}

func (n *naive) holders(w naiveWord) int {
	count := 0
	for _, d := range n.docs {
		if w.frequency(d) != 0 {
			count++
		}
	}
	return count
}

func (n *naive) read(query string) {
	if n.ranking == Reference {
		s := asciiScanner{text: query}
		for len(n.sequence) < MaxQueryWords && s.next() {
			n.sequence = append(n.sequence, Stem(s.string()))
			n.words = append(n.words, naiveWord{stem: Stem(s.string()), text: query[s.start:s.end]})
		}
		n.words = distinct(n.words)
	} else {
		n.readStandard(query)
	}
	for i := range n.words {
		n.words[i].holders = n.holders(n.words[i])
		n.words[i].idf = math.Log(1 + (float64(len(n.docs)-n.words[i].holders)+0.5)/(float64(n.words[i].holders)+0.5))
	}
}

func (n *naive) readStandard(query string) {
	var words []naiveWord
	run := 0
	s := scanner{text: query}
	for len(words) < MaxQueryWords && s.next() {
		if s.gram != nil {
			run++
			for i := 0; i < max(1, len(s.gram)-1) && len(words) < MaxQueryWords; i++ {
				pair := string(s.gram[i:min(i+2, len(s.gram))])
				words = append(words, naiveWord{stem: pair, pair: true, run: run, place: i, stop: s.script == hiragana})
			}
			continue
		}
		if strings.EqualFold(query[s.start:s.end], "mcp") && strings.HasPrefix(query[s.end:], "__") && !strings.HasSuffix(query[:s.start], "_") {
			continue
		}
		w := naiveWord{stem: Stem(s.string()), text: query[s.start:s.end], stop: isStopWord(s.string())}
		if s.mixed {
			w.text = s.string()
		}
		for i := 0; len(s.cuts) > 0 && i <= len(s.cuts); i++ {
			w.parts = append(w.parts, Stem(s.part(i).string()))
		}
		words = append(words, w)
	}
	// Pairs that nothing holds, beside pairs that something does.
	words = slices.DeleteFunc(slices.Clone(words), func(w naiveWord) bool {
		beside := func(place int) bool {
			return slices.ContainsFunc(words, func(o naiveWord) bool { return o.pair && o.run == w.run && o.place == place && n.holders(o) > 0 })
		}
		return w.pair && n.holders(w) == 0 && (beside(w.place-1) || beside(w.place+1))
	})
	// Compound words that nothing holds.
	var opened []naiveWord
	for _, w := range words {
		if len(w.parts) == 0 || n.holders(w) > 0 {
			opened = append(opened, w)
			continue
		}
		for _, part := range w.parts {
			opened = append(opened, naiveWord{stem: part, text: w.text})
		}
	}
	words = distinct(opened)
	if !slices.ContainsFunc(words, func(w naiveWord) bool { return !w.stop }) {
		for i := range words {
			words[i].stop = false
		}
	}
	n.words = slices.DeleteFunc(words, func(w naiveWord) bool { return w.stop && (w.pair || n.holders(w) == 0) })
}

func distinct(words []naiveWord) []naiveWord {
	var kept []naiveWord
	for _, w := range words {
		if !slices.ContainsFunc(kept, func(k naiveWord) bool { return k.stem == w.stem }) {
			kept = append(kept, w)
		}
	}
	return kept
}

func (n *naive) rank(docs []Document, query string, o Options) Result {
	gate, known, mass := -1, 0, 0.0
	for i, w := range n.words {
		if w.stop {
			continue
		}
		mass += w.idf
		if w.holders > 0 {
			known++
		}
		if gate < 0 || w.holders < n.words[gate].holders {
			gate = i
		}
	}
	floor := 1
	if known >= 4 {
		floor = (known + 1) / 2
	}
	name := strings.ToLower(strings.TrimFunc(query, isMargin))
	var matches, near []Hit
	scores := map[int]float64{}
	for i, d := range n.docs {
		held, weight := 0, 0.0
		for _, w := range n.words {
			if !w.stop && w.frequency(d) != 0 {
				held++
				weight += w.idf
			}
		}
		scores[i] = n.score(d, mass)
		switch {
		case strings.ToLower(docs[i].Name) == name:
			matches = append(matches, Hit{Doc: i, Score: math.Inf(1)})
		case gate >= 0 && n.words[gate].frequency(d) != 0 && held >= floor:
			matches = append(matches, Hit{Doc: i, Score: scores[i]})
		case held > 0 && weight/mass >= leastShare:
			near = append(near, Hit{Doc: i, Score: weight / mass})
		}
	}
	result := Result{Matches: bestOf(matches, scores, o.Limit)}
	if len(result.Matches) == 0 && known > 0 {
		result.Miss = MissGate
		if slices.ContainsFunc(n.docs, func(d naiveDocument) bool { return n.words[gate].frequency(d) != 0 }) {
			result.Miss = MissFloor
		}
	}
	if o.NearMatches && len(result.Matches) < o.Limit {
		result.Near = bestOf(near, scores, o.Limit-len(result.Matches))
		result.UnmatchedTerms = n.unmatched()
	}
	return result
}

func bestOf(hits []Hit, scores map[int]float64, limit int) []Hit {
	slices.SortStableFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score != b.Score && a.Score > b.Score, a.Score == b.Score && !math.IsInf(a.Score, 1) && scores[a.Doc] > scores[b.Doc]:
			return -1
		case a.Score != b.Score, !math.IsInf(a.Score, 1) && scores[a.Doc] < scores[b.Doc]:
			return 1
		}
		return 0
	})
	return hits[:min(len(hits), limit)]
}

func (n *naive) score(d naiveDocument, mass float64) float64 {
	if n.ranking == Reference {
		score := 0.0
		for _, token := range n.sequence {
			f := float64(d.terms[token])
			i := slices.IndexFunc(n.words, func(w naiveWord) bool { return w.stem == token })
			if f > 0 {
				score += n.words[i].idf * f * (1.5 + 1) / (f + 1.5*(1-0.75+0.75*float64(d.length)/n.average))
			}
		}
		return score
	}
	score, inName, nameWords := 0.0, 0.0, 0
	for _, w := range n.words {
		f := w.frequency(d)
		if f == 0 {
			continue
		}
		if f&nameBit != 0 {
			nameWords += max(1, len(w.parts))
			if !w.stop {
				inName += w.idf
			}
		}
		frequency := float64(f &^ nameBit)
		norm := standardSaturation * (1 - standardLength + standardLength*float64(d.length)/n.average)
		score += w.idf * frequency * (standardSaturation + 1) / (frequency + norm)
	}
	if nameWords > 0 {
		covered := inName / mass * min(1, float64(nameWords)/float64(max(1, d.nameWords)))
		score += nameBonus * inName * covered * covered
	}
	return score
}

func (n *naive) unmatched() []string {
	var terms []string
	var before naiveWord
	for _, w := range n.words {
		if w.stop || w.holders > 0 {
			continue
		}
		switch {
		case w.pair && before.pair && before.run == w.run && before.place+1 == w.place:
			pair := []rune(w.stem)
			terms[len(terms)-1] += string(pair[len(pair)-1])
		case w.pair:
			terms = append(terms, w.stem)
		case len(terms) == 0 || terms[len(terms)-1] != w.text:
			terms = append(terms, w.text)
		}
		before = w
	}
	return terms
}
