package arguments

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// maxNumberLength bounds one number's literal. It is far beyond any number
// that is meant, and keeps exact arithmetic on it cheap.
const maxNumberLength = 4300

// maxExpandedDigits bounds an integer that is written out from exponent form
// for a parameter of type number.
const maxExpandedDigits = 21

// carriable tells whether a JSON number can reach a tool as that number. A
// literal without fraction and exponent always can, however long; any other
// must lie within the range of a 64-bit float, because a receiver would read
// it as infinity or as zero.
func carriable(literal string) bool {
	if len(literal) > maxNumberLength {
		return false
	}
	if !strings.ContainsAny(literal, ".eE") {
		return true
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return false
	}
	return f != 0 || isZero(literal)
}

// isZero tells whether the digits before the exponent are all zero.
func isZero(literal string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
	return strings.Trim(mantissa, "-0.") == ""
}

// isWhole tells whether a carriable literal is an integer: 3, 3.0, 1e3.
func isWhole(literal string) bool {
	if !strings.ContainsAny(literal, ".eE") {
		return true
	}
	r, ok := new(big.Rat).SetString(literal)
	return ok && r.IsInt()
}

// numberFromText reads the number that a text spells and gives it as a JSON
// literal with the same digits. Surrounding space, a plus sign, single
// underscores between digits, digits of other scripts, a missing digit beside
// the point and leading zeros are tolerated, as Python's float() does; nan,
// inf and hexadecimal are not numbers.
func numberFromText(text string) (literal string, ok bool) {
	text = trimSpace(text)
	if text == "" || len(text) > maxNumberLength {
		return "", false
	}
	var b strings.Builder
	runes := []rune(text)
	i := 0
	digits := func() string {
		var d strings.Builder
		for i < len(runes) {
			if n, isDigit := decimalDigit(runes[i]); isDigit {
				d.WriteByte('0' + n)
			} else if runes[i] != '_' || d.Len() == 0 || runes[i-1] == '_' || i+1 == len(runes) {
				break
			} else if _, isDigit := decimalDigit(runes[i+1]); !isDigit {
				break
			}
			i++
		}
		return d.String()
	}
	at := func(set string) bool { return i < len(runes) && strings.ContainsRune(set, runes[i]) }

	if at("+-") {
		if runes[i] == '-' {
			b.WriteByte('-')
		}
		i++
	}
	whole, fraction := digits(), ""
	if at(".") {
		i++
		fraction = digits()
	}
	if whole == "" && fraction == "" {
		return "", false
	}
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	b.WriteString(whole)
	if fraction != "" {
		b.WriteString("." + fraction)
	}
	if at("eE") {
		i++
		b.WriteByte('e')
		if at("+-") {
			b.WriteRune(runes[i])
			i++
		}
		exponent := digits()
		if exponent == "" {
			return "", false
		}
		b.WriteString(exponent)
	}
	literal = b.String()
	return literal, i == len(runes) && carriable(literal)
}

// integerLiteral writes a carriable literal as an integer without fraction and
// exponent, when it is one.
func integerLiteral(literal string) (string, bool) {
	if !strings.ContainsAny(literal, ".eE") {
		if literal == "-0" {
			literal = "0"
		}
		return literal, true
	}
	if isZero(literal) {
		return "0", true
	}
	r, ok := new(big.Rat).SetString(literal)
	if !ok || !r.IsInt() {
		return "", false
	}
	return r.Num().String(), true
}

// numberLiteral keeps a literal as it is, but writes a whole number that is
// not too long as an integer: 1e3 is 1000, 42. is 42.
func numberLiteral(literal string) string {
	if n, ok := integerLiteral(literal); ok && (len(n) <= maxExpandedDigits || !strings.ContainsAny(literal, "eE")) {
		return n
	}
	return literal
}

// decimalDigit is the value of a decimal digit of any script. Unicode keeps
// the ten digits of a script together and in order.
func decimalDigit(r rune) (byte, bool) {
	if r < 0x80 {
		return byte(r - '0'), r >= '0' && r <= '9'
	}
	for _, block := range unicode.Nd.R16 {
		if r >= rune(block.Lo) && r <= rune(block.Hi) {
			return byte((r - rune(block.Lo)) % 10), true
		}
	}
	for _, block := range unicode.Nd.R32 {
		if r >= rune(block.Lo) && r <= rune(block.Hi) {
			return byte((r - rune(block.Lo)) % 10), true
		}
	}
	return 0, false
}

// trimSpace removes the white space that Python's str.strip removes: Unicode's
// and the four separators U+001C to U+001F.
func trimSpace(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
	})
}
