package subjects

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ConnectorPrefix begins the names of tools behind the hosted gateway.
const ConnectorPrefix = "connectors__"

// MatchGuard is MatchGlob for a glob that refuses, asks or watches. What stands
// behind the connector in a connector's tool's name goes to the gateway as the
// model wrote it, and the gateway may read send_email as it reads SEND_EMAIL, so
// case does not count there, nor does the connector's name before the tool's: what
// a guard says of connectors__gmail__SEND_EMAIL it says of
// connectors__gmail__send_email and connectors__gmail__Gmail_Send_Email too. Globs
// that permit match the exact name alone.
func MatchGuard(glob, name string) bool {
	if MatchGlob(glob, name) {
		return true
	}
	rest, ok := strings.CutPrefix(name, ConnectorPrefix)
	if !ok {
		return false
	}
	glob, rest = foldCase(glob), foldCase(rest)
	if MatchGlob(glob, ConnectorPrefix+rest) {
		return true
	}
	connector, tool, _ := strings.Cut(rest, "__")
	tool, ok = strings.CutPrefix(tool, connector+"_")
	return ok && MatchGlob(glob, ConnectorPrefix+connector+"__"+tool)
}

// foldCase gives texts that differ in nothing but case the same form.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, s)
}

// MatchGlob reports whether name matches the glob of a grant or rule: "*"
// stands for any run of characters, also none, "?" for one, anything else for
// itself. There is no escape and no class, since names hold none of the two.
// It allocates nothing and takes time proportional to len(glob) × len(name) at
// worst.
func MatchGlob(glob, name string) bool {
	gi, ni := 0, 0
	star, mark := -1, 0 // after the last star; where its run ends for now
	for ni < len(name) {
		if gi < len(glob) && glob[gi] == '*' {
			gi++
			star, mark = gi, ni
			continue
		}
		if gi < len(glob) {
			g, gn := utf8.DecodeRuneInString(glob[gi:])
			n, nn := utf8.DecodeRuneInString(name[ni:])
			if g == '?' || g == n {
				gi, ni = gi+gn, ni+nn
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, nn := utf8.DecodeRuneInString(name[mark:])
		mark += nn
		gi, ni = star, mark
	}
	for gi < len(glob) && glob[gi] == '*' {
		gi++
	}
	return gi == len(glob)
}
