package index

// Constants of BM25: how fast repetitions of a word stop counting, and how much
// a document's length matters.
const (
	referenceSaturation = 1.5
	referenceLength     = 0.75

	standardSaturation = 1.5
	standardLength     = 0.5

	// nameBonus is what a document gets beside BM25 when its name is covered:
	// per weight of the query's words in the name, times the covered share of
	// the name's words.
	nameBonus = 0.6
)

// score rates the document looked at. Sums run in the order of the query's
// words, so that equal documents get equal scores.
func (s *search) score(doc uint32) float64 {
	if s.options.Ranking == Reference {
		return s.referenceScore(doc)
	}
	return s.standardScore(doc)
}

// referenceScore is BM25; a word that the query repeats counts each time.
func (s *search) referenceScore(doc uint32) float64 {
	norm := referenceSaturation * (1 - referenceLength + referenceLength*float64(s.length(doc))/s.averageLength)
	score := 0.0
	for _, i := range s.sequence {
		if f := float64(s.frequencies[i]); f != 0 {
			score += s.units[i].idf * f * (referenceSaturation + 1) / (f + norm)
		}
	}
	return score
}

// standardScore is BM25 over weighted frequencies, and the bonus for the name.
func (s *search) standardScore(doc uint32) float64 {
	norm := standardSaturation * (1 - standardLength + standardLength*float64(s.length(doc))/s.averageLength)
	score, inName, words := 0.0, 0.0, 0
	for i, f := range s.frequencies {
		if f == 0 {
			continue
		}
		u := &s.units[i]
		if f&nameBit != 0 {
			words += u.nameWords()
			if !u.stop {
				inName += u.idf
			}
		}
		weighted := float64(f &^ nameBit)
		score += u.idf * weighted * (standardSaturation + 1) / (weighted + norm)
	}
	if words == 0 {
		return score
	}
	// How much of the query the name covers, and of the name the query.
	covered := inName / s.mass * min(1, float64(words)/float64(max(1, s.nameWords(doc))))
	return score + nameBonus*inName*covered*covered
}

// nameWords is the number of words of a document's own name.
func (s *search) nameWords(doc uint32) uint8 {
	if extra := int(doc) - len(s.index.docs); extra >= 0 {
		return s.extraNameWords[extra]
	}
	return s.postings.nameWords[doc]
}
