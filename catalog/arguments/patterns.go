package arguments

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSON Schema patterns are ECMAScript regular expressions. Go's engine, which
// never backtracks and so never hangs, has neither look-around nor back
// references; a pattern with one of them is not enforced. What the two
// languages spell differently is translated.

// maxPatternBytes bounds one pattern.
const maxPatternBytes = 4096

// ECMAScript's white space beyond Go's \s, for use inside a class.
const ecmaSpace = `\s\x0b\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`

var (
	errPatternLong  = errors.New("it is too long")
	errPatternClass = errors.New(`it excludes \S from a class`)
	errPatternEmpty = errors.New("it holds an empty class, which languages read differently")
)

// goPattern is the pattern as Go's engine understands it.
func goPattern(ecma string) (string, error) {
	if len(ecma) > maxPatternBytes {
		return "", errPatternLong
	}
	translated, err := translatePattern(ecma)
	if err != nil {
		return "", err
	}
	_, err = regexp.Compile(translated)
	return translated, err
}

func translatePattern(p string) (string, error) {
	var b strings.Builder
	inClass, negated := false, false
	for i := 0; i < len(p); {
		c := p[i]
		switch {
		case c == '\\' && i+1 < len(p):
			n, text, err := translateEscape(p[i:], inClass, negated)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
			i += n
			continue
		case inClass && c == ']':
			inClass = false
		case inClass && c == '[':
			b.WriteByte('\\') // an ordinary character in ECMAScript, the start of [:name:] in Go
		case inClass:
		case c == '[':
			inClass, negated = true, strings.HasPrefix(p[i:], "[^")
			if negated {
				b.WriteByte('[')
				c, i = '^', i+1
			}
			if strings.HasPrefix(p[i+1:], "]") {
				return "", errPatternEmpty
			}
		case c == '.':
			b.WriteString(`[^\n\r\x{2028}\x{2029}]`)
			i++
			continue
		}
		b.WriteByte(c)
		i++
	}
	return b.String(), nil
}

// translateEscape translates the escape that p begins with and tells how long
// it is.
func translateEscape(p string, inClass, negated bool) (int, string, error) {
	switch c := p[1]; {
	case c == 'u':
		return translateUnicode(p)
	case c == 'c' && len(p) > 2 && (p[2]|0x20) >= 'a' && (p[2]|0x20) <= 'z':
		return 3, `\x{` + strconv.FormatInt(int64(p[2]%32), 16) + `}`, nil
	case c == '0' && (len(p) == 2 || p[2] < '0' || p[2] > '9'):
		return 2, `\x{0}`, nil
	case c == 's' && inClass:
		return 2, ecmaSpace, nil
	case c == 's':
		return 2, "[" + ecmaSpace + "]", nil
	case c == 'S' && negated && inClass:
		return 0, "", errPatternClass
	case c == 'S' && !inClass:
		return 2, "[^" + ecmaSpace + "]", nil
	case c == 'b' && inClass:
		return 2, `\x{8}`, nil
	case c >= utf8.RuneSelf:
		_, n := utf8.DecodeRuneInString(p[1:])
		return 1 + n, p[1 : 1+n], nil // an escape without need, which Go does not take
	}
	return 2, p[:2], nil
}

func translateUnicode(p string) (int, string, error) {
	if strings.HasPrefix(p, `\u{`) {
		if end := strings.IndexByte(p, '}'); end > 3 {
			return end + 1, `\x{` + p[3:end] + `}`, nil
		}
		return 0, "", errors.New(`\u{ is not closed`)
	}
	if len(p) < 6 {
		return 0, "", errors.New(`\u needs four digits`)
	}
	n, err := strconv.ParseUint(p[2:6], 16, 16)
	if err != nil {
		return 0, "", errors.New(`\u needs four digits`)
	}
	if n >= 0xd800 && n < 0xe000 {
		return 0, "", errors.New(`it matches half of a character`)
	}
	return 6, `\x{` + p[2:6] + `}`, nil
}

// compilePattern compiles a translated pattern. Its cost is what matching one
// byte takes at most, in steps of the engine.
func compilePattern(translated string) (namePattern, bool) {
	match, err := regexp.Compile(translated)
	if err != nil {
		return namePattern{}, false
	}
	parsed, err := syntax.Parse(translated, syntax.Perl)
	if err != nil {
		return namePattern{}, false
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return namePattern{}, false
	}
	return namePattern{match: match, cost: len(prog.Inst)}, true
}
