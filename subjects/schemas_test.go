package subjects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

const schemaBase = "schemas:///"

// compileSchemas compiles every schema; nothing is fetched.
func compileSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s refers to outside the folder", url)
	}
	names := jsonFiles(t, Schemas())
	for _, name := range names {
		text, err := Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(schemaBase+name+".json", bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]*jsonschema.Schema{}
	for _, name := range names {
		s, err := c.Compile(schemaBase + name + ".json")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = s
	}
	return out
}

// parsed reads JSON with its numbers as they are written.
func parsed(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// withoutNull drops the members that are null, which mean absent ones.
func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			} else {
				v[k] = withoutNull(e)
			}
		}
	case []any:
		for i := range v {
			v[i] = withoutNull(v[i])
		}
	}
	return v
}

func TestEveryExampleFitsItsSchemaAndItsType(t *testing.T) {
	schemas := compileSchemas(t)
	seen := map[string]bool{}
	for _, file := range jsonFiles(t, Examples()) {
		name, _, _ := strings.Cut(file, ".")
		seen[name] = true
		t.Run(file, func(t *testing.T) {
			text := example(t, file)
			schema := schemas[name]
			if schema == nil {
				t.Fatalf("there is no schema %s", name)
			}
			if err := schema.Validate(parsed(t, text)); err != nil {
				t.Fatalf("%#v", err)
			}
			m, ok := messages[name]
			if !ok {
				return
			}
			strict := reflect.New(reflect.TypeOf(m)).Interface()
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(strict); err != nil {
				t.Fatalf("decoded strictly: %v", err)
			}
			ours := reflect.New(reflect.TypeOf(m)).Interface()
			if err := Decode(text, ours); err != nil {
				t.Fatal(err)
			}
			for how, v := range map[string]any{"encoding/json": strict, "Decode": ours} {
				again, err := Encode(v)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(withoutNull(parsed(t, text)), withoutNull(parsed(t, again))); diff != "" {
					t.Errorf("decoded by %s, encoded again: %s", how, diff)
				}
				if err := schema.Validate(parsed(t, again)); err != nil {
					t.Errorf("decoded by %s, encoded again: %#v", how, err)
				}
			}
		})
	}
	for name := range schemas {
		if !seen[name] && name != "common" {
			t.Errorf("%s has no example", name)
		}
	}
}

func example(t *testing.T, file string) []byte {
	t.Helper()
	text, err := fs.ReadFile(Examples(), file+".json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSchemasRefuseWhatTheContractDoes(t *testing.T) {
	schemas := compileSchemas(t)
	for name, c := range map[string]struct{ schema, text string }{
		"assembly of nothing":           {"assemble-request", `{"surface":"cli"}`},
		"unknown surface":               {"assemble-request", `{"tools":[],"surface":"fax"}`},
		"tool without a name":           {"assemble-request", `{"tools":[{"description":"x"}]}`},
		"call without catalog or tools": {"bridge-request", `{"id":"c1","name":"tool_call","arguments":{}}`},
		"id that is no token":           {"bridge-request", `{"id":"c 1","name":"tool_call","arguments":{},"catalog":"sha256:` + strings.Repeat("0", 64) + `"}`},
		"arguments that are a list":     {"bridge-request", `{"id":"c1","name":"tool_call","arguments":[],"toolsets":["a"]}`},
		"catalog without its kind":      {"preflight-request", `{"names":[],"catalog":"` + strings.Repeat("0", 64) + `"}`},
		"reply with neither":            {"bridge-reply", `{"id":"c1","name":"tool_call","is_error":false}`},
		"search result of another kind": {"bridge-reply", `{"id":"c1","name":"tool_search","is_error":false,"result":{"tools":1}}`},
		"slot with both":                {"call-slot", `{"index":0,"name":"a","response":1,"error":{"code":"TIMEOUT","message":"m"}}`},
		"decision without a choice":     {"approval-decide-request", `{"id":"a1"}`},
		"decision and forget":           {"approval-decide-request", `{"id":"a1","choice":"deny","forget":"b1"}`},
		"time with an offset":           {"decision", `{"id":"a1","state":"denied","choice":"deny","by":"b","at":"2026-03-02T10:00:00+01:00"}`},
		"event without its approval":    {"event", `{"type":"approval.requested","at":"2026-03-02T10:00:00Z","call_id":"c1","index":0,"tool":"a"}`},
		"skip without a target":         {"connection-answer", `{"operation":"o","action":"skip"}`},
		"rename without an account":     {"portal-request", `{"action":"rename","alias":"work"}`},
		"unknown code of a request":     {"error-reply", `{"error":{"code":"OOPS","message":"m","retryable":false}}`},
		"capitals in a digest":          {"exec-request", `{"execution_id":"c1.0","session":"s1","tool":"a","definition_sha256":"` + strings.Repeat("A", 64) + `","arguments":{},"idempotency_key":"k","start_by":1,"deadline":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := schemas[c.schema].Validate(parsed(t, []byte(c.text))); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestSchemasLetMessagesGainMembers(t *testing.T) {
	schemas := compileSchemas(t)
	for _, file := range jsonFiles(t, Examples()) {
		name, _, _ := strings.Cut(file, ".")
		v, ok := parsed(t, example(t, file)).(map[string]any)
		if !ok {
			continue
		}
		v["a_member_of_version_9"] = map[string]any{"x": json.Number("1")}
		if err := schemas[name].Validate(v); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
