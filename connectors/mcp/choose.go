package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// chooser does what users ask for with manage_connections: it installs servers of the
// catalog, enables configured ones, and connects them again. Requests bring names
// only; what is run stands in the operator's configuration and catalog.
type chooser struct {
	host *Host

	mu      sync.Mutex
	subs    []*nats.Subscription
	stopped bool
	work    sync.WaitGroup
	at      chan struct{} // bounds the requests in work
}

const (
	maxChoosing   = 16
	chooseWithin  = 10 * time.Second
	maxToolsShown = 1000
	shownChars    = 160 // of a tool's description
	aliveWithin   = 3 * time.Second
)

func newChooser(h *Host) chooser { return chooser{host: h, at: make(chan struct{}, maxChoosing)} }

// start takes requests. All hosts of a tenant hear a list; the rest names its host.
func (c *chooser) start() error {
	space, tenant := c.host.cfg.Space, c.host.cfg.Tenant
	for _, subject := range []string{space.MCPList(tenant), space.MCPManage(tenant, c.host.cfg.Executor)} {
		sub, err := c.host.nc.Subscribe(subject, c.on)
		if err != nil {
			c.stop()
			return fmt.Errorf("subscribing to %s: %w", subject, err)
		}
		c.mu.Lock()
		c.subs = append(c.subs, sub)
		c.mu.Unlock()
	}
	return nil
}

// stop takes no more requests and waits for those in work.
func (c *chooser) stop() {
	c.mu.Lock()
	c.stopped = true
	for _, sub := range c.subs {
		_ = sub.Unsubscribe()
	}
	c.mu.Unlock()
	c.work.Wait()
}

func (c *chooser) on(msg *nats.Msg) {
	log := c.host.cfg.Logger
	if !subjects.ReplyAllowed(msg.Reply, c.host.cfg.ReplyPrefixes) {
		log.Debug("dropped a request whose reply subject is not allowed", "reply", cut(msg.Reply, 200))
		return
	}
	if kind := msg.Header.Get(subjects.HeaderKind); kind != "" && kind != subjects.KindExec {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	select {
	case c.at <- struct{}{}:
	default:
		c.reply(msg, nil, subjects.NewError(subjects.CodeBusy, "this host has enough of such requests in work"))
		return
	}
	c.work.Go(func() {
		defer func() { <-c.at }()
		ctx, cancel := context.WithTimeout(context.Background(), chooseWithin)
		defer cancel()
		var r subjects.MCPRequest
		err := subjects.Decode(msg.Data, &r)
		if err == nil && (r.Action == subjects.MCPList) != strings.HasSuffix(msg.Subject, ".list") {
			err = subjects.NewError(subjects.CodeBadRequest, "list goes to every host, the other actions to one")
		}
		if err != nil {
			c.reply(msg, nil, err)
			return
		}
		servers, err := c.do(ctx, r)
		c.reply(msg, servers, err)
	})
}

func (c *chooser) reply(msg *nats.Msg, servers []subjects.ManagedMCP, err error) {
	header := nats.Header{subjects.HeaderKind: {subjects.KindReply}}
	var body []byte
	if err != nil {
		e := subjects.ErrorOf(err)
		for name, v := range e.Header() {
			header[name] = v
		}
		body, err = subjects.Encode(subjects.ErrorReply{Error: e})
	} else {
		body, err = subjects.Encode(subjects.MCPReply{Executor: c.host.cfg.Executor, Servers: servers})
	}
	if err == nil {
		err = c.host.nc.PublishMsg(&nats.Msg{Subject: msg.Reply, Data: body, Header: header})
	}
	if err != nil {
		c.host.cfg.Logger.Debug("an answer was not sent", "error", err)
	}
}

func (c *chooser) do(ctx context.Context, r subjects.MCPRequest) ([]subjects.ManagedMCP, error) {
	if r.Action == subjects.MCPList {
		return c.list(), nil
	}
	cfg, offered, ok := c.find(r.Server)
	if !ok {
		return nil, nil
	}
	log := c.host.cfg.Logger.With("mcp_server", cfg.Name, "user", cut(r.User, 100), "session", cut(r.Session, 100))
	running := c.host.named(cfg.Name)
	switch r.Action {
	case subjects.MCPStatus:
	case subjects.MCPInstall, subjects.MCPEnable:
		if offered && running == nil && r.Action == subjects.MCPEnable {
			return nil, subjects.NewError(subjects.CodeBadRequest, cfg.Name+" is in the catalog and not installed")
		}
		if running == nil {
			if err := c.choose(ctx, cfg, r); err != nil {
				log.Warn("an MCP server could not be added", "action", string(r.Action), "error", err)
				return nil, subjects.NewError(subjects.CodeUnavailable, "adding the server: "+err.Error())
			}
			log.Info("an MCP server is added", "action", string(r.Action))
		}
	case subjects.MCPAuthorize:
		if running == nil {
			return nil, subjects.NewError(subjects.CodeBadRequest, cfg.Name+" does not run here: install or enable it first")
		}
		log.Info("an MCP server is connected again")
		running.connectAgain(ctx)
	default:
		return nil, subjects.NewError(subjects.CodeBadRequest, fmt.Sprintf("there is no action %.40q", r.Action))
	}
	return []subjects.ManagedMCP{c.shown(cfg, offered, true)}, nil
}

// find is the configuration of a server that a request may be about.
func (c *chooser) find(name string) (cfg ServerConfig, offered, ok bool) {
	for _, s := range c.host.cfg.Servers {
		if strings.EqualFold(s.Name, name) {
			return s, false, true
		}
	}
	for _, o := range c.host.cfg.Catalog {
		if strings.EqualFold(o.Server.Name, name) {
			return o.Server, true, true
		}
	}
	return ServerConfig{}, false, false
}

func (c *chooser) list() []subjects.ManagedMCP {
	var list []subjects.ManagedMCP
	for _, s := range c.host.cfg.Servers {
		list = append(list, c.shown(s, false, false))
	}
	for _, o := range c.host.cfg.Catalog {
		m := c.shown(o.Server, true, false)
		m.Description = cut(oneLine(o.Description), maxReason)
		list = append(list, m)
	}
	return list
}

// shown is how a server stands, with its tools when they are asked for.
func (c *chooser) shown(cfg ServerConfig, offered, tools bool) subjects.ManagedMCP {
	m := subjects.ManagedMCP{Name: cfg.Name}
	s := c.host.named(cfg.Name)
	switch {
	case s == nil && offered:
		m.State = subjects.ServerOffered
		return m
	case s == nil:
		m.State = subjects.ServerDisabled
		return m
	}
	s.mu.Lock()
	defs := s.defs
	m.State, m.Reason = s.state, s.reason
	s.mu.Unlock()
	if tools && m.State == subjects.StateReady {
		m.Tools = defs.shown()
	}
	return m
}

// shown are the tools in the order of their names.
func (d *definitions) shown() []subjects.ManagedTool {
	list, _, err := catalog.Decode(d.blob, catalog.Limits{})
	if err != nil {
		return nil
	}
	slices.SortFunc(list, func(a, b catalog.Definition) int { return strings.Compare(a.Name, b.Name) })
	out := make([]subjects.ManagedTool, 0, min(len(list), maxToolsShown))
	for i := range list[:min(len(list), maxToolsShown)] {
		out = append(out, subjects.ManagedTool{Name: list[i].Name, Description: catalog.ShortDescription(list[i].Description, shownChars)})
	}
	return out
}

// chosen is what the bucket keeps of one server.
type chosen struct {
	Server  string `json:"server"`
	Action  string `json:"action"`
	User    string `json:"user,omitempty"`
	Session string `json:"session,omitempty"`
	At      string `json:"at"`
}

// choose hosts a server and remembers that somebody wanted it.
func (c *chooser) choose(ctx context.Context, cfg ServerConfig, r subjects.MCPRequest) error {
	if kv := c.host.cfg.Chosen; kv != nil {
		value, err := subjects.Encode(chosen{
			Server: cfg.Name, Action: string(r.Action), User: r.User, Session: r.Session, At: time.Now().UTC().Format(time.RFC3339),
		})
		if err == nil {
			_, err = kv.Put(ctx, c.key(cfg.Name), value)
		}
		if err != nil {
			return fmt.Errorf("remembering it: %w", err)
		}
	}
	cfg.Disabled = false
	return c.host.add(ctx, cfg)
}

func (c *chooser) key(name string) string {
	return c.host.cfg.Tenant + "." + subjects.EncodeToolset(name)
}

// remembered are the servers that somebody had installed or enabled before, of those
// that the operator still has.
func (c *chooser) remembered(ctx context.Context) ([]ServerConfig, error) {
	kv := c.host.cfg.Chosen
	if kv == nil {
		return nil, nil
	}
	var candidates []ServerConfig
	for _, s := range c.host.cfg.Servers {
		if s.Disabled {
			candidates = append(candidates, s)
		}
	}
	for _, o := range c.host.cfg.Catalog {
		candidates = append(candidates, o.Server)
	}
	var out []ServerConfig
	for _, s := range candidates {
		_, err := kv.Get(ctx, c.key(s.Name))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading which servers were installed: %w", err)
		}
		s.Disabled = false
		out = append(out, s)
	}
	return out, nil
}

// connectAgain connects a server anew, with the credentials that the host has now,
// unless it is there and answers.
func (s *server) connectAgain(ctx context.Context) {
	s.mu.Lock()
	session := s.session
	s.mu.Unlock()
	if session != nil {
		ctx, cancel := context.WithTimeout(ctx, aliveWithin)
		defer cancel()
		if session.answers(ctx) {
			return
		}
		session.markStale(errors.New("it is connected again"), true)
	}
	s.mu.Lock()
	s.setState(subjects.StateConnecting, "connecting again")
	s.mu.Unlock()
	signal(s.again)
}
