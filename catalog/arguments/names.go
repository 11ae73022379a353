package arguments

import "strings"

// The three bridge tools. They are called directly and never through
// themselves.
var bridgeNames = [...]string{"tool_search", "tool_describe", "tool_call"}

// IsBridge tells whether a name is one of the three bridge tools, exactly as
// spelled.
func IsBridge(name string) bool {
	for _, n := range bridgeNames {
		if n == name {
			return true
		}
	}
	return false
}

// FoldName is the form in which names that models misspell are compared:
// trimmed, lower case, hyphens and spaces as underscores. Folding suggests a
// tool or picks the only one that can be meant; it never makes an unknown name
// known.
func FoldName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return '_'
		}
		return r
	}, strings.ToLower(trimSpace(name)))
}
