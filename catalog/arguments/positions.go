package arguments

// position says where a keyword keeps its subschemas.
type position uint8

const (
	holdsNone position = iota
	holdsOne
	holdsList
	holdsMap
	holdsOneOrList // items: one schema, or a list of them before draft 2020-12
)

// positions are the keywords that hold subschemas, of all drafts together. A
// name outside these positions, such as a property called "enum", is data.
var positions = map[string]position{
	"$defs": holdsMap, "definitions": holdsMap,
	"properties": holdsMap, "patternProperties": holdsMap,
	"dependentSchemas": holdsMap, "dependencies": holdsMap,
	"allOf": holdsList, "anyOf": holdsList, "oneOf": holdsList, "prefixItems": holdsList,
	"items": holdsOneOrList, "additionalItems": holdsOne, "unevaluatedItems": holdsOne, "contains": holdsOne,
	"additionalProperties": holdsOne, "unevaluatedProperties": holdsOne, "propertyNames": holdsOne,
	"not": holdsOne, "if": holdsOne, "then": holdsOne, "else": holdsOne,
}

// subschemas calls f for every subschema that a schema object holds itself.
func subschemas(schema *value, f func(keyword string, sub *value)) {
	if schema.kind != '{' {
		return
	}
	for i := range schema.children {
		c := &schema.children[i]
		switch p := positions[c.name]; {
		case p == holdsOne, p == holdsOneOrList && c.val.kind != '[':
			f(c.name, c.val)
		case p == holdsList && c.val.kind == '[', p == holdsOneOrList, p == holdsMap && c.val.kind == '{':
			for j := range c.val.children {
				f(c.name, c.val.children[j].val)
			}
		}
	}
}

// isSchema tells whether a value can stand where a schema is expected.
func isSchema(v *value) bool {
	return v != nil && (v.kind == '{' || v.kind == 't' || v.kind == 'f')
}
