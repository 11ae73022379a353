package arguments

import "github.com/go-json-experiment/json/jsontext"

// shapes are the keywords that are taken out before the validator sees the
// schema, with the type that each draft from since on wants. A schema that gets
// one wrong is as invalid as any other.
var shapes = map[string]struct {
	since int
	kinds string // the first bytes of the kinds that are allowed
}{
	"$schema": {4, `"`}, "$id": {6, `"`}, "id": {4, `"`}, "title": {4, `"`}, "description": {4, `"`}, "format": {4, `"`},
	"examples": {6, `[`}, "$comment": {7, `"`}, "readOnly": {7, "tf"}, "writeOnly": {7, "tf"},
	"contentEncoding": {7, `"`}, "contentMediaType": {7, `"`},
	"$anchor": {2019, `"`}, "$recursiveAnchor": {2019, "tf"}, "$vocabulary": {2019, `{`}, "deprecated": {2019, "tf"},
	"$dynamicAnchor": {2020, `"`},
}

// checkShapes gives up on a schema whose descriptive keywords are malformed.
func (d *document) checkShapes() {
	for _, s := range d.schemas {
		for i := range s.children {
			c := &s.children[i]
			shape, ok := shapes[c.name]
			if !ok || d.draft < shape.since || c.name == "id" && d.draft > 4 || hasKind(shape.kinds, c.val.kind) {
				continue
			}
			d.giveUp("it is no valid JSON Schema: " + c.name + " is " + kindName(c.val.kind))
			return
		}
	}
}

func hasKind(kinds string, k jsontext.Kind) bool {
	for i := range len(kinds) {
		if jsontext.Kind(kinds[i]) == k {
			return true
		}
	}
	return false
}
