package index

import (
	"strings"

	"github.com/kljensen/snowball/english"
)

// Stem gives the Snowball English 3.1.1 stem of one lower-case word. Words of
// one or two letters, and words with anything but a to z and 0 to 9 in them,
// come back as they are.
//
// The stemming itself is the library's, which follows Snowball English 2.2.
// Six classes of words changed since; they are corrected here, by giving the
// library a word that behaves as the newer rules want, or by mending its
// answer:
//
//   - regions: after the prefixes past, univers, later, emerg, organ and inter
//     the first region starts where the prefix ends (university is not
//     universe, paste is not past);
//   - a double consonant after a lone a, e or o stays (added gives add, not ad);
//   - one consonant and "ying" becomes "ie" (vying, as dying);
//   - evening is not even;
//   - "-ogist" becomes "-og" (geologist meets geology);
//   - proceedly, exceedly and succeedly keep their "eed".
func Stem(word string) string {
	if len(word) <= 2 || !plainWord(word) || endsLikeStem(word) {
		return word
	}
	if stem, ok := exceptionalStem(word); ok {
		return stem
	}
	prefix, standIn := regionPrefix(word)
	if prefix == "" {
		return mendOgist(word, english.Stem(word, true), firstRegion(word))
	}
	stem := english.Stem(standIn+word[len(prefix):], true)
	if !strings.HasPrefix(stem, standIn) {
		return stem
	}
	rest := stem[len(standIn):]
	// The stand-in ends in a short syllable, which keeps an e behind it.
	// "emerg" and "univers" do not, and lose it.
	if rest == "e" && (prefix == "emerg" || prefix == "univers") {
		rest = ""
	}
	return mendOgist(word, prefix+rest, len(prefix))
}

// plainWord tells whether a word is made of a to z and 0 to 9 only.
func plainWord(word string) bool {
	for i := 0; i < len(word); i++ {
		if c := word[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// endsLikeStem tells words that no rule changes, by their last letters: the
// rules' suffixes all end in d, e, g, i, l, s, t or y, or in ic, ion, ism, er or
// or. It spares many words the library, and may be false for others.
func endsLikeStem(word string) bool {
	switch last := word[len(word)-1]; last {
	case 'd', 'e', 'g', 'i', 'l', 's', 't':
		return false
	case 'y':
		return isVowel(word, len(word)-2)
	case 'c':
		return !strings.HasSuffix(word, "ic")
	case 'm':
		return !strings.HasSuffix(word, "ism")
	case 'n':
		return !strings.HasSuffix(word, "ion")
	case 'r':
		return !strings.HasSuffix(word, "er") && !strings.HasSuffix(word, "or")
	}
	return true
}

// exceptionalStem answers for the words that the newer rules treat as a whole.
func exceptionalStem(word string) (string, bool) {
	switch word {
	case "proceedly", "exceedly", "succeedly":
		return word[:len(word)-len("ly")], true
	case "univers": // its s is taken for a plural before regions matter
		return "univer", true
	}
	singular := strings.TrimSuffix(word, "s")
	switch {
	case singular == "evening":
		return singular, true
	case len(singular) == 5 && singular[1:] == "ying" && !strings.ContainsRune("aeiou", rune(singular[0])):
		return singular[:1] + "ie", true
	}
	if len(word) >= 5 && word[1] == word[2] &&
		strings.IndexByte("aeo", word[0]) >= 0 && strings.IndexByte("bdfgmnprt", word[1]) >= 0 {
		switch word[3:] {
		case "ed", "edly", "ing", "ingly", "ings":
			return word[:3], true
		}
	}
	return "", false
}

// regionPrefix finds a prefix that moves the first region, and a stand-in for
// it that the library knows: one that ends in the same letter where rules look
// across the border (interred), and in a short syllable.
func regionPrefix(word string) (prefix, standIn string) {
	for _, p := range [...]string{"past", "univers", "later", "emerg", "organ", "inter"} {
		if strings.HasPrefix(word, p) {
			if p == "later" || p == "inter" {
				return p, "gener"
			}
			return p, "arsen"
		}
	}
	return "", ""
}

// mendOgist cuts "ist" from a stem in "ogist" that lies in the first region,
// when the word is that stem or a plural or verb form of it.
func mendOgist(word, stem string, region int) string {
	const ending = "ogist"
	if !strings.HasSuffix(stem, ending) || len(stem)-len(ending) < region || !strings.HasPrefix(word, stem) {
		return stem
	}
	switch word[len(stem):] {
	case "", "s", "ed", "ing", "ings", "edly", "ingly":
		return stem[:len(stem)-len("ist")]
	}
	return stem
}

// firstRegion is where the region behind the first non-vowel that follows a
// vowel starts.
func firstRegion(word string) int {
	for _, p := range [...]string{"gener", "commun", "arsen"} {
		if strings.HasPrefix(word, p) {
			return len(p)
		}
	}
	for i := 1; i < len(word); i++ {
		if isVowel(word, i-1) && !isVowel(word, i) {
			return i + 1
		}
	}
	return len(word)
}

// isVowel knows y as a vowel except at the start and behind another vowel.
func isVowel(word string, i int) bool {
	switch word[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return true
	case 'y':
		return i > 0 && !isVowel(word, i-1)
	}
	return false
}
