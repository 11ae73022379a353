package config

import (
	"net/url"
	"strings"
	"time"

	"toolbridge/subjects"
)

func (g *Gateway) read(r *reader, n *node, key string) {
	r.mapping(n, key, []field{
		{"url", func(n *node, key string) { r.origin(n, key, &g.URL) }},
		{"portal_url", func(n *node, key string) { r.origin(n, key, &g.PortalURL) }},
		{"token_env", func(n *node, key string) { r.envName(n, key, &g.TokenEnv) }},
		{"return_to", func(n *node, key string) { r.text(n, key, &g.ReturnTo) }},
		{"credentials", func(n *node, key string) { g.Credentials.read(r, n, key) }},
		{"ca_file", func(n *node, key string) { r.text(n, key, &g.CAFile) }},
		{"proxy", func(n *node, key string) { r.proxy(n, key, &g.Proxy) }},
		{"max_answer", func(n *node, key string) { r.integer(n, key, &g.MaxAnswer, 1<<30) }},
		{"timeouts", func(n *node, key string) {
			var fields []field
			for _, t := range []struct {
				key  string
				into *time.Duration
			}{
				{"search", &g.SearchTimeout},
				{"schemas", &g.SchemasTimeout},
				{"execute", &g.ExecuteTimeout},
				{"other", &g.OtherTimeout},
			} {
				fields = append(fields, field{t.key, func(n *node, key string) { r.duration(n, key, t.into) }})
			}
			r.mapping(n, key, fields)
		}},
	})
}

func (c *GatewayCredentials) read(r *reader, n *node, key string) {
	r.mapping(n, key, []field{
		{"env", func(n *node, key string) {
			if r.pairs(n, key, &c.Env); n.kind != kindMapping {
				return
			}
			for _, m := range n.members {
				at := key + "." + clip(m.key, 130)
				tenant, user, ok := strings.Cut(m.key, "/")
				if !ok || subjects.CheckToken("tenant", tenant) != nil || subjects.CheckToken("user", user) != nil {
					r.reportf(m.line, m.column, at, "the key must be <tenant>/<user>")
				}
				var name string
				r.envName(m.value, at, &name)
			}
		}},
		{"file", func(n *node, key string) { r.text(n, key, &c.File) }},
		{"subject", func(n *node, key string) { r.boolean(n, key, &c.Subject) }},
	})
}

// origin reads an http(s) address that holds no secret and no query: the routes of
// the interface are put behind it.
func (r *reader) origin(n *node, key string, into *string) {
	var raw string
	if r.url(n, key, &raw, "https", "http"); raw == "" {
		return
	}
	switch u, err := url.Parse(raw); {
	case err != nil:
		r.reportf(n.line, n.column, key, "is no address")
	case u.User != nil:
		r.reportf(n.line, n.column, key, "must hold neither user name nor password; tokens come from token_env or credentials")
	case u.RawQuery != "" || u.Fragment != "":
		r.reportf(n.line, n.column, key, "must have neither query nor fragment")
	default:
		*into = raw
	}
}

// proxy reads the address of a proxy, or direct.
func (r *reader) proxy(n *node, key string, into *string) {
	if n.kind == kindText && n.text == "direct" {
		*into = n.text
		return
	}
	r.url(n, key, into, "http", "https", "socks5")
}
