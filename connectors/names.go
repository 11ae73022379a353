package connectors

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

const (
	namePrefix = "connectors__"
	nameBreak  = "__"
)

// Compose is the name under which models see a hosted tool: connectors__, the
// connector, __ and the slug without one leading "<CONNECTOR>_" in upper case. Two
// slugs can compose alike, and what remains of a slug may be empty, so that Parse
// refuses the name.
func Compose(connector, slug string) string {
	return namePrefix + connector + nameBreak + strings.TrimPrefix(slug, upper(connector)+"_")
}

// Parse takes such a name apart. The tool keeps every later "__". ok is false for
// names of other kinds and where a part is empty.
func Parse(name string) (connector, tool string, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return "", "", false
	}
	connector, tool, ok = strings.Cut(rest, nameBreak)
	if !ok || connector == "" || tool == "" {
		return "", "", false
	}
	return connector, tool, true
}

// Candidates are the slugs that a parsed name may stand for, in the order in which
// they are tried: with the connector in upper case before it, then as it is.
func Candidates(connector, tool string) []string {
	return []string{upper(connector) + "_" + tool, tool}
}

// IsConnector reports whether a name has the form of a hosted tool's, well formed
// or not. Its case counts.
func IsConnector(name string) bool { return strings.HasPrefix(name, namePrefix) }

// FoldName lower-cases the connector's part of a hosted tool's name, which search
// shows in lower case. Other names, and the tool's part, stay as they are.
func FoldName(name string) string {
	connector, tool, ok := Parse(name)
	if !ok {
		return name
	}
	return namePrefix + FoldConnector(connector) + nameBreak + tool
}

// FoldConnector is a connector in lower case.
func FoldConnector(connector string) string {
	if ascii(connector) {
		return strings.ToLower(connector)
	}
	return cases.Lower(language.Und, cases.HandleFinalSigma(true)).String(connector)
}

// upper is a connector in upper case, by Unicode's full mapping: ß becomes SS.
func upper(connector string) string {
	if ascii(connector) {
		return strings.ToUpper(connector)
	}
	return cases.Upper(language.Und).String(connector)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
