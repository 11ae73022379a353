package connectors

import (
	"context"
	"encoding/json"
	"errors"
)

// Client speaks the gateway's HTTP interface for many users. Every error of its
// methods is a *Failure.
type Client struct{ cfg ClientConfig }

// NewClient checks the configuration. It sends nothing.
func NewClient(cfg ClientConfig) (*Client, error) { return &Client{cfg: cfg}, nil }

// Result is the outcome of one tool of an execute, by its place in the answer.
type Result struct {
	Data      json.RawMessage // as it came, digit for digit; nil where there is none
	Err       *ToolError      // set when the tool did not succeed
	Account   string          // alias that it ran under, "" where it has none
	Malformed bool            // the slot could not be read, or is missing; Data and Err are nil
}

var errUnfinished = errors.New("not served yet")

// Search asks for tools, for at most MaxUseCases queries. 30 s, never repeated.
func (c *Client) Search(context.Context, Who, SearchRequest) (*SearchReply, error) {
	return nil, errUnfinished
}

// Schemas asks for tools by slug. 10 s, repeated once.
func (c *Client) Schemas(context.Context, Who, []string) (*SchemasReply, error) {
	return nil, errUnfinished
}

// Execute runs tools. The results have one slot for each tool of the request. 60 s,
// repeated once under the same key.
func (c *Client) Execute(context.Context, Who, ExecuteRequest, string) ([]Result, error) {
	return nil, errUnfinished
}

// Mint starts connections. 30 s, never repeated: after a failure with Sent nobody
// knows whether it started.
func (c *Client) Mint(context.Context, Who, MintRequest) (*MintReply, error) {
	return nil, errUnfinished
}

// List is every app, at most MaxPages of ListPage.
func (c *Client) List(context.Context, Who) ([]App, error) { return nil, errUnfinished }

// Account is the state of one connection.
func (c *Client) Account(context.Context, Who, string) (*Account, error) {
	return nil, errUnfinished
}

// PortalAccounts lists a user's accounts at the portal.
func (c *Client) PortalAccounts(context.Context, Who) ([]Account, error) {
	return nil, errUnfinished
}

// RenameAccount gives an account another alias, at the portal.
func (c *Client) RenameAccount(context.Context, Who, string, string) (*Account, error) {
	return nil, errUnfinished
}

// Disconnect removes an account, at the portal.
func (c *Client) Disconnect(context.Context, Who, string) error { return errUnfinished }

// CreateGuest creates a guest identity, once for each key. It needs no token.
func (c *Client) CreateGuest(context.Context, GuestRequest, string) (*GuestReply, error) {
	return nil, errUnfinished
}
