//go:build unix

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// development is toolbridge dev with the three servers.
type development struct {
	*program
	url     string
	allowed string              // folder that server-filesystem may use
	servers map[string][]string // command lines by name
}

func startDev(t *testing.T) *development {
	t.Helper()
	allowed, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &development{allowed: allowed, servers: map[string][]string{
		"everything": server(t, "everything"),
		"memory":     server(t, "memory"),
		"files":      server(t, "filesystem", allowed),
	}}
	args := []string{"dev", "--nats-port", "0", "--store", t.TempDir()}
	for name, command := range d.servers {
		line := quote(command)
		switch name {
		case "memory":
			line = "MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "graph.jsonl") + " " + line
		case "everything":
			line = "GIVEN='${TOOLBRIDGE_TEST_GIVEN}' " + line
		}
		args = append(args, "--mcp", name+"="+line)
	}
	d.program = run(t, []string{"TOOLBRIDGE_TEST_GIVEN=for-the-server", "TOOLBRIDGE_TEST_SECRET=for-nobody"}, args...)
	d.url = d.ready()
	return d
}

func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

func TestDevServesRealMCPServers(t *testing.T) {
	d := startDev(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *development)
	}{
		{"everything that the servers list is assembled", testAssembly},
		{"search finds tools by words", testSearch},
		{"describe gives the schema that the server itself gives", testDescribe},
		{"calls of server-everything", testEverything},
		{"calls of server-memory", testMemory},
		{"calls of server-filesystem stay in their folder", testFilesystem},
		{"servers get no environment but their own", testEnvironment},
		{"wrong calls are refused before they reach a server", testRefusals},
		{"a Node client speaks the contract", testNode},
		{"the client verbs", testVerbs},
		{"an MCP client is served through the bus", testMCPServe},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, d) })
	}
}

func testAssembly(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	total := 0
	v := a.assemble()
	ref := v["catalog"].(string)
	for name, command := range d.servers {
		own := ownList(t, command)
		total += len(own)
		for _, tool := range own {
			if a.describe(ref, "mcp__"+name+"__"+tool.Name) == nil {
				t.Errorf("%s of %s can not be described", tool.Name, name)
			}
		}
	}
	if got := encode(v["deferred_count"]); got != encode(total) || v["activated"] != true {
		t.Errorf("%s tools are deferred, the servers list %d", got, total)
	}
	if w := encode(v["warnings"]); w != "[]" {
		t.Errorf("warnings: %s", w)
	}
	tools := v["tools"].([]any)
	if len(tools) != 3 || at(tools, 0, "function", "name") != "tool_search" {
		t.Fatalf("tools = %s", encode(tools))
	}
	listing, _ := at(tools, 0, "function", "description").(string)
	for _, want := range []string{"mcp__memory__read_graph", "mcp__files__write_file", "mcp__everything__echo"} {
		if !strings.Contains(listing, strings.TrimPrefix(want, "mcp__")) && !strings.Contains(listing, want) {
			t.Errorf("the listing (%v) does not name %s:\n%s", v["listing_form"], want, listing)
		}
	}
	one := newAgent(t, d.url, "default").assemble("mcp-memory")
	if got := encode(one["deferred_count"]); got != "9" {
		t.Errorf("mcp-memory alone: %s tools", got)
	}
}

func testSearch(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	ref := a.assemble()["catalog"].(string)
	for query, want := range map[string]string{
		"echo back the input message":        "mcp__everything__echo",
		"sum of two numbers":                 "mcp__everything__get-sum",
		"read the entire knowledge graph":    "mcp__memory__read_graph",
		"create new entities":                "mcp__memory__create_entities",
		"write file":                         "mcp__files__write_file",
		"mcp__files__directory_tree":         "mcp__files__directory_tree",
		"list the directories it may access": "mcp__files__list_allowed_directories",
	} {
		v := a.bridge(ref, "tool_search", `{"queries":[`+encode(query)+`],"limit":5}`)
		if got := encode(at(v, "result", "results", 0)); !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("%q: no %s in %s", query, want, got)
		}
		if record := at(v, "result", "tools", want); record == nil || at(record, "source") != "mcp" {
			t.Errorf("%q: record %s", query, encode(record))
		}
	}
}

func testDescribe(t *testing.T, d *development) {
	a := newAgent(t, d.url, "default")
	ref := a.assemble()["catalog"].(string)
	for name, command := range d.servers {
		for _, tool := range ownList(t, command) {
			full := "mcp__" + name + "__" + tool.Name
			v := a.bridge(ref, "tool_describe", `{"names":["`+full+`"]}`)
			got := at(v, "result", "tools", full)
			if want := encode(decode(t, tool.InputSchema)); encode(at(got, "parameters")) != want {
				t.Errorf("%s is described with\n%s\nthe server says\n%s", full, encode(at(got, "parameters")), want)
			}
			if at(got, "description") != tool.Description {
				t.Errorf("%s: description %q, the server says %q", full, at(got, "description"), tool.Description)
			}
		}
	}
}
