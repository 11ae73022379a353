package connectors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
	"toolbridge/subjects"
)

// Manage runs manage_connections, and takes what users do on its cards.
//
// What changes something is an operation, kept in a bucket under an id that follows
// from the call, with a state for everything that must not be done twice: a run that
// finds the start of a connection sent does not send it again, and one that finds a
// card open goes on watching it. So an operation outlives its worker, and an answer
// reaches it through any worker.
type Manage struct {
	cfg        ManageConfig
	gateway    *Gateway
	identities *Identities
	nc         *nats.Conn
	operations *operations
	servers    servers
	log        *slog.Logger
}

// ManageConfig is how manage_connections waits.
type ManageConfig struct {
	// Space builds subjects; the zero value is the default prefix.
	Space subjects.Space
	// Deadline of a card; 0 means 5 minutes.
	Deadline time.Duration
	// Patience is how long a card stays once only the user's word on failed targets
	// is missing; 0 means 1 minute.
	Patience time.Duration
	// ServerDeadline is how long the start of MCP servers is waited for where there
	// is no card; 0 means 90 seconds.
	ServerDeadline time.Duration
	// Tick is how often accounts are looked at; 0 means 1 second.
	Tick time.Duration
	// Logger; nil means slog.Default.
	Logger *slog.Logger
}

func (c ManageConfig) withDefaults() ManageConfig {
	for _, d := range []struct {
		to       *time.Duration
		standard time.Duration
	}{{&c.Deadline, 5 * time.Minute}, {&c.Patience, time.Minute}, {&c.ServerDeadline, 90 * time.Second}, {&c.Tick, time.Second}} {
		if *d.to == 0 {
			*d.to = d.standard
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// NewManage needs a gateway that is started. identities may be nil where every user
// has an identity of their own.
func NewManage(cfg ManageConfig, g *Gateway, identities *Identities, nc *nats.Conn, st *state.State, bucket jetstream.KeyValue) *Manage {
	cfg = cfg.withDefaults()
	return &Manage{
		cfg: cfg, gateway: g, identities: identities, nc: nc, log: cfg.Logger,
		operations: &operations{state: st, kv: bucket}, servers: servers{nc, cfg.Space},
	}
}

// ManageCall is one call of manage_connections.
type ManageCall struct {
	Who             Who
	Tenant, Session string
	CallID          string
	Index           int
	Surface         string
	Arguments       json.RawMessage
	Trace           [3]string
	Stop            <-chan struct{} // closed by a stop
	Sent            func()          // called once something has left, when not nil
	Parks           func()          // called once the call only waits for a person, when not nil
}

// ManageEnd is what came of it: a response or an error.
type ManageEnd struct {
	Response json.RawMessage
	Error    *subjects.SlotError
	// Unsent, with an error: nothing was changed anywhere.
	Unsent bool
	// Again, with an error: ctx ended, and another worker may go on with the call.
	Again bool
}

func ended(response json.RawMessage, err error) ManageEnd {
	if err != nil {
		return refusedEnd(&subjects.SlotError{Code: subjects.CodeToolError, Message: "the result could not be written: " + err.Error()})
	}
	return ManageEnd{Response: response}
}

func refusedEnd(e *subjects.SlotError) ManageEnd { return ManageEnd{Error: e, Unsent: true} }

func failedEnd(e *subjects.SlotError) ManageEnd { return ManageEnd{Error: e} }

// Execute runs one call. It returns when the call has its result; with a card that is
// when the user is done, or the card's time is over. When ctx ends it returns at once,
// and another run, here or elsewhere, goes on.
func (m *Manage) Execute(ctx context.Context, c ManageCall) ManageEnd {
	q, err := ParseManage(c.Arguments)
	var refused *Refusal
	if errors.As(err, &refused) {
		return refusedEnd(&subjects.SlotError{
			Code: subjects.CodeInvalidArguments, Message: refused.Message, Path: refused.Path, Constraint: refused.Kind, Parameters: json.RawMessage(manageParameters),
		})
	}
	if c.Surface == subjects.SurfaceSide || !m.gateway.Available(ctx, c.Who) {
		return refusedEnd(&subjects.SlotError{Code: subjects.CodeToolNotFound, Message: "connectors are not available to this session"})
	}
	switch q.Action {
	case ActionInstall, ActionEnable, ActionAuthorize:
		return m.operate(ctx, c, q)
	}
	if slotErr := m.identity(ctx, c.Who); slotErr != nil {
		return ManageEnd{Error: slotErr, Unsent: true, Again: ctx.Err() != nil}
	}
	switch q.Action {
	case ActionStatus:
		return m.status(ctx, c, q)
	case ActionRename:
		return m.rename(ctx, c, q.Hosted[0])
	}
	if len(q.Hosted) == 0 {
		return refusedEnd(&subjects.SlotError{
			Code: subjects.CodeInvalidArguments, Path: "connectors", Parameters: json.RawMessage(manageParameters),
			Message: q.Action + ` needs the apps it is about: "connectors": [{"name": "gmail"}]; status lists what there is`,
		})
	}
	return m.operate(ctx, c, q)
}

// identity sees to it that the user has one at the gateway: the first hosted action
// creates a guest.
func (m *Manage) identity(ctx context.Context, who Who) *subjects.SlotError {
	_, err := m.gateway.Credentials.Token(ctx, who)
	if !errors.Is(err, ErrNoIdentity) {
		return nil // what else is wrong with it, the request itself says
	}
	if m.identities == nil {
		return unserved("setting connected apps up", &Failure{Kind: KindNoToken, Code: "NO_TOKEN"})
	}
	_, err = m.identities.Create(ctx, who)
	var guest *GuestFailure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &guest):
		e := &subjects.SlotError{Code: subjects.CodeProviderError, Message: guest.Error(), ExecutorCode: guest.Code, Reason: "not_set_up"}
		if guest.RetryAfter > 0 {
			e.RetryAfterMS = max(1, guest.RetryAfter.Milliseconds())
		}
		if guest.Refused {
			e.Reason = reasonNotAvailable
		}
		return e
	case errors.Is(err, ErrNoIdentity):
		return unserved("setting connected apps up", &Failure{Kind: KindNoToken, Code: "NO_TOKEN"})
	}
	return unserved("setting connected apps up", err)
}

// statusItem is one app of a status. Its accounts are left out when the portal could
// not be asked.
type statusItem struct {
	Connector        string           `json:"connector"`
	Connected        bool             `json:"connected"`
	Enabled          bool             `json:"enabled"`
	ConnectionStatus *string          `json:"connectionStatus"`
	StatusReason     *string          `json:"statusReason"`
	DisabledTools    []string         `json:"disabledTools"`
	Accounts         *[]statusAccount `json:"accounts,omitempty"`
}

type statusAccount struct {
	Alias   *string `json:"alias"`
	Label   string  `json:"label"`
	Status  string  `json:"status"`
	Active  bool    `json:"active"`
	Retired bool    `json:"retired,omitempty"`
}

// connectionStates are those that a list may name.
var connectionStates = []string{"", accountPending, accountActive, accountFailed, accountRevoked, accountInactive, accountExpired, "initiated"}

// status lists apps with their accounts. It changes nothing, so every run starts
// anew.
func (m *Manage) status(ctx context.Context, c ManageCall, q ManageRequest) ManageEnd {
	apps, err := m.list(ctx, c.Who)
	if err != nil {
		return ManageEnd{Error: unserved("looking at connected apps", err), Unsent: true, Again: ctx.Err() != nil}
	}
	for _, a := range apps {
		if !slices.Contains(connectionStates, a.ConnectionStatus) {
			return refusedEnd(unserved("looking at connected apps", &Failure{Kind: KindMalformed, Message: fmt.Sprintf("the gateway names a state of %s that is not known: %s", oneLine(a.Connector, maxLabel), oneLine(a.ConnectionStatus, 40))}))
		}
	}
	accounts, portal := m.gateway.Client.PortalAccounts(ctx, c.Who)
	items := []statusItem{}
	for _, a := range apps {
		name := FoldConnector(a.Connector)
		wanted := func(t ManageTarget) bool { return t.Name == name }
		if len(q.Hosted) > 0 && !slices.ContainsFunc(q.Hosted, wanted) {
			continue
		}
		item := statusItem{
			Connector: oneLine(a.Connector, maxLabel), Connected: a.Connected, Enabled: a.Enabled,
			ConnectionStatus: optional(a.ConnectionStatus), StatusReason: optional(oneLine(a.StatusReason, maxMessageChars)), DisabledTools: a.DisabledTools,
		}
		if portal == nil {
			list := accountsOf(accounts, name, q.Hosted)
			item.Accounts = &list
		}
		items = append(items, item)
	}
	body := struct {
		Connectors []statusItem `json:"connectors"`
		Note       string       `json:"note,omitempty"`
	}{Connectors: items}
	for _, t := range q.Hosted {
		if !slices.ContainsFunc(apps, func(a App) bool { return FoldConnector(a.Connector) == t.Name }) {
			body.Note += fmt.Sprintf("There is no app %q. ", t.Name)
		}
	}
	if portal != nil {
		body.Note += "The accounts can not be listed at the moment."
	}
	body.Note = strings.TrimSpace(body.Note)
	return ended(subjects.Encode(body))
}

// accountsOf are an app's accounts, of which targets with an alias name some.
func accountsOf(accounts []Account, connector string, targets []ManageTarget) []statusAccount {
	list := []statusAccount{}
	for _, a := range accounts {
		if FoldConnector(a.Connector) != connector {
			continue
		}
		ofApp, named := false, false
		for _, t := range targets {
			if t.Name == connector && t.Alias != "" {
				ofApp = true
				named = named || a.Alias != nil && *a.Alias == t.Alias || a.Alias == nil && a.Label == t.Alias
			}
		}
		if ofApp && !named {
			continue
		}
		account := statusAccount{Label: oneLine(a.Label, maxLabel), Status: oneLine(a.Status, 40), Active: a.Active, Retired: a.Retired}
		if a.Alias != nil {
			account.Alias = optional(oneLine(*a.Alias, maxLabel))
		}
		list = append(list, account)
	}
	return list
}

func (m *Manage) list(ctx context.Context, who Who) (apps []App, err error) {
	err = m.gateway.entry(ctx, who.Tenant, func() (err error) {
		apps, err = m.gateway.Client.List(ctx, who)
		return err
	})
	return apps, err
}

func sentNow(c ManageCall) {
	if c.Sent != nil {
		c.Sent()
	}
}
