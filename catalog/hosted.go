package catalog

import "toolbridge/catalog/index"

// LocalMatches is how many tools of the catalog match each query, at most Limit.
func (c *Catalog) LocalMatches(a SearchArguments) []int {
	counts := make([]int, len(a.Queries))
	for i, q := range a.Queries {
		counts[i] = len(c.index().Search(q, index.Options{Limit: a.Limit, Ranking: c.config.Ranking}).Matches)
	}
	return counts
}

// Named reports whether a query is the name of a deferred tool, in whatever case.
func (c *Catalog) Named(query string) bool { return c.index().Named(query) }

// OneLine is text from outside as a prompt may hold it: one line of at most n
// characters and an ellipsis. Runs of white space become one space; control
// characters and what has no shape are dropped.
func OneLine(s string, n int) string { return oneLine(s, n) }

// Shows reports whether a name can stand in a prompt as it is: it holds no white
// space and nothing that OneLine would drop.
func Shows(name string) bool {
	if plainASCII(name) {
		for i := range len(name) {
			if name[i] == ' ' {
				return false
			}
		}
		return name != ""
	}
	for _, r := range name {
		if space(r) || unprintable(r) || joiner(r) || r == '\uFFFD' {
			return false
		}
	}
	return name != ""
}
