package arguments

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// step is one step from a value to one inside it: a member's name, or an
// element's index when name is unset.
type step struct {
	name  string
	index int // -1 for a member
}

// rootPath names the arguments as a whole.
const rootPath = "arguments"

// pathOf writes a path as models know it from code: arguments.rows[1].x, and
// arguments["with space"] for a name that is no ASCII identifier.
func pathOf(steps []step) string {
	var b strings.Builder
	b.WriteString(rootPath)
	for _, s := range steps {
		switch {
		case s.index >= 0:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case isIdentifier(s.name):
			b.WriteString("." + s.name)
		default:
			b.WriteString("[" + quoteText(s.name) + "]")
		}
	}
	return b.String()
}

// pathOfPointer writes a JSON pointer as a path. A pointer does not tell an
// index from a name of digits; an index is likelier.
func pathOfPointer(p jsontext.Pointer) string { return pathOf(stepsOfPointer(p)) }

func stepsOfPointer(p jsontext.Pointer) []step {
	var steps []step
	for token := range p.Tokens() {
		s := step{name: token, index: -1}
		if n, err := strconv.Atoi(token); err == nil && n >= 0 && strconv.Itoa(n) == token {
			s = step{index: n}
		}
		steps = append(steps, s)
	}
	return steps
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '_', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i > 0 && c >= '0' && c <= '9':
		default:
			return false
		}
	}
	return s != ""
}

// quoteText is s as a JSON string, not escaped for HTML.
func quoteText(s string) string {
	quoted, _ := jsontext.AppendQuote(nil, s) // the error says only that a lone surrogate was replaced
	return string(quoted)
}

// cut shortens text for people and models to n characters, the last three of
// them dots when something was left out.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-3]) + "..."
}
