package mcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
	"toolbridge/tracing"
)

// Defaults of Config and ServerConfig.
const (
	DefaultHeartbeat      = 10 * time.Second
	DefaultBackoff        = 500 * time.Millisecond
	DefaultMaxBackoff     = 30 * time.Second
	DefaultStable         = 60 * time.Second
	DefaultPing           = 15 * time.Second
	DefaultConnectTimeout = 60 * time.Second
	DefaultListTimeout    = 60 * time.Second
	DefaultCallTimeout    = 5 * time.Minute
	DefaultCancelGrace    = 2 * time.Second
	DefaultTerminateGrace = 2 * time.Second
	DefaultFirstWorking   = 5 * time.Second
	DefaultWorking        = 10 * time.Second

	DefaultMaxConcurrent = 32
	DefaultMaxPending    = 512
	DefaultMaxTools      = 10_000
	DefaultMaxPages      = 1_000
	DefaultMaxListBytes  = 32 << 20
	DefaultMaxToolBytes  = 2 << 20
	DefaultMaxMessage    = 32 << 20
)

// maxServerName bounds a server's name in bytes: the toolset on the bus is one
// subject token, in which a byte may take three.
const maxServerName = 128

// Config is one host: the servers of one tenant, offered by one executor.
type Config struct {
	// Tenant owns the toolsets. Required.
	Tenant string
	// Servers to host. Names must differ. None is allowed.
	Servers []ServerConfig
	// Catalog are servers that users may have installed, by name. None of them runs
	// before that, and nothing else can be installed.
	Catalog []Offer
	// Chosen remembers what users had installed and enabled, so that it runs again
	// when the host does; nil: it runs until the host stops. See state.OpenServers.
	Chosen jetstream.KeyValue
	// Space builds the subjects; the zero value is the contract's prefix.
	Space subjects.Space
	// Executor is this host's token in the registry's keys. Default: random.
	// Two live hosts of a tenant must not share one.
	Executor string
	// ReplyPrefixes are the only beginnings of reply subjects that get an
	// answer. Default: subjects.ReplyPrefixes.
	ReplyPrefixes []string
	// Logger gets warnings about servers and their tools, and, at debug level,
	// what servers write to standard error. Default: slog.Default.
	Logger *slog.Logger
	// Tracer and Metrics, see package tracing; nil: none.
	Tracer  *tracing.Tracer
	Metrics *tracing.Metrics

	// Heartbeat is how often the registry keys are written again. Default 10 s;
	// the registry forgets a key after 30 s.
	Heartbeat time.Duration
	// Backoff is the first pause before a failed server is tried again; it
	// doubles up to MaxBackoff, each pause being jittered by ±50 %. Defaults
	// 0.5 s and 30 s.
	Backoff, MaxBackoff time.Duration
	// Stable is how long a connection must have held for the pause to start
	// over. Default 60 s.
	Stable time.Duration
	// FirstWorking and Working are when a running call's first and later interim
	// messages are sent. Defaults 5 s and 10 s; the contract allows at most 15 s
	// between two.
	FirstWorking, Working time.Duration
}

// Offer is one server of the operator's catalog.
type Offer struct {
	Server      ServerConfig
	Description string // for people and models
}

// ServerConfig is one MCP server, over stdio (Command) or streamable HTTP (URL).
//
// Values of Env and Headers, and URL, may refer to the environment of the host
// as ${NAME} or ${NAME:-default}; "$${" is a literal "${". Nothing in them ever
// comes from a message. A name that is not set makes the server unavailable,
// and the reason says which.
type ServerConfig struct {
	// Name makes the toolset mcp-<name> and the tools' names. Any text without
	// control characters, at most 128 bytes.
	Name string `yaml:"name"`

	// Command starts the server, Args are appended to it. In YAML, Command may
	// also be one string, split as a shell would.
	Command CommandLine `yaml:"command"`
	Args    []string    `yaml:"args"`
	// Env is set for the server beside the few variables it inherits (see
	// inherited). EnvFrom names further variables of the host that it inherits.
	Env     map[string]string `yaml:"env"`
	EnvFrom []string          `yaml:"env_from"`
	// Dir is the server's working directory. Default: the host's.
	Dir string `yaml:"dir"`

	// URL of a streamable HTTP endpoint, and headers sent to it (never to where
	// it redirects).
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`

	// Disabled keeps the server from being connected until somebody enables it with
	// manage_connections.
	Disabled bool `yaml:"disabled"`

	// Trusted says that the hints of the server's tools may ease approvals,
	// lanes and repeats.
	Trusted bool `yaml:"trusted"`
	// SupportsParallelToolCalls says that its tools may run side by side within
	// one batch; it becomes "parallel" of every definition. Without it one batch
	// runs them one after another; calls of different batches and sessions may
	// still overlap. MaxConcurrent: 1 excludes that too.
	SupportsParallelToolCalls bool `yaml:"supports_parallel_tool_calls"`

	// Timeout bounds one call, besides the deadline that comes with it.
	// Default: 5 minutes where the call has no deadline.
	Timeout time.Duration `yaml:"timeout"`
	// ConnectTimeout bounds starting or dialling the server and initialize.
	// Default 60 s: a first start may have to download the server.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// ListTimeout bounds reading all pages of tools/list. Default 60 s.
	ListTimeout time.Duration `yaml:"list_timeout"`
	// CancelGrace is how long a cancelled or timed-out call may still answer:
	// an error then confirms the cancel, a result is the result. Default 2 s:
	// workers wait 3 s for that answer.
	CancelGrace time.Duration `yaml:"cancel_grace"`
	// TerminateGrace is how long the processes get after the end of their input,
	// and again after SIGTERM. Default 2 s.
	TerminateGrace time.Duration `yaml:"terminate_grace"`
	// Ping is how often an HTTP server is asked whether it is there. Default
	// 15 s, negative: never.
	Ping time.Duration `yaml:"ping"`

	// MaxConcurrent is how many calls run at once, default 32; MaxPending how
	// many more may wait for their turn, default 512.
	MaxConcurrent int `yaml:"max_concurrent"`
	MaxPending    int `yaml:"max_pending"`
	// MaxTools, MaxPages and MaxListBytes bound tools/list (10,000 tools, 1,000
	// pages, 32 MiB); MaxToolBytes one definition (2 MiB); MaxMessage one message
	// of the server (32 MiB).
	MaxTools     int `yaml:"max_tools"`
	MaxPages     int `yaml:"max_pages"`
	MaxListBytes int `yaml:"max_list_bytes"`
	MaxToolBytes int `yaml:"max_tool_bytes"`
	MaxMessage   int `yaml:"max_message"`
}

// CommandLine is a program and its arguments. In YAML it is a list, or one
// string that is split as a shell would.
type CommandLine []string

// UnmarshalYAML takes a list or a string.
func (c *CommandLine) UnmarshalYAML(unmarshal func(any) error) error {
	var list []string
	if err := unmarshal(&list); err == nil {
		*c = list
		return nil
	}
	var line string
	if err := unmarshal(&line); err != nil {
		return errors.New("command must be a string or a list of strings")
	}
	words, err := SplitCommand(line)
	if err != nil {
		return fmt.Errorf("command %q: %w", line, err)
	}
	*c = words
	return nil
}

// Toolset is the toolset of the server's tools, mcp-<name>.
func (s ServerConfig) Toolset() string { return "mcp-" + s.Name }

// Check reports what is wrong with the configuration of one server.
func (s ServerConfig) Check() error {
	if err := checkServerName(s.Name); err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("MCP server %q: "+format, append([]any{s.Name}, args...)...)
	}
	switch {
	case len(s.Command) == 0 && s.URL == "":
		return fail("neither command nor url is given")
	case len(s.Command) > 0 && s.URL != "":
		return fail("both command and url are given; it needs one of them")
	case len(s.Command) == 0 && len(s.Args) > 0:
		return fail("args are given without command")
	case len(s.Command) > 0 && s.Command[0] == "":
		return fail("the command is empty")
	case s.URL == "" && len(s.Headers) > 0:
		return fail("headers are given without url")
	case s.URL != "" && (len(s.Env) > 0 || len(s.EnvFrom) > 0):
		return fail("env is given, but a server behind a url gets no environment; use headers")
	}
	if s.URL != "" && !strings.Contains(s.URL, "${") {
		if err := checkURL(s.URL); err != nil {
			return fail("%w", err)
		}
	}
	for name := range s.Env {
		if !validVariable(name) {
			return fail("env: %q is not a variable's name", name)
		}
	}
	for _, name := range s.EnvFrom {
		if !validVariable(name) {
			return fail("env_from: %q is not a variable's name", name)
		}
	}
	for name, d := range map[string]time.Duration{
		"timeout": s.Timeout, "connect_timeout": s.ConnectTimeout, "list_timeout": s.ListTimeout,
		"cancel_grace": s.CancelGrace, "terminate_grace": s.TerminateGrace,
	} {
		if d < 0 {
			return fail("%s is negative", name)
		}
	}
	for name, n := range map[string]int{
		"max_concurrent": s.MaxConcurrent, "max_pending": s.MaxPending, "max_tools": s.MaxTools, "max_pages": s.MaxPages,
		"max_list_bytes": s.MaxListBytes, "max_tool_bytes": s.MaxToolBytes, "max_message": s.MaxMessage,
	} {
		if n < 0 {
			return fail("%s is negative", name)
		}
	}
	return nil
}

func checkServerName(name string) error {
	switch {
	case name == "":
		return errors.New("MCP server without a name")
	case len(name) > maxServerName:
		return fmt.Errorf("MCP server %q: the name is %d bytes long; at most %d", cut(name, 40), len(name), maxServerName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("MCP server %q: the name has control characters or invalid UTF-8", name)
	}
	return nil
}

func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("url must be http://host… or https://host…")
	}
	return nil
}

func (s ServerConfig) withDefaults() ServerConfig {
	s.Command = append(slices.Clone(s.Command), s.Args...)
	s.Args = nil
	def(&s.ConnectTimeout, DefaultConnectTimeout)
	def(&s.ListTimeout, DefaultListTimeout)
	def(&s.CancelGrace, DefaultCancelGrace)
	def(&s.TerminateGrace, DefaultTerminateGrace)
	def(&s.Ping, DefaultPing)
	def(&s.MaxConcurrent, DefaultMaxConcurrent)
	def(&s.MaxPending, DefaultMaxPending)
	def(&s.MaxTools, DefaultMaxTools)
	def(&s.MaxPages, DefaultMaxPages)
	def(&s.MaxListBytes, DefaultMaxListBytes)
	def(&s.MaxToolBytes, DefaultMaxToolBytes)
	def(&s.MaxMessage, DefaultMaxMessage)
	return s
}

// check reports what is wrong with the configuration; withDefaults fills it in.
func (c Config) check() error {
	if err := subjects.CheckToken("tenant", c.Tenant); err != nil {
		return err
	}
	if c.Executor != "" {
		if err := subjects.CheckToken("executor", c.Executor); err != nil {
			return err
		}
	}
	var errs []error
	seen := make(map[string]bool, len(c.Servers))
	for _, s := range c.Servers {
		if err := s.Check(); err != nil {
			errs = append(errs, err)
			continue
		}
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("MCP server %q is configured twice", s.Name))
		}
		seen[s.Name] = true
	}
	for _, o := range c.Catalog {
		if err := o.Server.Check(); err != nil {
			errs = append(errs, fmt.Errorf("catalog: %w", err))
		}
		if seen[o.Server.Name] {
			errs = append(errs, fmt.Errorf("MCP server %q of the catalog is configured already, or stands there twice", o.Server.Name))
		}
		seen[o.Server.Name] = true
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults(random string) Config {
	def(&c.Executor, random)
	if c.ReplyPrefixes == nil {
		c.ReplyPrefixes = subjects.ReplyPrefixes()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	def(&c.Heartbeat, DefaultHeartbeat)
	def(&c.Backoff, DefaultBackoff)
	def(&c.MaxBackoff, DefaultMaxBackoff)
	def(&c.Stable, DefaultStable)
	def(&c.FirstWorking, DefaultFirstWorking)
	def(&c.Working, DefaultWorking)
	servers := make([]ServerConfig, len(c.Servers))
	for i, s := range c.Servers {
		servers[i] = s.withDefaults()
	}
	c.Servers = servers
	catalog := make([]Offer, len(c.Catalog))
	for i, o := range c.Catalog {
		catalog[i] = Offer{o.Server.withDefaults(), o.Description}
	}
	c.Catalog = catalog
	return c
}

func def[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}
