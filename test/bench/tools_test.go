//go:build unix

package bench

import (
	"fmt"
	"strings"
)

// Words that real servers' tools are made of.
var (
	verbs = []string{"create", "list", "update", "delete", "archive", "export", "approve", "reject", "clone", "merge", "search", "assign"}
	nouns = []string{"issue", "order", "invoice", "shipment", "customer", "branch", "release", "ticket", "document", "calendar", "contact", "payment", "report"}
	ends  = []string{
		"Works across workspaces and returns a paginated result.",
		"Needs write access to the workspace; the change shows at once to everyone.",
		"Use the filters to narrow what comes back, newest first.",
		"Returns the identifier and a link that people can open.",
	}
)

// generated is a JSON array of n OpenAI definitions of about 1 KB each, from 20
// servers, in the shape of real MCP tools. The same n gives the same bytes; salt
// makes other content of the same size.
func generated(n int, salt string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		server, verb, noun := fmt.Sprintf("server%02d", i%20), verbs[i%len(verbs)], nouns[i/7%len(nouns)]
		fmt.Fprintf(&b, `{"type":"function","toolset":"mcp-%s","function":{"name":"mcp__%s__%s_%s_%d","description":"%s%s a %s in %s. %s","parameters":{"type":"object","properties":{`,
			server, server, verb, noun, i, strings.ToUpper(verb[:1]), verb[1:], noun, server+salt, ends[i%len(ends)])
		for j, p := range []string{noun + "_id", "workspace", "dry_run", "page_token", "fields"} {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"%s":{"type":["string","null"],"description":"The %s to be used for this %s, as it was given by the server","maxLength":%d}`, p, p, noun, 100+i)
		}
		fmt.Fprintf(&b, `},"required":["%s_id"],"additionalProperties":false}}}`, noun)
	}
	b.WriteByte(']')
	return b.String()
}

// queries are five words each, as a model would ask.
func queries() []string {
	list := make([]string, 16)
	for i := range list {
		list[i] = fmt.Sprintf("%s a new %s for workspace", verbs[i%len(verbs)], nouns[(i*5)%len(nouns)])
	}
	return list
}
