package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nuid"

	"toolbridge/subjects"
)

// Session is one session of a tenant. It holds no state of its own: two
// processes may use the same session.
type Session struct {
	client       *Client
	tenant, name string
}

// Tenant is the session's tenant.
func (s *Session) Tenant() string { return s.tenant }

// Name is the session's own token.
func (s *Session) Name() string { return s.name }

// Source says which tools a request is about: the catalog of an assembly, or
// else what to assemble in its place.
type Source struct {
	Catalog  string // "sha256:…"; "" means Assemble
	Assemble subjects.AssembleRequest
}

// Catalog is the Source of an assembly's catalog.
func Catalog(ref string) Source { return Source{Catalog: ref} }

// AllToolsets are the toolsets of the registry that a session may see.
func AllToolsets() []string { return []string{"*"} }

// NewID makes an id for a call: unique, and a valid token.
func NewID() string { return nuid.Next() }

// Request sends any message on one of the session's subjects and returns the
// reply's JSON as it came. The typed methods below are built on it.
func (s *Session) Request(ctx context.Context, verb subjects.Verb, message any) (json.RawMessage, error) {
	return s.send(ctx, verb, message, s.client.cfg.Timeout)
}

func (s *Session) send(ctx context.Context, verb subjects.Verb, message any, limit time.Duration) (json.RawMessage, error) {
	body, err := subjects.Encode(message)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", verb, err)
	}
	return s.client.request(ctx, s.client.cfg.Space.Session(s.tenant, s.name, verb), body, limit)
}

// Assemble publishes the session's tools and returns what the model is to see:
// the visible tools, the three bridge tools, and the catalog's name for the
// requests that follow.
func (s *Session) Assemble(ctx context.Context, r subjects.AssembleRequest) (*subjects.AssembleReply, error) {
	body, err := s.Request(ctx, subjects.VerbAssemble, r)
	if err != nil {
		return nil, err
	}
	var reply subjects.AssembleReply
	return &reply, decode(subjects.VerbAssemble, body, &reply)
}

// Bridge hands on one bridge tool as the model called it. An empty ID is made
// up; models repeat theirs, so do not use the model's.
func (s *Session) Bridge(ctx context.Context, r subjects.BridgeRequest) (*subjects.BridgeReply, error) {
	if r.ID == "" {
		r.ID = NewID()
	}
	limit := s.client.cfg.Timeout
	if r.Name == subjects.ToolCall || r.Name == subjects.ToolConnections {
		limit = s.client.cfg.CallTimeout
	}
	body, err := s.send(ctx, subjects.VerbBridge, r, limit)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Name, r.ID, err)
	}
	var reply subjects.BridgeReply
	return &reply, decode(subjects.VerbBridge, body, &reply)
}

func (s *Session) bridge(ctx context.Context, from Source, name string, arguments any) (*subjects.BridgeReply, error) {
	r, err := NewBridgeRequest(from, name, arguments)
	if err != nil {
		return nil, err
	}
	return s.Bridge(ctx, r)
}

// NewBridgeRequest is the message for one bridge tool, with a new ID.
func NewBridgeRequest(from Source, name string, arguments any) (subjects.BridgeRequest, error) {
	raw, err := subjects.Encode(arguments)
	if err != nil {
		return subjects.BridgeRequest{}, fmt.Errorf("%s: arguments: %w", name, err)
	}
	r := subjects.BridgeRequest{ID: NewID(), Name: name, Arguments: raw, Catalog: from.Catalog}
	if from.Catalog == "" {
		r.AssembleRequest = from.Assemble
	}
	return r, nil
}

// SearchArguments are the arguments of tool_search: 1 to 7 queries, and at most
// how many matches each may have (0 means the configured default).
type SearchArguments struct {
	Queries []string `json:"queries"`
	Limit   int      `json:"limit,omitempty"`
}

// DescribeArguments are the arguments of tool_describe: 1 to 10 names.
type DescribeArguments struct {
	Names []string `json:"names"`
}

// CallArguments are the arguments of tool_call: 1 to 10 calls.
type CallArguments struct {
	Calls []CallEntry `json:"calls"`
}

// CallEntry is one call of a deferred tool. Arguments are a JSON object; nil
// means {}.
type CallEntry struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Search finds deferred tools. Arguments that the worker refuses make a
// *ResultError.
func (s *Session) Search(ctx context.Context, from Source, a SearchArguments) (*subjects.SearchResult, error) {
	reply, err := s.bridge(ctx, from, subjects.ToolSearch, a)
	if err != nil {
		return nil, err
	}
	var result subjects.SearchResult
	return &result, typed(reply, &result)
}

// Describe returns definitions of deferred tools by name. Arguments that the
// worker refuses make a *ResultError; names that it does not find stand in the
// result.
func (s *Session) Describe(ctx context.Context, from Source, names ...string) (*subjects.DescribeResult, error) {
	reply, err := s.bridge(ctx, from, subjects.ToolDescribe, DescribeArguments{Names: names})
	if err != nil {
		return nil, err
	}
	var result subjects.DescribeResult
	return &result, typed(reply, &result)
}

// Call calls one deferred tool and waits for its result. A tool's failure is no
// error: the reply says IsError.
func (s *Session) Call(ctx context.Context, from Source, tool string, arguments json.RawMessage) (*subjects.BridgeReply, error) {
	calls, err := oneCall(tool, arguments)
	if err != nil {
		return nil, err
	}
	return s.bridge(ctx, from, subjects.ToolCall, calls)
}

// Preflight says for each name whether it could be called now.
func (s *Session) Preflight(ctx context.Context, catalog string, names ...string) (*subjects.PreflightReply, error) {
	body, err := s.Request(ctx, subjects.VerbPreflight, subjects.PreflightRequest{Names: names, Catalog: catalog})
	if err != nil {
		return nil, err
	}
	var reply subjects.PreflightReply
	return &reply, decode(subjects.VerbPreflight, body, &reply)
}

func decode(verb subjects.Verb, body []byte, into any) error {
	if err := subjects.Decode(body, into); err != nil {
		return fmt.Errorf("reply to %s: %w", verb, err)
	}
	return nil
}

func typed(reply *subjects.BridgeReply, into any) error {
	if reply.IsError {
		return newResultError(reply)
	}
	if reply.Blob != nil {
		return fmt.Errorf("%s: the result has %d bytes and was kept aside as blob %s; ask for less", reply.Name, reply.Blob.Size, reply.Blob.Name)
	}
	if err := subjects.Decode(reply.Result, into); err != nil {
		return fmt.Errorf("result of %s: %w", reply.Name, err)
	}
	return nil
}
