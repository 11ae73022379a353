package config

import (
	"fmt"
	"os"
	"strings"
	"time"

	"toolbridge/approval"
	"toolbridge/catalog"
	"toolbridge/connectors/mcp"
	"toolbridge/worker/call"
)

// Config is what a file says; Default holds what stands where it is silent.
type Config struct {
	ToolSearch catalog.Config // tools.tool_search
	Connectors Connectors
	Guest      bool // identity.guest and nous.guest: false when either says so. Default true

	Approvals  Approvals
	Guardrails call.Guardrails
	Hooks      []call.Hook // in the order of the file, which they are asked in
	Gateway    Gateway
	Batch      Batch
	Breaker    Breaker
	Limits     Limits
	Bus        Bus
	Servers    []mcp.ServerConfig // mcp.servers, in the order of the file
	Catalog    string             // mcp.catalog: file of the servers that users may have installed, see LoadCatalog
	Telemetry  Telemetry
}

// Connectors holds tools.connectors and the top-level section connectors.
type Connectors struct {
	Enabled    bool          // tools.connectors.enabled, or tools.connectors itself. Default true
	SearchWait time.Duration // how long an answer with local matches waits for the gateway. Default 1 s
	Batching   string        // ordered (default) or single
}

// Approvals is the section approvals.
type Approvals struct {
	Policy  approval.Policy // Dev is left to the program
	Timeout time.Duration   // default 5 min
	Wait    bool            // wait although nobody is there to decide
}

// Gateway is the section gateway.
type Gateway struct {
	URL       string // also --gateway. Unset: there are no connectors
	PortalURL string // of users' accounts; default: URL
	TokenEnv  string // name of the environment variable that holds the bearer token of users without one of their own
	ReturnTo  string // what the gateway is told about where a connection page leads back to

	Credentials GatewayCredentials

	CAFile    string // certificates that are trusted beside the system's, PEM
	Proxy     string // URL, or direct; default: HTTPS_PROXY, HTTP_PROXY and NO_PROXY
	MaxAnswer int    // bytes of one answer. Default 8 MiB

	// Time limits of one request. Default 30 s, 10 s, 60 s and 30 s.
	SearchTimeout, SchemasTimeout, ExecuteTimeout, OtherTimeout time.Duration
}

// GatewayCredentials is gateway.credentials: where users' own tokens come from. Who
// stands in several has the first.
type GatewayCredentials struct {
	Env     map[string]string // <tenant>/<user> to the name of an environment variable
	File    string            // JSON, {"<tenant>": {"<user>": "<token>"}}
	Subject bool              // ask on <prefix>.<tenant>._credentials.<user>
}

// Batch is the section batch.
type Batch struct {
	Local string // fan_out (default) or reject
}

// Breaker is the section breaker, the circuit breaker before the gateway.
type Breaker struct {
	Enabled   bool          // default true
	Threshold int           // failures in a row that open it. Default 5
	Cooldown  time.Duration // cooldown_s. Default 10 s
}

// Limits is the section limits.
type Limits struct {
	ResultChars int // longer results are kept aside and shown by a preview; 0 (default): only the server's max_payload counts
}

// Bus is the section bus. Flags and environment variables win over URL and
// Creds.
type Bus struct {
	URL           string   // default nats://127.0.0.1:4222
	Creds         string   // credentials file
	Prefix        string   // root of every subject. Default toolbridge.v1
	Replicas      int      // of streams and buckets, 1 to 5. Default 1
	ReplyPrefixes []string // beginnings of reply subjects that are answered. Default _INBOX. and _R_.

	// How calls are spread over workers; see worker.Config.
	Partitions int           // queues and journals, the same for every worker, 1 to 64. Default 1
	CallSlots  int           // calls that one worker runs at once. Default 256
	CallLease  time.Duration // how long a lost worker's calls stay with it, 1 s to 10 min. Default 30 s
}

// Default is the configuration without a file.
func Default() Config {
	return Config{
		ToolSearch: catalog.DefaultConfig(),
		Connectors: Connectors{Enabled: true, SearchWait: time.Second, Batching: "ordered"},
		Guest:      true,
		Approvals:  Approvals{Timeout: 5 * time.Minute},
		Batch:      Batch{Local: "fan_out"},
		Breaker:    Breaker{Enabled: true, Threshold: 5, Cooldown: 10 * time.Second},
		Bus:        Bus{Partitions: 1, CallSlots: 256, CallLease: 30 * time.Second},
		Telemetry:  Telemetry{Protocol: "http/protobuf", Trace: "continue"},
	}
}

// Load reads a file. The problems are warnings; faults make an *Error.
func Load(path string) (Config, []Problem, error) {
	data, err := readFile(path)
	if err != nil {
		return Default(), nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, problems := Parse(data)
	var faults, warnings []Problem
	for _, p := range problems {
		if p.Warning {
			warnings = append(warnings, p)
		} else {
			faults = append(faults, p)
		}
	}
	if len(faults) > 0 {
		return Default(), warnings, &Error{Name: path, Problems: faults}
	}
	return c, warnings, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	if info.Mode().IsRegular() && info.Size() > maxBytes {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", path, info.Size(), maxBytes)
	}
	return os.ReadFile(path)
}

// Parse reads a file's content. It returns what could be read and everything
// that is wrong with it, in the order of the file; a Problem that is no Warning
// means that the configuration must not be used.
func Parse(data []byte) (Config, []Problem) {
	c := Default()
	root, fault := parse(data)
	if fault != nil {
		return c, []Problem{*fault}
	}
	r := &reader{}
	r.mapping(root, "", c.fields(r))
	return c, r.problems
}

func (c *Config) fields(r *reader) []field {
	return []field{
		{"tools", func(n *node, key string) { r.leniently(func() { c.readTools(r, n, key) }) }},
		{"nous", func(n *node, key string) {
			r.leniently(func() { r.mapping(n, key, []field{{"guest", c.readGuest(r)}}) })
		}},
		{"identity", func(n *node, key string) { r.mapping(n, key, []field{{"guest", c.readGuest(r)}}) }},
		{"connectors", func(n *node, key string) {
			r.mapping(n, key, []field{
				{"search_wait", func(n *node, key string) { r.duration(n, key, &c.Connectors.SearchWait) }},
				{"batching", func(n *node, key string) { r.choice(n, key, &c.Connectors.Batching, "ordered", "single") }},
			})
		}},
		{"approvals", func(n *node, key string) { c.Approvals.read(r, n, key) }},
		{"guardrails", func(n *node, key string) { c.readGuardrails(r, n, key) }},
		{"gateway", func(n *node, key string) { c.Gateway.read(r, n, key) }},
		{"batch", func(n *node, key string) {
			r.mapping(n, key, []field{
				{"local", func(n *node, key string) { r.choice(n, key, &c.Batch.Local, "fan_out", "reject") }},
			})
		}},
		{"breaker", func(n *node, key string) {
			r.mapping(n, key, []field{
				{"enabled", func(n *node, key string) { r.boolean(n, key, &c.Breaker.Enabled) }},
				{"threshold", func(n *node, key string) { r.integer(n, key, &c.Breaker.Threshold, 1_000_000) }},
				{"cooldown_s", func(n *node, key string) { r.seconds(n, key, &c.Breaker.Cooldown) }},
			})
		}},
		{"limits", func(n *node, key string) {
			r.mapping(n, key, []field{
				{"result_chars", func(n *node, key string) { r.integer(n, key, &c.Limits.ResultChars, 1<<30) }},
			})
		}},
		{"bus", func(n *node, key string) { c.Bus.read(r, n, key) }},
		{"mcp", func(n *node, key string) {
			r.mapping(n, key, []field{
				{"servers", func(n *node, key string) { c.readServers(r, n, key) }},
				{"catalog", func(n *node, key string) { r.text(n, key, &c.Catalog) }},
			})
		}},
		{"hooks", func(n *node, key string) { c.readHooks(r, n, key) }},
		{"telemetry", func(n *node, key string) { c.Telemetry.read(r, n, key) }},
	}
}

func (r *reader) leniently(read func()) {
	r.lenient = true
	defer func() { r.lenient = false }()
	read()
}

func (c *Config) readGuest(r *reader) func(*node, string) {
	return func(n *node, key string) {
		if n.kind == kindNull && r.lenient {
			return
		}
		guest := true
		r.boolean(n, key, &guest)
		c.Guest = c.Guest && guest
	}
}

func (b *Bus) read(r *reader, n *node, key string) {
	r.mapping(n, key, []field{
		{"url", func(n *node, key string) { r.url(n, key, &b.URL, "nats", "tls", "ws", "wss") }},
		{"creds", func(n *node, key string) { r.text(n, key, &b.Creds) }},
		{"prefix", func(n *node, key string) { r.prefix(n, key, &b.Prefix) }},
		{"replicas", func(n *node, key string) { r.integer(n, key, &b.Replicas, 5) }},
		{"partitions", func(n *node, key string) { r.integer(n, key, &b.Partitions, 64) }},
		{"call_slots", func(n *node, key string) { r.integer(n, key, &b.CallSlots, 100_000) }},
		{"call_lease", func(n *node, key string) {
			var d time.Duration
			if r.duration(n, key, &d); d != 0 && (d < time.Second || d > 10*time.Minute) {
				r.reportf(n.line, n.column, key, "must lie between 1s and 10m, not %s", clip(n.text, 40))
				return
			}
			b.CallLease = d
		}},
		{"reply_prefixes", func(n *node, key string) {
			r.texts(n, key, &b.ReplyPrefixes)
			for i, p := range b.ReplyPrefixes {
				if !strings.HasSuffix(p, ".") {
					r.reportf(n.items[min(i, len(n.items)-1)].line, n.column, key, "%q must end with a dot: it is the beginning of a subject", clip(p, 40))
				}
			}
		}},
	})
}
