package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"toolbridge/subjects"
)

// Client speaks the gateway's and the portal's HTTP interface for many users. It is
// safe for many goroutines. Every error of its methods is a *Failure.
//
// A request carries the token of its user and nothing else of him. A token goes to
// the configured origins only: redirects are not followed, and no error, log line or
// answer repeats it. A refused token is never sent again for the same request.
type Client struct {
	cfg             ClientConfig
	gateway, portal string // origins, without a slash at the end
	http            *http.Client
	pool            *http.Transport
	secrets         []string
}

// NewClient checks the configuration. It sends nothing.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg = cfg.withDefaults()
	if cfg.Credentials == nil {
		return nil, errors.New("the gateway's client needs credentials")
	}
	if cfg.MaxAnswer < 0 || cfg.SearchTimeout < 0 || cfg.SchemasTimeout < 0 || cfg.ExecuteTimeout < 0 || cfg.OtherTimeout < 0 {
		return nil, errors.New("the limits of the gateway's client are positive")
	}
	c := &Client{cfg: cfg}
	var err error
	if c.gateway, err = checkOrigin("gateway.url", cfg.URL); err != nil {
		return nil, err
	}
	if c.portal, err = checkOrigin("gateway.portal_url", cfg.PortalURL); err != nil {
		return nil, err
	}
	if c.pool, c.secrets, err = newTransport(cfg); err != nil {
		return nil, err
	}
	var transport http.RoundTripper = c.pool
	if cfg.Transport != nil {
		transport = cfg.Transport(transport)
	}
	c.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// CloseIdle closes the connections that no request uses now.
func (c *Client) CloseIdle() { c.pool.CloseIdleConnections() }

// Origin is the gateway's, as it is used.
func (c *Client) Origin() string { return c.gateway }

// Result is the outcome of one tool of an execute, by its place in the answer.
type Result struct {
	Data      json.RawMessage // as it came, digit for digit; null when there was nothing to say
	Err       *ToolError      // set when the tool did not succeed
	Account   string          // alias that it ran under, "" where it has none
	Malformed bool            // the slot is missing or can not be read; Data and Err are nil
}

// Search asks for tools, for at most MaxUseCases queries. 30 s, never repeated.
func (c *Client) Search(ctx context.Context, who Who, req SearchRequest) (*SearchReply, error) {
	return ask(ctx, c, who, exchange{method: http.MethodPost, url: c.at(RouteSearch), limit: c.cfg.SearchTimeout, what: "the search", route: "search"}, req, readSearch)
}

// Schemas asks for tools by slug. 10 s, repeated once.
func (c *Client) Schemas(ctx context.Context, who Who, slugs []string) (*SchemasReply, error) {
	return ask(ctx, c, who, exchange{method: http.MethodPost, url: c.at(RouteSchemas), limit: c.cfg.SchemasTimeout, repeat: true, what: "the question for schemas", route: "schemas"}, SchemasRequest{Tools: slugs}, readSchemas)
}

// Execute runs tools. The results have one slot for each tool of the request. 60 s,
// repeated once under the same key. After a failure with Sent nobody knows whether
// the tools took effect, save where the gateway itself refused (Kind with a Status).
func (c *Client) Execute(ctx context.Context, who Who, req ExecuteRequest, key string) ([]Result, error) {
	results, failure := c.execute(ctx, who, req, key, key != "")
	if failure != nil {
		return nil, failure
	}
	return results, nil
}

// executeOnce is Execute without the repetition, for callers that decide on it.
func (c *Client) executeOnce(ctx context.Context, who Who, req ExecuteRequest, key string) ([]Result, *Failure) {
	return c.execute(ctx, who, req, key, false)
}

func (c *Client) execute(ctx context.Context, who Who, req ExecuteRequest, key string, repeat bool) ([]Result, *Failure) {
	req.Tools = slices.Clone(req.Tools)
	for i := range req.Tools {
		if len(req.Tools[i].Arguments) == 0 {
			req.Tools[i].Arguments = json.RawMessage("{}")
		}
	}
	e := exchange{method: http.MethodPost, url: c.at(RouteExecute), key: key, limit: c.cfg.ExecuteTimeout, repeat: repeat, what: "the call", route: "execute"}
	results, err := ask(ctx, c, who, e, req, func(body []byte) ([]Result, error) { return readExecute(body, len(req.Tools)) })
	if err != nil {
		f, _ := AsFailure(err) // every error of ask is one
		return nil, f
	}
	return results, nil
}

// Mint starts connections. 30 s, never repeated: after a failure with Sent nobody
// knows whether it started.
func (c *Client) Mint(ctx context.Context, who Who, req MintRequest) (*MintReply, error) {
	return ask(ctx, c, who, exchange{method: http.MethodPost, url: c.at(RouteConnections), limit: c.cfg.OtherTimeout, what: "the start of a connection", route: "connections"}, req, readMint)
}

// List is every app, at most MaxPages of ListPage. Each page: 30 s, repeated once.
func (c *Client) List(ctx context.Context, who Who) ([]App, error) {
	var all []App
	seen := map[string]bool{"": true}
	for cursor := ""; ; {
		q := url.Values{"limit": {strconv.Itoa(ListPage)}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		var next string
		e := exchange{method: http.MethodGet, url: c.at(RouteConnectors) + "?" + q.Encode(), limit: c.cfg.OtherTimeout, repeat: true, what: "the question for apps", route: "connectors"}
		items, err := ask(ctx, c, who, e, nil, func(body []byte) (items []App, err error) {
			items, next, err = readPage(body)
			return items, err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if seen[next] || len(seen) >= MaxPages { // the end, a circle, or too much
			return all, nil
		}
		seen[next] = true
		cursor = next
	}
}

// Account is the state of one connection. 30 s, repeated once.
func (c *Client) Account(ctx context.Context, who Who, id string) (*Account, error) {
	at, failure := under(c.at(RouteAccounts), id)
	if failure != nil {
		return nil, failure
	}
	return ask(ctx, c, who, exchange{method: http.MethodGet, url: at, limit: c.cfg.OtherTimeout, repeat: true, what: "the question for an account", route: "account"}, nil, oneAccount)
}

// PortalAccounts lists a user's accounts at the portal. 30 s, not repeated; so are
// RenameAccount and Disconnect. None of them ever asks the gateway instead.
func (c *Client) PortalAccounts(ctx context.Context, who Who) ([]Account, error) {
	return ask(ctx, c, who, exchange{method: http.MethodGet, url: c.portal + "/" + RoutePortalAccounts, limit: c.cfg.OtherTimeout, what: "the question for accounts", route: "portal_accounts"}, nil, readAccounts)
}

// RenameAccount gives an account another alias, at the portal.
func (c *Client) RenameAccount(ctx context.Context, who Who, id, alias string) (*Account, error) {
	at, failure := under(c.portal+"/"+RoutePortalAccounts, id)
	if failure != nil {
		return nil, failure
	}
	return ask(ctx, c, who, exchange{method: http.MethodPatch, url: at, limit: c.cfg.OtherTimeout, what: "the renaming", route: "portal_rename"}, RenameRequest{Alias: alias}, oneAccount)
}

// Disconnect removes an account, at the portal.
func (c *Client) Disconnect(ctx context.Context, who Who, id string) error {
	at, failure := under(c.portal+"/"+RoutePortalAccounts, id)
	if failure != nil {
		return failure
	}
	_, err := ask(ctx, c, who, exchange{method: http.MethodDelete, url: at, limit: c.cfg.OtherTimeout, what: "the disconnection", route: "portal_disconnect"}, nil, func([]byte) (struct{}, error) { return struct{}{}, nil })
	return err
}

// CreateGuest creates a guest identity, once for each key. It is sent without a
// token: its user has none yet. 30 s, repeated once under the same key.
func (c *Client) CreateGuest(ctx context.Context, req GuestRequest, key string) (*GuestReply, error) {
	body, err := subjects.Encode(req)
	if err != nil {
		return nil, unsendable(err)
	}
	e := exchange{method: http.MethodPost, url: c.at(RouteGuest), body: body, key: key, limit: c.cfg.OtherTimeout, repeat: key != "", what: "the creation of a guest identity", route: "guest"}
	answer, failure := c.try(ctx, "", e)
	if failure != nil {
		return nil, failure
	}
	var reply GuestReply
	err = subjects.Decode(answer, &reply)
	if err == nil && !validToken(reply.Token) {
		err = errors.New("it names no token that a header can carry")
	}
	if err != nil {
		return nil, malformed(e, err)
	}
	return &reply, nil
}

func (c *Client) at(route string) string { return c.gateway + "/" + route }

// under is the address of one thing below a route.
func under(route, id string) (string, *Failure) {
	if id == "" || id == "." || id == ".." || len(id) > 512 {
		return "", &Failure{Kind: KindRefused, Message: "the id of an account is missing or not one"}
	}
	return route + "/" + url.PathEscape(id), nil
}

func oneAccount(body []byte) (*Account, error) {
	a, ok := readAccount(body)
	if !ok {
		return nil, errShape
	}
	return &a, nil
}

// ask sends one request with a JSON body, where there is one, and reads its answer.
func ask[T any](ctx context.Context, c *Client, who Who, e exchange, body any, read func([]byte) (T, error)) (T, error) {
	var none T
	var err error
	if body != nil {
		if e.body, err = subjects.Encode(body); err != nil {
			return none, unsendable(err)
		}
	}
	answer, failure := c.send(ctx, who, e)
	if failure != nil {
		return none, failure
	}
	out, err := read(answer)
	if err != nil {
		return none, malformed(e, err)
	}
	return out, nil
}

func malformed(e exchange, err error) *Failure {
	return &Failure{Kind: KindMalformed, Sent: true, Message: fmt.Sprintf("the gateway's answer to %s can not be read: %s", e.what, oneLine(err.Error(), maxMessageChars/2))}
}

func unsendable(err error) *Failure {
	return &Failure{Kind: KindRefused, Message: "the request can not be written as JSON: " + oneLine(err.Error(), maxMessageChars/2)}
}

func (c ClientConfig) withDefaults() ClientConfig {
	if c.PortalURL == "" {
		c.PortalURL = c.URL
	}
	for _, d := range []struct {
		to       *time.Duration
		standard time.Duration
	}{
		{&c.SearchTimeout, 30 * time.Second},
		{&c.SchemasTimeout, 10 * time.Second},
		{&c.ExecuteTimeout, 60 * time.Second},
		{&c.OtherTimeout, 30 * time.Second},
	} {
		if *d.to == 0 {
			*d.to = d.standard
		}
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = 8 << 20
	}
	if c.UserAgent == "" {
		c.UserAgent = "toolbridge"
	}
	return c
}
