package connectors

import (
	"encoding/json"
	"strings"

	"toolbridge/catalog"
	"toolbridge/catalog/index"
)

// Bounds of what is taken from an answer. What lies beyond is left out.
const (
	maxHits         = 100  // tools of one query; the gateway names the best first
	maxSlugsRead    = 1000 // slugs of one query that are looked at for them
	maxSlugBytes    = 256  // a connector, or a slug
	rankedChars     = 2000 // of a description, in a search
	shownChars      = 500  // of a description, in a search's answer
	describedChars  = 100_000
	maxRequired     = 32 // required parameters
	maxRequiredSize = 256
	maxAliases      = 20 // accounts named in a description
	aliasChars      = 64
	sourceChars     = 64
)

// readGroups are the tools that an answer holds for each query. Groups belong to
// queries by their position; one that echoes another query is dropped, and so is a
// slug without a schema or a connector, or whose name could not be shown or would
// not run it. twins are slugs of which the last is true.
func readGroups(reply *SearchReply, queries []string) (groups [][]catalog.Remote, twins []string) {
	r := hitReader{reply: reply, known: map[string]*catalog.Remote{}}
	for i, query := range queries {
		if i >= len(reply.Results) {
			break
		}
		g := &reply.Results[i]
		var tools []catalog.Remote
		if g.UseCase == "" || g.UseCase == query {
			tools = r.group(g.Tools)
		}
		groups = append(groups, tools)
	}
	return groups, r.twins
}

// hitReader turns slugs into tools, each once for a whole answer.
type hitReader struct {
	reply *SearchReply
	known map[string]*catalog.Remote // by slug; nil: left out
	twins []string
}

func (r *hitReader) group(slugs []string) []catalog.Remote {
	var tools []catalog.Remote
	seen := map[string]struct{}{}
	for _, slug := range slugs[:min(len(slugs), maxSlugsRead)] {
		if len(tools) == maxHits {
			break
		}
		tool, ok := r.known[slug]
		if !ok {
			tool = r.read(slug)
			r.known[slug] = tool
		}
		if tool == nil {
			continue
		}
		if _, again := seen[tool.Document.Name]; !again {
			seen[tool.Document.Name] = struct{}{}
			tools = append(tools, *tool)
		}
	}
	return tools
}

// read is the tool of a slug, nil where it is left out.
func (r *hitReader) read(slug string) *catalog.Remote {
	schema, ok := r.reply.Schemas[slug]
	if !ok || !showable(schema.Connector) || !showable(slug) {
		return nil
	}
	connector := FoldConnector(schema.Connector)
	name := Compose(connector, slug)
	runs := slugsOf(name, connector)
	switch {
	case runs == nil || slug != runs[0] && slug != runs[1]:
		return nil // the name would run something else
	case slug != runs[0]:
		// The name runs the first candidate where the gateway has it.
		if first, ok := r.reply.Schemas[runs[0]]; ok && FoldConnector(first.Connector) == connector {
			r.twins = append(r.twins, slug)
			return nil
		}
	}
	description := catalog.OneLine(schema.Description, rankedChars)
	read := readSchema(schema.InputSchema)
	return &catalog.Remote{
		Document:    index.Document{Name: name, Text: searchText(connector, slug), Description: description},
		SourceName:  catalog.OneLine(schema.Connector, sourceChars),
		Description: withAccounts(description, read.aliases, shownChars),
		Required:    read.required,
	}
}

// slugsOf are the slugs that a name of a connector stands for, nil where it stands
// for none of that connector's.
func slugsOf(name, connector string) []string {
	c, tool, ok := Parse(name)
	if !ok || c != connector {
		return nil
	}
	return Candidates(c, tool)
}

// showable reports whether a connector or a slug can be part of a name that a
// model sees and sends back.
func showable(s string) bool { return len(s) <= maxSlugBytes && catalog.Shows(s) }

// searchText is the text of a tool that is searched beside its description: the
// connector and the words of the slug. What follows "__" weighs as the tool's own
// name, so the connector in front of the slug stands before it.
func searchText(connector, slug string) string {
	rest := strings.TrimPrefix(slug, upper(connector)+"_")
	prefix := strings.TrimSuffix(slug, rest)
	return strings.ReplaceAll(connector+" "+prefix, "_", " ") + nameBreak + strings.ReplaceAll(rest, "_", " ")
}

// schemaFacts are what an answer shows of an input schema.
type schemaFacts struct {
	required []string // names of required parameters
	aliases  []string // accounts to choose from, the enumeration of connector_alias
}

// aliasParameter is the parameter by which a model chooses an account. It goes to
// the gateway as it is.
const aliasParameter = "connector_alias"

// readSchema reads an input schema leniently: what has another form than expected
// is as if it were not there.
func readSchema(schema json.RawMessage) schemaFacts {
	var facts schemaFacts
	top := members(schema)
	for _, raw := range items(top["required"]) {
		var s string
		if len(facts.required) < maxRequired && len(raw) <= maxRequiredSize && json.Unmarshal(raw, &s) == nil && s != "" {
			facts.required = append(facts.required, catalog.OneLine(s, maxRequiredSize))
		}
	}
	for _, raw := range items(members(members(top["properties"])[aliasParameter])["enum"]) {
		var s string
		if len(facts.aliases) <= maxAliases && json.Unmarshal(raw, &s) == nil {
			if s = catalog.OneLine(s, aliasChars); s != "" {
				facts.aliases = append(facts.aliases, s)
			}
		}
	}
	return facts
}

func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

func items(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// accountsText tells which accounts can be chosen, "" where there is no choice.
func accountsText(aliases []string) string {
	if len(aliases) == 0 {
		return ""
	}
	list := strings.Join(aliases[:min(len(aliases), maxAliases)], ", ")
	if len(aliases) > maxAliases {
		list += ", …"
	}
	return "Accounts (" + aliasParameter + "): " + list + "."
}

// withAccounts is a description of at most n characters that ends with the accounts
// to choose from.
func withAccounts(description string, aliases []string, n int) string {
	accounts := catalog.OneLine(accountsText(aliases), n/2)
	switch {
	case accounts == "":
		return description
	case description == "":
		return accounts
	}
	return catalog.OneLine(description, n-len(accounts)-2) + " " + accounts
}
