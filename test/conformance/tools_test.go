package conformance

import (
	"fmt"
	"strings"
)

// Definitions that the checks publish: one visible, four deferred from two servers
// and a plugin, in the openai dialect.
const (
	terminal = `{"type":"function","function":{"name":"terminal","description":"Run a shell command.","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}`
	issue    = `{"type":"function","toolset":"mcp-github","function":{"name":"mcp__github__create_issue","description":"Open an issue in a repository.","parameters":{"type":"object","properties":{"repo":{"type":"string"},"title":{"type":"string"},"count":{"type":"integer"}},"required":["repo"]}}}`
	releases = `{"type":"function","toolset":"mcp-github","function":{"name":"mcp__github__list_releases","description":"List releases of a repository.","parameters":{"type":"object","properties":{"repo":{"type":"string"}}}}}`
	mail     = `{"type":"function","toolset":"mcp-mail","function":{"name":"mcp__mail__send_message","description":"Send an email to somebody.","parameters":{"type":"object","properties":{"to":{"type":"string"}}}}}`
	plugin   = `{"type":"function","toolset":"weather","function":{"name":"get_forecast","description":"Forecast of the weather in a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}`
)

// always makes the deferral certain, whatever the deployment's settings are.
const always = `"config":{"enabled":true},"context_length":200000,"surface":"cli"`

func request(definitions ...string) string {
	return `{"tools":[` + strings.Join(definitions, ",") + `],` + always + `}`
}

func usual() string { return request(terminal, issue, releases, mail, plugin) }

// dialects are one visible definition in each dialect, with spacing, key order and
// numbers of its own, and one deferred tool beside it; %s is where own fields go.
var dialects = map[string]struct{ visible, deferred string }{
	"openai": {
		`{"function": {"parameters": {"type":"object","properties":{"n":{"maximum":1e3,"type":"number","default":1.50}}}, "description":"Zähle bis \u00fcber 9.", "name":"count_up"}, "type":"function"}`,
		`{"type":"function","toolset":"mcp-x","function":{"name":"mcp__x__go","description":"Go somewhere.","parameters":{"type":"object"}}}`,
	},
	"responses": {
		`{"strict": false, "type":"function","name":"count_up","parameters": {"properties":{"n":{"maximum":1e3,"type":"number"}},"type":"object"},  "description":"Zähle."}`,
		`{"type":"function","toolset":"mcp-x","name":"mcp__x__go","description":"Go somewhere.","parameters":{"type":"object"}}`,
	},
	"anthropic": {
		`{"input_schema": {"properties":{"n":{"maximum":1e3,"type":"number"}},"type":"object"}, "name":"count_up","cache_control":{"type":"ephemeral"},"description":"Zähle."}`,
		`{"toolset":"mcp-x","name":"mcp__x__go","description":"Go somewhere.","input_schema":{"type":"object"}}`,
	},
	"mcp": {
		`{"title": "Count", "name":"count_up","inputSchema": {"properties":{"n":{"maximum":1e3,"type":"number"}},"type":"object"},"description":"Zähle."}`,
		`{"toolset":"mcp-x","name":"mcp__x__go","description":"Go somewhere.","inputSchema":{"type":"object"}}`,
	},
}

// call is the argument of a tool_call.
func call(entries ...string) string { return `{"calls":[` + strings.Join(entries, ",") + `]}` }

func entry(name, arguments string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)
}
