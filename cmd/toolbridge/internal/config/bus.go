package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"toolbridge/subjects"
)

// url reads an address of one of some schemes; NATS takes several, separated
// by commas.
func (r *reader) url(n *node, key string, into *string, schemes ...string) {
	var s string
	before := len(r.problems)
	if r.text(n, key, &s); len(r.problems) > before {
		return
	}
	parts := []string{s}
	if schemes[0] == "nats" {
		parts = strings.Split(s, ",")
	}
	for _, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
			r.reportf(n.line, n.column, key, "an address that begins with %s:// is expected", strings.Join(schemes, ":// or "))
			return
		}
	}
	*into = s
}

func (r *reader) prefix(n *node, key string, into *string) {
	var s string
	before := len(r.problems)
	if r.text(n, key, &s); len(r.problems) > before {
		return
	}
	if _, err := subjects.NewSpace(s); err != nil {
		r.reportf(n.line, n.column, key, "%s", err)
		return
	}
	*into = s
}

var envNames = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// envName reads the name of an environment variable.
func (r *reader) envName(n *node, key string, into *string) {
	var s string
	before := len(r.problems)
	if r.text(n, key, &s); len(r.problems) > before {
		return
	}
	if !envNames.MatchString(s) {
		r.reportf(n.line, n.column, key, "the name of an environment variable is expected (letters, digits, _), not its value")
		return
	}
	*into = s
}
