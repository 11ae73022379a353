package catalog

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"toolbridge/subjects"
)

// benchTools is a JSON array of n definitions of about 1 KB each from 20 servers,
// in the shape of real MCP tools: nested schemas, descriptions of a few sentences.
func benchTools(n int) []byte {
	verbs := []string{"create", "list", "update", "delete", "archive", "export", "approve", "reject", "clone", "merge"}
	nouns := []string{"issue", "order", "invoice", "shipment", "customer", "branch", "release", "ticket", "document", "calendar"}
	var b strings.Builder
	b.WriteString("[")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		server := fmt.Sprintf("server%02d", i%20)
		verb, noun := verbs[i/20%10], nouns[(i/200+i)%10]
		fmt.Fprintf(&b, `{"type": "function", "function": {"name": "mcp__%s__%s_%s_%d", "description": "%s a %s in %s. Works across workspaces and returns a paginated result; see \"limits\" for what a caller may ask for.\nAnswers in café time.", "parameters": {"type": "object", "properties": {`,
			server, verb, noun, i, strings.ToUpper(verb[:1])+verb[1:], noun, server)
		for j, p := range []string{noun + "_id", "workspace", "dry_run", "page_token", "fields"} {
			if j > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, `"%s": {"type": ["string", "null"], "description": "The %s to be used for this %s, as given by the server", "enum": ["a", "b", 12.50]}`, p, p, noun)
		}
		fmt.Fprintf(&b, `}, "required": ["%s_id"]}}, "toolset": "mcp-%s"}`, noun, server)
	}
	b.WriteString("]")
	return []byte(b.String())
}

func BenchmarkJSONValid500(b *testing.B) {
	raw := benchTools(500)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if !json.Valid(raw) {
			b.Fatal("not valid")
		}
	}
}

func BenchmarkDecode500(b *testing.B) {
	raw := benchTools(500)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if d, _, err := Decode(raw, Limits{}); err != nil || len(d) != 500 {
			b.Fatal(len(d), err)
		}
	}
}

func benchInput(b *testing.B, n int) Input {
	b.Helper()
	d, _, err := Decode(benchTools(n), Limits{})
	if err != nil || len(d) != n {
		b.Fatal(len(d), err)
	}
	return Input{Definitions: d, ContextLength: 200_000}
}

// BenchmarkAssemble500 is a cold assembly: decoding, classification, listing,
// bridges and visible tools. Its measure is BenchmarkJSONValid500.
func BenchmarkAssemble500(b *testing.B) {
	raw := benchTools(500)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		d, _, err := Decode(raw, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if a := Assemble(Input{Definitions: d, ContextLength: 200_000}); a.DeferredCount != 500 {
			b.Fatal(a.DeferredCount)
		}
	}
}

// BenchmarkNewCatalog500 makes a catalog without its index.
func BenchmarkNewCatalog500(b *testing.B) {
	in := benchInput(b, 500)
	b.ReportAllocs()
	for b.Loop() {
		New(in)
	}
}

func BenchmarkSearchPayload(b *testing.B) {
	for _, n := range []int{500, 5000} {
		c := New(benchInput(b, n))
		c.Prepare()
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if payload, isError := c.Search([]byte(`{"queries":["create invoice in server07 workspace"],"limit":5}`), SearchOptions{}); isError {
					b.Fatal(string(payload))
				}
			}
		})
	}
}

// BenchmarkSearchHandler is what a worker does with a search between the bytes of
// the request and those of the reply.
func BenchmarkSearchHandler(b *testing.B) {
	c := New(benchInput(b, 500))
	c.Prepare()
	body := []byte(`{"id":"c1","name":"tool_search","arguments":{"queries":["create a new invoice for workspace"]},"catalog":"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`)
	b.ReportAllocs()
	for b.Loop() {
		var m subjects.BridgeRequest
		if err := subjects.Decode(body, &m); err != nil {
			b.Fatal(err)
		}
		payload, isError := c.Search(m.Arguments, SearchOptions{})
		if _, err := subjects.Encode(&subjects.BridgeReply{ID: m.ID, Name: m.Name, IsError: isError, Result: payload}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDescribe(b *testing.B) {
	c := New(benchInput(b, 500))
	args := []byte(`{"names":["` + c.deferred[10].Name + `","` + c.deferred[400].Name + `"]}`)
	b.ReportAllocs()
	for b.Loop() {
		if payload, isError := c.Describe(args); isError {
			b.Fatal(string(payload))
		}
	}
}

func BenchmarkDefinitionSHA256(b *testing.B) {
	in := benchInput(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		in.Definitions[0].SHA256()
	}
}
