package arguments

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on a schema. Beyond them it is not enforced; the tool stays usable.
const (
	maxSchemaBytes      = 1 << 20
	maxSchemaDepth      = 128
	maxSchemaValues     = 100_000
	maxSchemaSubschemas = 2000
	maxSchemaNotes      = 20
)

// document is a tool's schema while it is prepared for the validator. Its
// values are private to it and changed in place.
type document struct {
	root  *value
	draft int // 4, 6, 7, 2019, 2020

	schemas []*value // every schema object that can be applied, in the order found
	parents map[*value][]applied
	bases   map[*value]*value // the embedded resource that a schema belongs to
	targets map[*value]*value // the schema that a schema's $ref means
	anchors map[*value]map[string]*value

	mainType map[*value]string // the one type that a schema had before nullable was added to it
	spelled  map[string]string // a translated pattern, as the schema spells it

	notes []string
	// unenforceable says why nothing but the required probe can be held; "" when
	// the whole can.
	unenforceable string
}

// applied is one place where a schema is applied: the schema that does it and
// its keyword.
type applied struct {
	by      *value
	keyword string
}

// drafts by $schema, without scheme and fragment.
var drafts = map[string]int{
	"//json-schema.org/draft-04/schema":      4,
	"//json-schema.org/draft-06/schema":      6,
	"//json-schema.org/draft-07/schema":      7,
	"//json-schema.org/draft/2019-09/schema": 2019,
	"//json-schema.org/draft/2020-12/schema": 2020,
}

func draftOf(root *value) int {
	if s := root.member("$schema"); s != nil && s.kind == '"' {
		id := strings.TrimSuffix(strings.TrimSuffix(s.text, "/"), "#")
		if _, rest, ok := strings.Cut(id, ":"); ok {
			if d, ok := drafts[rest]; ok {
				return d
			}
		}
	}
	return 2020
}

// readDocument parses a schema. A nil document means that there is nothing to
// hold arguments against; note says why when that is a fault of the schema.
func readDocument(schema []byte) (d *document, note string) {
	root, err := parse(schema, limits{maxSchemaBytes, maxSchemaDepth, maxSchemaValues}, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return nil, "the schema is not enforced: " + readError(err)
	}
	if root.kind != '{' {
		return nil, ""
	}
	d = &document{
		root: root, draft: draftOf(root),
		parents: map[*value][]applied{}, bases: map[*value]*value{},
		targets: map[*value]*value{}, anchors: map[*value]map[string]*value{},
		mainType: map[*value]string{}, spelled: map[string]string{},
	}
	return d, ""
}

// give up on enforcing the schema; the first reason stands.
func (d *document) giveUp(reason string) {
	if d.unenforceable == "" {
		d.unenforceable = reason
		d.note("the schema is not enforced: " + reason)
	}
}

func (d *document) note(text string) {
	if len(d.notes) < maxSchemaNotes {
		d.notes = append(d.notes, cut(text, 300))
	}
}

// discover finds every schema that can be applied, also those that only a
// $ref reaches at a place where no schema is expected.
func (d *document) discover() {
	d.walk(d.root, d.root)
	for i := 0; i < len(d.schemas); i++ { // grows while references are followed
		d.follow(d.schemas[i])
	}
	if len(d.schemas) > maxSchemaSubschemas {
		d.giveUp("too many subschemas")
	}
}

func (d *document) walk(s, base *value) {
	if s.kind != '{' || d.bases[s] != nil || len(d.schemas) > maxSchemaSubschemas {
		return
	}
	if s != d.root && d.ownResource(s) {
		base = s
	}
	d.bases[s] = base
	d.schemas = append(d.schemas, s)
	d.collectAnchors(s, base)
	subschemas(s, func(keyword string, sub *value) {
		if sub.kind != '{' {
			return
		}
		d.parents[sub] = append(d.parents[sub], applied{s, keyword})
		d.walk(sub, base)
	})
}

// set gives a schema object a member, in place of one of that name.
func set(schema *value, name string, v *value) {
	for i := len(schema.children) - 1; i >= 0; i-- {
		if schema.children[i].name == name {
			schema.children[i].val = v
			return
		}
	}
	schema.children = append(schema.children, child{name: name, val: v})
}

// drop takes members out of a schema object.
func drop(schema *value, names ...string) {
	kept := schema.children[:0]
next:
	for _, c := range schema.children {
		for _, n := range names {
			if c.name == n {
				continue next
			}
		}
		kept = append(kept, c)
	}
	schema.children = kept
}
