package subjects

// MatchGlob reports whether name matches the glob of a grant or rule: "*"
// stands for any run of characters, also none, "?" for one, anything else for
// itself. There is no escape and no class, since names hold none of the two.
// It takes time proportional to len(glob) × len(name).
func MatchGlob(glob, name string) bool {
	g, n := []rune(glob), []rune(name)
	gi, ni, star, mark := 0, 0, -1, 0
	for ni < len(n) {
		switch {
		case gi < len(g) && g[gi] == '*':
			star, mark = gi, ni
			gi++
		case gi < len(g) && (g[gi] == '?' || g[gi] == n[ni]):
			gi++
			ni++
		case star >= 0:
			mark++
			gi, ni = star+1, mark
		default:
			return false
		}
	}
	for gi < len(g) && g[gi] == '*' {
		gi++
	}
	return gi == len(g)
}
