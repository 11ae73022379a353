package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"toolbridge/client"
	"toolbridge/subjects"
)

// ServeConfig is how a session's tools are offered to an MCP client. The zero
// value is the documented default.
type ServeConfig struct {
	// Toolsets of the registry, globs; nil means every one that the session may
	// see.
	Toolsets []string
	// Surface is where the user sits; "" means cli.
	Surface string
	// ContextLength of the client's model in tokens; 0 means unknown.
	ContextLength int64
	Version       string
	Logger        *slog.Logger
}

const (
	// reassembleEvery is how often the tools are looked at when nothing is heard.
	reassembleEvery = time.Minute
	// stopWithin bounds telling a worker that its call is no longer wanted.
	stopWithin = 5 * time.Second
)

// Serve offers a session's tools to one MCP client: the three bridge tools, with
// the listing of what is behind them. Everything is deferred, whatever the
// configured threshold says, so that every call goes through the bridge with all
// its checks. The tools follow the registry; a client that cancels a call stops it.
//
// Serve returns when the client hangs up or ctx ends, with the error of the first
// assembly or of the transport.
func Serve(ctx context.Context, s *client.Session, cfg ServeConfig, transport sdk.Transport) error {
	if cfg.Toolsets == nil {
		cfg.Toolsets = client.AllToolsets()
	}
	if cfg.Surface == "" {
		cfg.Surface = subjects.SurfaceCLI
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f := &front{session: s, cfg: cfg, shown: map[string][]byte{}}
	f.server = sdk.NewServer(&sdk.Implementation{Name: "toolbridge", Version: cfg.Version}, &sdk.ServerOptions{
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}},
		Logger:       cfg.Logger,
	})
	events, err := s.Events(ctx)
	if err != nil {
		return fmt.Errorf("serving MCP: %w", err)
	}
	defer events.Stop()
	if err := f.assemble(ctx); err != nil {
		return fmt.Errorf("serving MCP: %w", err)
	}
	life, cancel := context.WithCancel(ctx)
	var owned sync.WaitGroup
	owned.Go(func() { f.follow(life, events) })
	err = f.server.Run(ctx, transport)
	cancel()
	owned.Wait()
	f.stops.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// front is one MCP client's view of a session.
type front struct {
	session *client.Session
	cfg     ServeConfig
	server  *sdk.Server
	stops   sync.WaitGroup

	mu      sync.Mutex
	catalog string
	shown   map[string][]byte // definitions, by name, as the client was told
}

// follow assembles again when the catalog may have changed.
func (f *front) follow(ctx context.Context, events *client.Feed[client.Event]) {
	tick := time.NewTicker(reassembleEvery)
	defer tick.Stop()
	for {
		select {
		case e, ok := <-events.C:
			if !ok {
				return
			}
			if e.Type != subjects.EventCatalogChanged {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := f.assemble(ctx); err != nil && ctx.Err() == nil {
			f.cfg.Logger.Warn("assembling again; the client keeps what it has", "error", err)
		}
	}
}

// assemble asks for the tools and tells the client what is new.
func (f *front) assemble(ctx context.Context) error {
	request := subjects.AssembleRequest{
		Toolsets: f.cfg.Toolsets, Surface: f.cfg.Surface, Dialect: "mcp", Config: json.RawMessage(`{"enabled":true}`),
	}
	if f.cfg.ContextLength > 0 {
		request.ContextLength = &f.cfg.ContextLength
	}
	reply, err := f.session.Assemble(ctx, request)
	if err != nil {
		return fmt.Errorf("assembling the tools of session %s: %w", f.session.Name(), err)
	}
	for _, w := range reply.Warnings {
		f.cfg.Logger.Debug("assembly", "code", w.Code, "tool", w.Tool, "message", w.Message)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.catalog = reply.Catalog
	now := map[string][]byte{}
	for _, raw := range reply.Tools {
		var t struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
		if err := subjects.Decode(raw, &t); err != nil || t.Name == "" {
			continue // a worker sends none such
		}
		now[t.Name] = raw
		if !bytes.Equal(f.shown[t.Name], raw) {
			f.server.AddTool(&sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}, f.call)
		}
	}
	for name := range f.shown {
		if _, still := now[name]; !still {
			f.server.RemoveTools(name)
		}
	}
	f.shown = now
	return nil
}

func (f *front) reference() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.catalog
}

// call hands one call of the client's model to the bridge.
func (f *front) call(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	arguments := r.Params.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	request := subjects.BridgeRequest{ID: client.NewID(), Name: r.Params.Name, Arguments: arguments, Catalog: f.reference()}
	reply, err := f.session.Bridge(ctx, request)
	if unknown := (*subjects.Error)(nil); errors.As(err, &unknown) && unknown.Code == subjects.CodeUnknownCatalog {
		if err := f.assemble(ctx); err != nil {
			return failure(err), nil
		}
		request.Catalog = f.reference()
		reply, err = f.session.Bridge(ctx, request)
	}
	if err != nil {
		if ctx.Err() != nil {
			f.stop(ctx, request)
		}
		return failure(err), nil
	}
	return shownResult(reply), nil
}

// stop tells the worker that nobody waits for a call any more.
func (f *front) stop(ctx context.Context, r subjects.BridgeRequest) {
	if r.Name != subjects.ToolCall {
		return
	}
	f.stops.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		if _, err := f.session.Stop(ctx, r.ID); err != nil {
			f.cfg.Logger.Warn("stopping a call that the client cancelled", "call", r.ID, "error", err)
		}
	})
}

// failure is what the model reads about a request that was not served.
func failure(err error) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}}
}

// shownResult is a reply of the bridge as an MCP result: typed content stays
// typed, a text stays that text, everything else is its JSON.
func shownResult(reply *subjects.BridgeReply) *sdk.CallToolResult {
	result := &sdk.CallToolResult{IsError: reply.IsError}
	if reply.Blob != nil {
		result.Content = []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(
			"%s\n[The result has %d bytes; this is its beginning. Ask for less.]", reply.Preview, reply.Blob.Size)}}
		return result
	}
	var text string
	if json.Unmarshal(reply.Result, &text) == nil {
		result.Content = []sdk.Content{&sdk.TextContent{Text: text}}
		return result
	}
	var members map[string]json.RawMessage
	if subjects.Decode(reply.Result, &members) == nil && len(members) == 1 && members["content"] != nil {
		var typed sdk.CallToolResult
		if json.Unmarshal(reply.Result, &typed) == nil && len(typed.Content) > 0 {
			result.Content = typed.Content
			return result
		}
	}
	result.Content = []sdk.Content{&sdk.TextContent{Text: string(reply.Result)}}
	return result
}
