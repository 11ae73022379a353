package subjects

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schemaFile is a schema as the tests walk it.
type schemaFile struct {
	t    *testing.T
	docs map[string]map[string]any
}

func loadSchemas(t *testing.T) schemaFile {
	s := schemaFile{t, map[string]map[string]any{}}
	for _, name := range jsonFiles(t, Schemas()) {
		text, err := Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		s.docs[name] = parsed(t, text).(map[string]any)
	}
	return s
}

// resolve follows $ref; the members beside it stand above what it names. name
// is the file that a $ref to a whole file names, else "".
func (s schemaFile) resolve(v any) (node map[string]any, name string) {
	s.t.Helper()
	node, ok := v.(map[string]any)
	if !ok {
		s.t.Fatalf("%v is no schema", v)
	}
	ref, ok := node["$ref"].(string)
	if !ok {
		return node, ""
	}
	file, pointer, _ := strings.Cut(ref, "#")
	file = strings.TrimSuffix(file, ".json")
	target := s.docs[file]
	if target == nil {
		s.t.Fatalf("$ref %s leads nowhere", ref)
	}
	if pointer == "" {
		name = file
	}
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if part != "" {
			target, ok = target[part].(map[string]any)
			if !ok {
				s.t.Fatalf("$ref %s leads nowhere", ref)
			}
		}
	}
	merged := map[string]any{}
	for k, e := range target {
		merged[k] = e
	}
	for k, e := range node {
		if k != "$ref" {
			merged[k] = e
		}
	}
	return merged, name
}

// differences lists where a schema and a Go type do not say the same.
func (s schemaFile) differences(at string, v any, p *plan) []string {
	node, name := s.resolve(v)
	if node["description"] == nil {
		return []string{at + ": no description"}
	}
	if p.shape == shapePointer && p.elem.shape != shapePointer {
		return s.differences(at, v, p.elem)
	}
	want := map[shape]string{
		shapeString: "string", shapeBool: "boolean", shapeInt: "integer", shapeUint: "integer", shapeSlice: "array", shapeMap: "object", shapeStruct: "object",
	}[p.shape]
	if p.shape == shapeRaw {
		return nil
	}
	types, _ := node["type"].(string)
	if list, ok := node["type"].([]any); ok && len(list) == 2 && list[1] == "null" { // a list that may be null
		types, _ = list[0].(string)
	}
	if want == "" || types != want {
		return []string{fmt.Sprintf("%s: the schema says %v, the type %v", at, node["type"], p.typ)}
	}
	switch p.shape {
	case shapeUint:
		if node["minimum"] == nil {
			return []string{at + ": an unsigned integer without a minimum"}
		}
	case shapeSlice:
		if p.elem.shape == shapeRaw {
			return nil
		}
		items, _ := s.resolve(node["items"])
		if items["description"] == nil { // plain items need no words of their own
			items["description"] = "-"
		}
		if _, n := s.resolve(node["items"]); n != "" {
			return s.differences(at+"[]", node["items"], p.elem)
		}
		return s.differences(at+"[]", items, p.elem)
	case shapeMap:
		values, n := s.resolve(node["additionalProperties"])
		if values["description"] == nil {
			values["description"] = "-"
		}
		if n != "" {
			return s.differences(at+"{}", node["additionalProperties"], p.elem)
		}
		return s.differences(at+"{}", values, p.elem)
	case shapeStruct:
		if m, ok := messages[name]; name != "" && (!ok || reflect.TypeOf(m) != p.typ) {
			return []string{fmt.Sprintf("%s: the schema says %s, the type %v", at, name, p.typ)}
		}
		if name != "" && at != name {
			return nil // the named schema is walked on its own
		}
		return s.structDifferences(at, node, p)
	}
	return nil
}

func (s schemaFile) structDifferences(at string, node map[string]any, p *plan) []string {
	var out []string
	props, _ := node["properties"].(map[string]any)
	required, _ := node["required"].([]any)
	if extra, ok := node["additionalProperties"]; ok {
		out = append(out, fmt.Sprintf("%s: additionalProperties is %v; messages are extended by adding members", at, extra))
	}
	for i := range p.fields {
		f := &p.fields[i]
		prop, ok := props[f.name]
		if !ok {
			out = append(out, at+"."+f.name+": not in the schema")
			continue
		}
		if must := slices.Contains(required, any(f.name)); must == (f.omitEmpty || f.omitZero) {
			out = append(out, fmt.Sprintf("%s.%s: required is %v, while the type may leave it out: %v", at, f.name, must, f.omitEmpty || f.omitZero))
		}
		out = append(out, s.differences(at+"."+f.name, prop, f.plan)...)
	}
	for name := range props {
		if _, ok := p.byName[name]; !ok {
			out = append(out, at+"."+name+": not in the type")
		}
	}
	for _, r := range required {
		if props[r.(string)] == nil {
			out = append(out, fmt.Sprintf("%s: %v is required and no property", at, r))
		}
	}
	return out
}

func TestTypesAndSchemasSayTheSame(t *testing.T) {
	s := loadSchemas(t)
	for name, m := range messages {
		doc := s.docs[name]
		if doc["title"] == nil || doc["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: title and $schema are needed", name)
		}
		for _, d := range s.differences(name, doc, planOf(reflect.TypeOf(m))) {
			t.Error(d)
		}
	}
}

func TestTheComparisonOfTypesAndSchemasSeesEveryDifference(t *testing.T) {
	s := loadSchemas(t)
	type sub struct {
		N int `json:"n"`
	}
	type made struct {
		A string         `json:"a"`
		B *int           `json:"b,omitempty"`
		C []string       `json:"c"`
		D map[string]sub `json:"d,omitempty"`
	}
	good := `{"description":"-","type":"object","required":["a","c"],"properties":{"a":{"description":"-","type":"string"},"b":{"description":"-","type":"integer"},
		"c":{"description":"-","type":"array","items":{"type":"string"}},"d":{"description":"-","type":"object","additionalProperties":{"type":"object","required":["n"],"properties":{"n":{"description":"-","type":"integer"}}}}}}`
	p := planOf(reflect.TypeFor[made]())
	if d := s.differences("made", parsed(t, []byte(good)), p); len(d) != 0 {
		t.Fatalf("differences in what is equal: %v", d)
	}
	for change, with := range map[string][2]string{
		"required missing":    {`"required":["a","c"]`, `"required":["a"]`},
		"required too much":   {`"required":["a","c"]`, `"required":["a","c","b"]`},
		"property missing":    {`"b":{"description":"-","type":"integer"},`, ``},
		"property added":      {`"b":{`, `"x":{"description":"-"},"b":{`},
		"other type":          {`"a":{"description":"-","type":"string"}`, `"a":{"description":"-","type":"boolean"}`},
		"other item":          {`"items":{"type":"string"}`, `"items":{"type":"integer"}`},
		"deep":                {`"required":["n"]`, `"required":[]`},
		"no description":      {`"a":{"description":"-",`, `"a":{`},
		"closed":              {`{"description":"-","type":"object","required":["a","c"]`, `{"additionalProperties":false,"description":"-","type":"object","required":["a","c"]`},
		"another message":     {`"additionalProperties":{"type":"object","required":["n"],"properties":{"n":{"description":"-","type":"integer"}}}`, `"additionalProperties":{"$ref":"blob.json"}`},
		"number for a string": {`"a":{"description":"-","type":"string"}`, `"a":{"$ref":"common.json#/$defs/index"}`},
	} {
		text := strings.Replace(good, with[0], with[1], 1)
		if text == good {
			t.Fatalf("%s: nothing changed", change)
		}
		if d := s.differences("made", parsed(t, []byte(text)), p); len(d) == 0 {
			t.Errorf("%s was not seen", change)
		}
	}
}

// enums collects, by Go type, what the schemas allow for fields of that type.
func (s schemaFile) enums(v any, p *plan, into map[string]map[string]bool) {
	node, name := s.resolve(v)
	switch p.shape {
	case shapePointer:
		s.enums(v, p.elem, into)
	case shapeSlice:
		if p.elem.shape != shapeRaw {
			s.enums(node["items"], p.elem, into)
		}
	case shapeMap:
		s.enums(node["additionalProperties"], p.elem, into)
	case shapeStruct:
		if name != "" {
			return
		}
		props, _ := node["properties"].(map[string]any)
		for i := range p.fields {
			s.enums(props[p.fields[i].name], p.fields[i].plan, into)
		}
	case shapeString:
		if p.typ.PkgPath() == "" {
			return
		}
		values := into[p.typ.Name()]
		if values == nil {
			values = map[string]bool{}
			into[p.typ.Name()] = values
		}
		lists := []any{node}
		if several, ok := node["anyOf"].([]any); ok {
			lists = several
		}
		for _, l := range lists {
			list, _ := l.(map[string]any)["enum"].([]any)
			for _, e := range list {
				values[e.(string)] = true
			}
		}
	}
}

func TestEveryConstantIsInItsSchemasEnumAndViceVersa(t *testing.T) {
	s := loadSchemas(t)
	src := readSource(t)
	found := map[string]map[string]bool{}
	for name, m := range messages {
		s.enums(s.docs[name], planOf(reflect.TypeOf(m)), found)
	}
	for _, typ := range []string{
		"Code", "WarningCode", "SourceKind", "Choice", "ApprovalState", "HookPhase", "HookAction", "EventType",
		"ConnectionStatus", "ConnectionAction", "PortalAction", "MCPAction",
	} {
		values := found[typ]
		delete(values, "") // "nobody chose" is no constant
		var schema []string
		for v := range values {
			schema = append(schema, v)
		}
		slices.Sort(schema)
		if diff := cmp.Diff(src.values(typ, ""), schema); diff != "" {
			t.Errorf("%s, constants against schemas: %s", typ, diff)
		}
		delete(found, typ)
	}
	for typ := range found {
		t.Errorf("the constants of %s are compared with nothing", typ)
	}
	for prefix, at := range map[string][2]string{
		"State": {"registration", "state"}, "Surface": {"assemble-request", "surface"}, "Grant": {"grant", "approval"},
	} {
		node := s.docs[at[0]]["properties"].(map[string]any)[at[1]].(map[string]any)
		var schema []string
		for _, e := range node["enum"].([]any) {
			schema = append(schema, e.(string))
		}
		slices.Sort(schema)
		if diff := cmp.Diff(src.values("", prefix), schema); diff != "" {
			t.Errorf("%s…, constants against schemas: %s", prefix, diff)
		}
	}
}
