package index

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folder brings spellings of one word together: compatibility forms (full-width
// letters, ligatures), accents, and letters with a stroke. It keeps case. Its
// buffers are used again.
type folder struct {
	decomposed, stripped, composed []byte
}

// fold appends the runes of the folded text to runes.
func (f *folder) fold(text string, runes []rune) []rune {
	f.decomposed = norm.NFKD.AppendString(f.decomposed[:0], text)
	f.stripped = f.stripped[:0]
	for rest := f.decomposed; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		rest = rest[n:]
		switch {
		case isAccent(r) || !isWordRune(r):
		case r < 0x80:
			f.stripped = append(f.stripped, byte(r))
		default:
			f.stripped = appendPlainLetter(f.stripped, r)
		}
	}
	// Marks that are part of the letter (kana, Hangul, Indic) come together again.
	f.composed = norm.NFC.Append(f.composed[:0], f.stripped...)
	for rest := f.composed; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		rest = rest[n:]
		runes = append(runes, r)
	}
	return runes
}

// isWordRune tells whether a rune can stand in a word: letters, marks, and
// decimal digits.
func isWordRune(r rune) bool {
	if r < 0x80 {
		return isAlnum(byte(r))
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && !isInvisible(r)
}

// isInvisible tells variation selectors and joiners from marks that are read.
func isInvisible(r rune) bool {
	return r == 0x034f || 0xfe00 <= r && r <= 0xfe0f || 0xe0100 <= r && r <= 0xe01ef || r == 0x20e3
}

// isAccent tells the marks that may be left away in writing: the accents of
// Latin, Greek and Cyrillic, and the vowel points of Hebrew and Arabic.
func isAccent(r rune) bool {
	switch {
	case r < 0x0300:
		return false
	case r <= 0x036f, 0x0591 <= r && r <= 0x05c7, 0x064b <= r && r <= 0x065f, r == 0x0670, 0x1dc0 <= r && r <= 0x1dff:
		return true
	}
	return false
}

// appendPlainLetter appends a letter, and in place of those that have no
// decomposition but a usual spelling in plain letters, that spelling.
func appendPlainLetter(to []byte, r rune) []byte {
	var plain string
	switch r {
	case 'ß':
		plain = "ss"
	case 'ẞ':
		plain = "SS"
	case 'æ':
		plain = "ae"
	case 'Æ':
		plain = "AE"
	case 'œ':
		plain = "oe"
	case 'Œ':
		plain = "OE"
	case 'ø':
		plain = "o"
	case 'Ø':
		plain = "O"
	case 'ł':
		plain = "l"
	case 'Ł':
		plain = "L"
	case 'đ', 'ð':
		plain = "d"
	case 'Đ', 'Ð':
		plain = "D"
	case 'þ':
		plain = "th"
	case 'Þ':
		plain = "TH"
	case 'ħ':
		plain = "h"
	case 'Ħ':
		plain = "H"
	case 'ŧ':
		plain = "t"
	case 'Ŧ':
		plain = "T"
	case 'ı':
		plain = "i"
	case 'ς':
		plain = "σ"
	default:
		return utf8.AppendRune(to, r)
	}
	return append(to, plain...)
}

// script is what a rune's writing means for finding words.
type script uint8

const (
	spaced script = iota // words are separated
	han                  // the others are written without spaces
	hiragana
	katakana
	hangul // spaced, but with particles that hang on
	otherUnspaced
)

// scriptOf classifies a rune. Marks and signs that serve several scripts are
// "continues": they belong with the rune before.
func scriptOf(r rune) (s script, continues bool) {
	switch {
	case r < 0x0e00:
		return spaced, 0x0300 <= r && unicode.IsMark(r)
	case r <= 0x0eff: // Thai, Lao
		return otherUnspaced, false
	case 0x1000 <= r && r <= 0x109f, 0x1780 <= r && r <= 0x17ff: // Myanmar, Khmer
		return otherUnspaced, false
	case 0x3041 <= r && r <= 0x3096, r == 0x309d, r == 0x309e:
		return hiragana, false
	case r == 0x30fc, r == 0x3099, r == 0x309a: // long vowel, voicing
		return katakana, true
	case 0x30a1 <= r && r <= 0x30ff, 0x31f0 <= r && r <= 0x31ff:
		return katakana, false
	case 0xac00 <= r && r <= 0xd7ff, 0x1100 <= r && r <= 0x11ff, 0x3131 <= r && r <= 0x318f, 0xa960 <= r && r <= 0xa97f:
		return hangul, false
	case 0x2e80 <= r && r <= 0x2fdf, 0x3005 <= r && r <= 0x3007, 0x3100 <= r && r <= 0x312f,
		0x3400 <= r && r <= 0x9fff, 0xf900 <= r && r <= 0xfaff, 0x20000 <= r && r <= 0x3ffff:
		return han, false
	}
	return spaced, unicode.IsMark(r)
}
