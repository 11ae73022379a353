package catalog

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// describeUsage is the valid shape of tool_describe's arguments.
const describeUsage = `{"names": ["exact tool name"]} with 1 to 10 names`

// DescribeArguments are the arguments of tool_describe, within their bounds.
type DescribeArguments struct {
	Names []string // 1 to MaxDescribed, trimmed, distinct, none blank
	// Unreadable are items that were no names, as short JSON text.
	Unreadable []string
}

// ParseDescribeArguments reads what a model sent: an object with "names", a list
// or one string; or a string that holds such an object. Blank names and repeats
// are dropped. The refusal's code is INVALID_ARGUMENTS.
func ParseDescribeArguments(args []byte) (DescribeArguments, *subjects.SlotError) {
	var a DescribeArguments
	list, refusal := modelArguments(args, describeUsage)
	if refusal != nil {
		return a, refusal
	}
	var raw jsontext.Value
	for _, m := range list {
		if m.name == "names" {
			raw = m.value
		}
	}
	var items []jsontext.Value
	switch raw.Kind() {
	case '[':
		items = elements(raw)
	case '"':
		items = []jsontext.Value{raw}
	default:
		return a, refused("%s needs \"names\": a list of tool names; send %s", ToolDescribe, describeUsage)
	}
	seen := make(map[string]struct{}, MaxDescribed)
	for _, item := range items {
		n, ok := textOf(item)
		if !ok {
			n = oneLine(string(item), labelChars)
		}
		if _, again := seen[n]; again || n == "" {
			continue
		}
		seen[n] = struct{}{}
		if ok {
			a.Names = append(a.Names, n)
		} else {
			a.Unreadable = append(a.Unreadable, n)
		}
	}
	switch n := len(seen); {
	case n == 0:
		return a, refused("\"names\" holds no name that is not blank; send %s", describeUsage)
	case n > MaxDescribed:
		return a, refused("%d names were sent, at most %d are described at once; ask for the others in a further call", n, MaxDescribed)
	}
	return a, nil
}

// Described is what tool_describe says of one tool.
type Described struct {
	Description string
	Parameters  jsontext.Value // nil is {}
}

// DescribeOptions are what a describe gets from outside the catalog.
type DescribeOptions struct {
	// Remote are connectors' tools, by the name as it was asked.
	Remote map[string]Described
	// Connectors is the answer's "connectors" member as JSON, where the gateway
	// did not answer; ConnectorNames are the names that it tells of, which then
	// are not called unknown.
	Connectors     jsontext.Value
	ConnectorNames []string
}

// Describe answers tool_describe: the payload, and whether it is an error that
// the model caused. It never fetches anything and runs nothing. See Tell for the
// payload.
func (c *Catalog) Describe(args []byte) (payload []byte, isError bool) {
	a, refusal := ParseDescribeArguments(args)
	if refusal != nil {
		return errorPayload(refusal.Code, refusal.Message), true
	}
	return c.Tell(a, DescribeOptions{}), false
}

// hintNotFound goes with names that are not found.
const hintNotFound = "Names must be exact: find them with tool_search, or take them from the listing in its description."

// Tell answers a describe as JSON:
//
//	{"tools": {name: {"description","parameters"}}, "not_found"?: [names], "hint"?,
//	 "errors"?: {name: text}, "connectors"?: {…}}
//
// Parameters have the bytes that the definition came with. A name that differs
// from exactly one tool's only in case, "-", "_" or space gives that tool under
// its exact name. Tools that are to be called directly, core tools that the
// session lacks and names that could mean several tools are in errors. One bad
// name never costs the others.
func (c *Catalog) Tell(a DescribeArguments, o DescribeOptions) []byte {
	var (
		b        = append(make([]byte, 0, 4096), `{"tools":{`...)
		first    = true
		given    = map[*Definition]struct{}{}
		notFound []string
		similar  []string
		hidden   []string
		problems []byte
	)
	problem := func(name, text string) {
		if len(problems) > 0 {
			problems = append(problems, ',')
		}
		problems = appendString(problems, name)
		problems = append(problems, ':')
		problems = appendString(problems, text)
	}
	tool := func(name, description string, parameters jsontext.Value) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendString(b, name)
		b = append(b, `:{"description":`...)
		b = appendString(b, description)
		b = append(b, `,"parameters":`...)
		if len(parameters) == 0 {
			parameters = jsontext.Value(noSchema)
		}
		b = append(b, parameters...)
		b = append(b, '}')
	}
	for _, name := range a.Names {
		r := c.Resolve(name)
		switch r.Verdict {
		case Callable:
			if _, again := given[r.Definition]; !again {
				given[r.Definition] = struct{}{}
				tool(r.Definition.Name, r.Definition.Description, r.Definition.Parameters)
			}
		case Direct:
			problem(name, "it stands in your own tool list, with its parameters: call it directly")
		case Ambiguous, NotInSession:
			problem(name, r.missing(shownName(name)))
		case Connector:
			if d, ok := o.Remote[name]; ok {
				tool(name, d.Description, d.Parameters)
			} else if !slices.Contains(o.ConnectorNames, name) {
				notFound = append(notFound, name)
			}
		default:
			notFound = append(notFound, name)
			similar = append(similar, r.Names...)
			if r.Hidden != nil {
				hidden = append(hidden, r.Hidden.Label+" ("+r.Hidden.Reason+")")
			}
		}
	}
	for _, u := range a.Unreadable {
		problem(u, "a name must be a text")
	}
	b = append(b, '}')
	if len(notFound) > 0 {
		b = append(b, `,"not_found":`...)
		b = appendStrings(b, notFound)
		b = append(b, `,"hint":`...)
		hint := hintNotFound
		if len(similar) > 0 {
			hint += " Similar names: " + strings.Join(bounded(similar), ", ") + "."
		}
		if len(hidden) > 0 {
			hint += " Unavailable now: " + strings.Join(bounded(hidden), ", ") + "."
		}
		b = appendString(b, hint)
	}
	if len(problems) > 0 {
		b = append(b, `,"errors":{`...)
		b = append(b, problems...)
		b = append(b, '}')
	}
	if len(o.Connectors) > 0 {
		b = append(b, `,"connectors":`...)
		b = append(b, o.Connectors...)
	}
	return append(b, '}')
}
