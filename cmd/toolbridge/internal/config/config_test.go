package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"toolbridge/approval"
	"toolbridge/catalog"
	"toolbridge/connectors/mcp"
)

func faultsAndWarnings(problems []Problem) (faults, warnings []string) {
	for _, p := range problems {
		if p.Warning {
			warnings = append(warnings, p.String())
		} else {
			faults = append(faults, p.String())
		}
	}
	return faults, warnings
}

func TestEmptyFilesGiveTheDefaults(t *testing.T) {
	for name, data := range map[string]string{
		"nothing": "", "comments": "# nothing\n", "null": "~\n", "separator": "---\n",
		"empty sections": "tools:\nnous:\nidentity:\nconnectors:\napprovals:\nguardrails:\ngateway:\nbatch:\nbreaker:\nhooks:\nlimits:\ntelemetry:\nbus:\nmcp:\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, problems := Parse([]byte(data))
			if len(problems) != 0 {
				t.Fatalf("problems: %v", problems)
			}
			if diff := cmp.Diff(Default(), c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheFileOfTheBusContractIsAccepted(t *testing.T) {
	c, problems := Parse([]byte(`tools:
  tool_search: {enabled: auto, threshold_pct: 5, search_default_limit: 5, max_search_limit: 25,
                listing: auto, listing_max_tokens: 4000, defer: [computer_use, show_tip],
                ranking: standard, near_matches: auto}
  connectors: {enabled: true}
nous: {guest: true}
approvals:
  default: allow
  timeout: 5m
  wait: false
  rules:
    - {match: "mcp__bank__pay*", action: ask}
guardrails: {rate: off, repeat: off}
gateway:
  url: https://gateway.example
  token_env: TOOLBRIDGE_GATEWAY_TOKEN
batch: {local: fan_out}
connectors: {search_wait: 1s, batching: single}
identity: {guest: false}
breaker: {threshold: 5, cooldown_s: 10, enabled: true}
limits: {result_chars: 100000}
bus: {url: "nats://a:4222,nats://b:4222", creds: /etc/toolbridge.creds, prefix: acme.tools, replicas: 3, reply_prefixes: [_INBOX., _INBOX_agents.], partitions: 4, call_slots: 64, call_lease: 20s}
mcp:
  servers:
    everything: {command: [npx, -y, "@modelcontextprotocol/server-everything"], env: {A: "${A}", N: 5}, trusted: true, supports_parallel_tool_calls: yes}
    docs: {url: "https://docs.example/mcp", headers: {Authorization: "Bearer ${TOKEN}"}}
telemetry: {endpoint: "http://collector:4317", protocol: grpc, trace: link, content: on, metrics: ":9464", log_level: debug}
`))
	if len(problems) != 0 {
		t.Fatalf("problems: %v", problems)
	}
	want := Config{
		ToolSearch: catalog.Config{
			Enabled: catalog.Auto, ThresholdPct: 5, SearchDefaultLimit: 5, MaxSearchLimit: 25, Listing: catalog.Auto,
			ListingMaxTokens: 4000, Defer: []string{"computer_use", "show_tip"}, NearMatches: catalog.Auto,
		},
		Connectors: Connectors{Enabled: true, SearchWait: time.Second, Batching: "single"},
		Guest:      false,
		Approvals: Approvals{
			Policy:  approval.Policy{Default: approval.Allow, Rules: []approval.Rule{{Match: "mcp__bank__pay*", Action: approval.Ask}}},
			Timeout: 5 * time.Minute,
		},
		Gateway: Gateway{URL: "https://gateway.example", TokenEnv: "TOOLBRIDGE_GATEWAY_TOKEN"},
		Batch:   Batch{Local: "fan_out"},
		Breaker: Breaker{Enabled: true, Threshold: 5, Cooldown: 10 * time.Second},
		Limits:  Limits{ResultChars: 100000},
		Telemetry: Telemetry{
			Endpoint: "http://collector:4317", Protocol: "grpc", Trace: "link", Content: true, Metrics: ":9464", LogLevel: "debug",
		},
		Bus: Bus{
			URL: "nats://a:4222,nats://b:4222", Creds: "/etc/toolbridge.creds", Prefix: "acme.tools", Replicas: 3,
			ReplyPrefixes: []string{"_INBOX.", "_INBOX_agents."},
			Partitions:    4, CallSlots: 64, CallLease: 20 * time.Second,
		},
		Servers: []mcp.ServerConfig{
			{
				Name: "everything", Command: []string{"npx", "-y", "@modelcontextprotocol/server-everything"},
				Env: map[string]string{"A": "${A}", "N": "5"}, Trusted: true, SupportsParallelToolCalls: true,
			},
			{Name: "docs", URL: "https://docs.example/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}},
		},
	}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestFaultsStopTheProgramWithLineKeyAndNearestKey(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"unknown section", "tools: {}\napprovalls: {}\n", `line 2: unknown key "approvalls": did you mean "approvals"?`},
		{"unknown section, nothing alike", "quux_quux: 1\n", `line 1: unknown key "quux_quux": the nearest known key is`},
		{"unknown key in a section", "breaker:\n  treshold: 3\n", `line 2: breaker: unknown key "treshold": did you mean "threshold"?`},
		{"other case and dashes", "bus: {Reply-Prefixes: []}", `did you mean "reply_prefixes"?`},
		{"unknown key among few", "telemetry: {audit: x}", `line 1: telemetry: unknown key "audit": the nearest known key is "endpoint"`},
		{"telemetry's endpoint", "telemetry: {endpoint: 'collector:4317'}", `line 1: telemetry.endpoint: an address that begins with http:// or https:// is expected`},
		{"telemetry's trace", "telemetry:\n  trace: both\n", `line 2: telemetry.trace`},
		{"telemetry's content", "telemetry: {content: maybe}", `line 1: telemetry.content`},
		{"telemetry's address", "telemetry: {metrics: 9464}", `line 1: telemetry.metrics`},
		{"telemetry's port", "telemetry: {metrics: 'localhost:http'}", `line 1: telemetry.metrics: an address HOST:PORT is expected`},
		{"telemetry's level", "telemetry: {log_level: loud}", `line 1: telemetry.log_level`},
		{"section of the wrong type", "batch: 5\n", `line 1: batch: a mapping is expected, not the number 5`},
		{"section is a list", "\napprovals:\n  - x\n", `line 3: approvals: a mapping is expected, not a list`},
		{"the file is no mapping", "- a\n", `line 1: a mapping is expected, not a list`},
		{"duration without unit", "approvals:\n  timeout: 5\n", `line 2: approvals.timeout: a duration needs its unit: write 5s`},
		{"duration not readable", "approvals:\n  timeout: 5 minutes\n", `line 2: approvals.timeout: a duration such as 500ms, 5s or 5m is expected, not the text "5 minutes"`},
		{"duration of zero", "connectors: {search_wait: 0s}", `line 1: connectors.search_wait: must be more than zero, not 0s`},
		{"negative duration", "connectors: {search_wait: -1s}", `must be more than zero, not -1s`},
		{"endless duration", "connectors: {search_wait: 99999h}", `must lie between 1ms and 8760h`},
		{"duration is a list", "connectors: {search_wait: [1]}", `a duration such as 500ms, 5s or 5m is expected, not a list`},
		{"boolean", "approvals: {wait: \"yes\"}", `line 1: approvals.wait: true or false is expected, not the text "yes"`},
		{"word", "batch: {local: fanout}", `line 1: batch.local: one of fan_out, reject is expected, not the text "fanout"`},
		{"a key without value", "batch: {local: }", `batch.local: one of fan_out, reject is expected, not nothing`},
		{"rule without action", "approvals:\n  rules:\n    - match: x\n", `line 3: approvals.rules[0]: the rule has no action`},
		{"rule with an unknown key", "approvals:\n  rules:\n    - {mach: x, action: ask}\n", `line 3: approvals.rules[0]: unknown key "mach": did you mean "match"?`},
		{"pattern", "approvals: {rules: [{arguments: \"a(b\", action: ask}]}", `line 1: approvals.rules[0].arguments: not a regular expression: missing closing )`},
		{"rules is a mapping", "approvals: {rules: {a: b}}", `a list of rules is expected`},
		{"rate", "guardrails: {rate: 60}", `line 1: guardrails.rate: off, or calls per time such as 60/m (s, m, h) is expected`},
		{"repeat", "guardrails: {repeat: 0}", `line 1: guardrails.repeat: must be 1 or more, not 0`},
		{"token in place of its variable", "gateway: {token_env: \"abc def\"}", `the name of an environment variable is expected`},
		{"password in the gateway's address", "gateway: {url: \"https://u:secret@gateway.example\"}", `line 1: gateway.url: must hold neither user name nor password`},
		{"query in the gateway's address", "gateway: {portal_url: \"https://gateway.example?token=x\"}", `gateway.portal_url: must have neither query nor fragment`},
		{"whose token", "gateway: {credentials: {env: {ada: ADA_TOKEN}}}", `gateway.credentials.env.ada: the key must be <tenant>/<user>`},
		{"token in place of a user's variable", "gateway: {credentials: {env: {acme/ada: \"abc def\"}}}", `gateway.credentials.env.acme/ada: the name of an environment variable is expected`},
		{"a proxy", "gateway: {proxy: gateway.example}", `gateway.proxy: an address that begins with http://`},
		{"a time limit", "gateway: {timeouts: {execute: 60}}", `gateway.timeouts.execute: a duration needs its unit`},
		{"address", "gateway: {url: gateway.example}", `line 1: gateway.url: an address that begins with https:// or http:// is expected`},
		{"nats address", "bus: {url: \"http://x\"}", `line 1: bus.url: an address that begins with nats://`},
		{"prefix", "bus: {prefix: \"a b\"}", `line 1: bus.prefix: subject prefix`},
		{"reply prefix", "bus: {reply_prefixes: [_INBOX]}", `must end with a dot`},
		{"replicas", "bus: {replicas: 9}", `bus.replicas: must be 5 or less, not 9`},
		{"partitions", "bus: {partitions: 65}", `bus.partitions: must be 64 or less, not 65`},
		{"call slots", "bus: {call_slots: 0}", `bus.call_slots: must be 1 or more, not 0`},
		{"call lease", "bus: {call_lease: 100ms}", `bus.call_lease: must lie between 1s and 10m, not 100ms`},
		{"call lease without unit", "bus: {call_lease: 30}", `bus.call_lease: a duration needs its unit: write 30s`},
		{"fraction", "bus: {replicas: 1.5}", `bus.replicas: a whole number is expected, not the number 1.5`},
		{"huge number", "bus: {replicas: 99999999999999999999999}", `must be 5 or less`},
		{"duplicate key", "batch: {local: reject}\nbatch: {local: reject}\n", `line 2: batch: the key stands here for the second time, first in line 1`},
		{"server with nothing", "mcp:\n  servers:\n    a:\n", `line 3: mcp.servers.a: a server needs command or url`},
		{"server with both", "mcp: {servers: {a: {command: [x], url: \"http://x\"}}}", `both command and url are given`},
		{"command that is open", "mcp: {servers: {a: {command: \"npx 'foo\"}}}", `mcp.servers.a.command: the single quote`},
		{"command without a program", "mcp: {servers: {a: {command: []}}}", `the first item of the list is the program`},
		{"server with an unknown key", "mcp:\n  servers:\n    a:\n      comand: [x]\n", `line 4: mcp.servers.a: unknown key "comand": did you mean "command"?`},
		{"server twice", "mcp: {servers: {a: {command: [x]}, a: {command: [y]}}}", `mcp.servers.a: the server stands here for the second time`},
		{"server with headers and command", "mcp: {servers: {a: {command: [x], headers: {B: c}}}}", `headers are given without url`},
		{"header that splits", "mcp: {servers: {a: {url: \"http://x\", headers: {B: \"c\\nd\"}}}}", `must be one line`},
		{"not YAML", "a: [1\n", `line 1: not readable as YAML: `},
		{"not YAML, later line", "batch: {}\n  x: 1\n", `line 2: not readable as YAML: `},
		{"not text", "a: \xff\n", `line 1: the file is not UTF-8 text`},
		{"two documents", "batch: {}\n---\nbatch: {}\n", `line 3: a second document begins here`},
		{"alias without anchor", "batch: *a\n", `line 1: alias *a has no anchor before it`},
		{"too deep", strings.Repeat("[", 100_000), `nested more than 64 deep`},
		{"too deep in dashes", strings.Repeat("- ", 100_000), `nested more than 64 deep`},
		{"too long", strings.Repeat("# x\n", 100_000), `at most 262144 are read`},
		{"aliases that grow", "a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\n", `more than 20000 values once aliases are expanded`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Parse([]byte(tt.file))
			faults, _ := faultsAndWarnings(problems)
			if !strings.Contains(strings.Join(faults, "\n"), tt.want) {
				t.Errorf("faults:\n%s\nwant one with:\n%s", strings.Join(faults, "\n"), tt.want)
			}
		})
	}
}

func TestOneFaultDoesNotHideTheOthers(t *testing.T) {
	_, problems := Parse([]byte("batch: 1\nbreaker:\n  threshold: -1\n  cooldown_s: 0\nmcp:\n  servers:\n    a: {}\n    b: 3\n"))
	faults, _ := faultsAndWarnings(problems)
	if len(faults) != 5 {
		t.Errorf("want 5 faults, got:\n%s", strings.Join(faults, "\n"))
	}
}

func TestFaultsUnderToolsAndNousAreWarningsAndTheDefaultIsUsed(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"unknown key of tools", "tools:\n  tool_serch: {}\n", `line 2: tools: unknown key "tool_serch": did you mean "tool_search"?`},
		{"tools of the wrong type", "tools: 5\n", `line 1: tools: a mapping is expected`},
		{"unknown key of tool_search", "tools:\n  tool_search:\n    treshold_pct: 7\n", `line 3: tools.tool_search: unknown key "treshold_pct": did you mean "threshold_pct"?`},
		{"connectors malformed", "tools: {connectors: [1]}", `line 1: tools.connectors: is [1], but must be true, false or a mapping with enabled`},
		{"connectors with an unknown key", "tools: {connectors: {enable: false}}", `did you mean "enabled"?`},
		{"nous of the wrong type", "nous: maybe", `line 1: nous: a mapping is expected`},
		{"guest of the wrong type", "nous: {guest: 3}", `line 1: nous.guest: true or false is expected`},
		{"unknown key of nous", "nous: {gest: true}", `did you mean "guest"?`},
		{"duplicate", "nous: {guest: true, guest: true}", `the key stands here for the second time`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, problems := Parse([]byte(tt.file))
			faults, warnings := faultsAndWarnings(problems)
			if len(faults) > 0 {
				t.Fatalf("faults: %v", faults)
			}
			if !strings.Contains(strings.Join(warnings, "\n"), tt.want) {
				t.Errorf("warnings:\n%s\nwant one with:\n%s", strings.Join(warnings, "\n"), tt.want)
			}
			if !c.Guest || !c.Connectors.Enabled {
				t.Errorf("a wrong value changed a default: %+v", c)
			}
		})
	}
}

// Case F03: YAML's words for true and false must neither crash nor turn into
// something else on their way to tool search.
func TestF03SwitchesUnderstandTheWordsOfYAML11(t *testing.T) {
	for written, want := range map[string]catalog.Switch{
		"false": catalog.Off, "off": catalog.Off, "OFF": catalog.Off, "Off": catalog.Off, "no": catalog.Off,
		"0": catalog.Off, `"0"`: catalog.Off, `"off"`: catalog.Off, "'no'": catalog.Off,
		"true": catalog.On, "on": catalog.On, "yes": catalog.On, "YES": catalog.On, "1": catalog.On,
		"auto": catalog.Auto, "null": catalog.Auto, "": catalog.Auto, "~": catalog.Auto, "maybe": catalog.Auto, "{}": catalog.Auto,
	} {
		for _, key := range []string{"enabled", "listing", "near_matches"} {
			c, problems := Parse([]byte("tools:\n  tool_search:\n    " + key + ": " + written + "\n"))
			faults, warnings := faultsAndWarnings(problems)
			if wrong := written == "maybe" || written == "{}"; len(faults) > 0 || (len(warnings) == 1) != wrong {
				t.Errorf("%s: %s: faults %q, warnings %q", key, written, faults, warnings)
			}
			got := map[string]catalog.Switch{"enabled": c.ToolSearch.Enabled, "listing": c.ToolSearch.Listing, "near_matches": c.ToolSearch.NearMatches}[key]
			if got != want {
				t.Errorf("%s: %s = %s, want %s", key, written, got, want)
			}
		}
	}
	for written, want := range map[string]catalog.Switch{"off": catalog.Off, "false": catalog.Off, "on": catalog.Auto, "true": catalog.Auto, "": catalog.Auto, "5": catalog.Auto, "[]": catalog.Auto} {
		if c, _ := Parse([]byte("tools:\n  tool_search: " + written + "\n")); c.ToolSearch.Enabled != want {
			t.Errorf("the whole section %q: enabled = %s, want %s", written, c.ToolSearch.Enabled, want)
		}
	}
}

// Case F04: numbers out of range are clamped, and what is no number falls back,
// each by itself; both with a word on it.
func TestF04NumbersAreClampedOneByOne(t *testing.T) {
	c, problems := Parse([]byte("tools:\n  tool_search:\n    max_search_limit: 500\n    search_default_limit: \"9\"\n    threshold_pct: x\n    listing_max_tokens: 1\n"))
	want := catalog.DefaultConfig()
	want.MaxSearchLimit, want.SearchDefaultLimit, want.ListingMaxTokens = 50, 9, 200
	if diff := cmp.Diff(want, c.ToolSearch); diff != "" {
		t.Error(diff)
	}
	_, warnings := faultsAndWarnings(problems)
	for i, start := range []string{"line 3: tools.tool_search.max_search_limit: ", "line 5: tools.tool_search.threshold_pct: ", "line 6: tools.tool_search.listing_max_tokens: "} {
		if len(warnings) != 3 || !strings.HasPrefix(warnings[i], start) {
			t.Errorf("warnings %q, want %d to begin with %q", warnings, i, start)
		}
	}
}

func TestValuesBecomeJSONAsTheyAreWritten(t *testing.T) {
	for written, want := range map[string]string{
		"5": "5", "5.50": "5.50", "1e2": "1e2", "123456789012345678901234567890": "123456789012345678901234567890",
		"0x1F": "31", "1_000": "1000", "+5": "5", "0o17": "15", ".nan": `"nan"`, "-.inf": `"-inf"`,
		`"5"`: `"5"`, "8.5 tokens": `"8.5 tokens"`, "'<&é'": `"<&é"`, "!!str 5": `"5"`,
		"[a, 1, off, null, [x]]": `["a",1,false,null,["x"]]`,
		"{b: 1, a: 2, b: 3}":     `{"a":2,"b":3}`,
		"|\n      a\n      b\n":  `"a\nb\n"`,
	} {
		t.Run(written, func(t *testing.T) {
			root, fault := parse([]byte("k: " + written + "\n"))
			if fault != nil {
				t.Fatal(fault)
			}
			if got := string(root.member("k").json()); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestConnectorsCanBeSwitchedOffInEverySpelling(t *testing.T) {
	for written, want := range map[string]bool{
		"false": false, "off": false, "no": false, "{enabled: off}": false, `{enabled: "FALSE "}`: false, `{enabled: "0"}`: false, `{enabled: ""}`: false, "{enabled: 0.0}": false,
		"true": true, "on": true, "{}": true, "null": true, `{enabled: "yes"}`: true, "{enabled: null}": true, "{enabled: 1}": true, "{enabled: -1}": true,
	} {
		t.Run(written, func(t *testing.T) {
			c, problems := Parse([]byte("tools: {connectors: " + written + "}"))
			if len(problems) != 0 {
				t.Fatalf("problems: %v", problems)
			}
			if c.Connectors.Enabled != want {
				t.Errorf("enabled = %v, want %v", c.Connectors.Enabled, want)
			}
		})
	}
}

func TestGuestIsRefusedWhenEitherKeySaysSo(t *testing.T) {
	for file, want := range map[string]bool{
		"nous: {guest: no}":                           false,
		"identity: {guest: false}\nnous: {guest: on}": false,
		"nous: {guest: false}\nidentity: {guest: on}": false,
		"identity: {guest: true}":                     true,
	} {
		if c, problems := Parse([]byte(file)); c.Guest != want || len(problems) != 0 {
			t.Errorf("%q: guest = %v, problems %v; want %v", file, c.Guest, problems, want)
		}
	}
}

// Case F05: the breaker's threshold, cooldown and switch are settings; zero and
// negative values are refused with a message.
func TestF05BreakerIsConfigurable(t *testing.T) {
	c, problems := Parse([]byte("breaker: {threshold: 7, cooldown_s: 2.5, enabled: off}"))
	if len(problems) != 0 {
		t.Fatalf("problems: %v", problems)
	}
	if diff := cmp.Diff(Breaker{Threshold: 7, Cooldown: 2500 * time.Millisecond}, c.Breaker); diff != "" {
		t.Error(diff)
	}
	for _, key := range []string{"threshold", "cooldown_s"} {
		for _, value := range []string{"0", "-1", "-0", "-99999999999999999999"} {
			_, problems := Parse([]byte("breaker:\n  " + key + ": " + value + "\n"))
			faults, _ := faultsAndWarnings(problems)
			if len(faults) != 1 || !strings.Contains(faults[0], "line 2: breaker."+key+": must be ") {
				t.Errorf("%s: %s: faults %q", key, value, faults)
			}
		}
		_, problems := Parse([]byte("breaker: {" + key + ": x}"))
		if faults, _ := faultsAndWarnings(problems); len(faults) != 1 {
			t.Errorf("%s: x: faults %q", key, faults)
		}
	}
}

func TestAnchorsAndMergesAreResolved(t *testing.T) {
	c, problems := Parse([]byte(`mcp:
  servers:
    one: &base {command: [x], trusted: true}
    two:
      <<: *base
      command: [y]
`))
	if len(problems) != 0 {
		t.Fatalf("problems: %v", problems)
	}
	if len(c.Servers) != 2 || !c.Servers[1].Trusted || c.Servers[1].Command[0] != "y" {
		t.Errorf("servers = %+v", c.Servers)
	}
}

func TestServersKeepReferencesToTheEnvironment(t *testing.T) {
	c, problems := Parse([]byte("mcp: {servers: {a: {command: \"npx -y 'a b'\", args: [1, on], env: {K: \"${SECRET}\"}, env_from: [HOME], timeout: 10s, ping: off, max_tools: 5}}}"))
	if len(problems) != 0 {
		t.Fatalf("problems: %v", problems)
	}
	want := []mcp.ServerConfig{{
		Name: "a", Command: mcp.CommandLine{"npx", "-y", "a b"}, Args: []string{"1", "on"}, Env: map[string]string{"K": "${SECRET}"},
		EnvFrom: []string{"HOME"}, Timeout: 10 * time.Second, Ping: -1, MaxTools: 5,
	}}
	if diff := cmp.Diff(want, c.Servers); diff != "" {
		t.Error(diff)
	}
}

func TestLoadTellsFaultsFromWarnings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolbridge.yaml")
	write(t, path, "nous: 1\nbatch: {local: reject}\n")
	c, warnings, err := Load(path)
	if err != nil || len(warnings) != 1 || c.Batch.Local != "reject" {
		t.Errorf("%+v, %v, %v", c.Batch, warnings, err)
	}
	write(t, path, "nous: 1\nbatch: 1\n")
	_, warnings, err = Load(path)
	var faults *Error
	if !errors.As(err, &faults) || len(faults.Problems) != 1 || len(warnings) != 1 || !strings.HasPrefix(err.Error(), path+": line 2: batch: ") {
		t.Errorf("%v, %v", warnings, err)
	}
	if _, _, err = Load(path + "x"); err == nil || !strings.Contains(err.Error(), "reading the configuration") {
		t.Errorf("a missing file: %v", err)
	}
	if _, _, err = Load(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheExampleFileHoldsTheDefaults(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "deploy", "toolbridge.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, problems := Parse(data)
	if len(problems) != 0 {
		t.Errorf("problems: %v", problems)
	}
	want := Default()
	want.Bus.URL, want.Bus.Prefix, want.Bus.Replicas, want.Bus.ReplyPrefixes = "nats://127.0.0.1:4222", "toolbridge.v1", 1, []string{"_INBOX.", "_R_."}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}

	// Settings that are commented out are right, too: "#" or "#  " before them,
	// where prose has "# ".
	var all []string
	for line := range strings.Lines(string(data)) {
		before, rest, found := strings.Cut(strings.TrimRight(line, "\n"), "#")
		prose := strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "  ") || rest == ""
		switch {
		case strings.TrimSpace(line) == "servers: {}": // stands below
		case strings.TrimSpace(line) == "rules: []":
			all = append(all, "  rules:")
		case found && strings.TrimSpace(before) == "" && !prose:
			all = append(all, before+rest)
		default:
			all = append(all, strings.TrimRight(line, "\n"))
		}
	}
	c, problems = Parse([]byte(strings.Join(all, "\n") + "\n"))
	if len(problems) != 0 {
		t.Errorf("with what is commented out: %v\n%s", problems, strings.Join(all, "\n"))
	}
	if len(c.Servers) != 2 || len(c.Approvals.Policy.Rules) != 3 || c.Gateway.URL == "" || c.Gateway.Credentials.File == "" || !c.Gateway.Credentials.Subject || len(c.Gateway.Credentials.Env) != 1 || c.Limits.ResultChars == 0 {
		t.Errorf("what is commented out was not read: %+v", c)
	}
}
