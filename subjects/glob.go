package subjects

import "unicode/utf8"

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
