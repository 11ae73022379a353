package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/connectors"
	"toolbridge/subjects"
)

// manage is what a session has that may use hosted tools.
const manage = `{"name":"manage_connections","toolset":"doctor","description":"Connects accounts of hosted apps.","parameters":{"type":"object"}}`

// Gateway is how workers reach the gateway of connectors.
type Gateway struct {
	Client connectors.ClientConfig
	// User is whose token is tried; "" means that of the session's grant, or else dev.
	User string
	// TokenFrom says in words where the token comes from.
	TokenFrom string
}

const (
	gatewayCheck  = "gateway"
	identityCheck = "gateway identity"
)

// Gateway asks the gateway for the apps of a user, as a worker does, then sees what
// the workers make of it. The gateway is asked twice at most, and nothing changes there.
func (p *Patient) Gateway(ctx context.Context, g Gateway) []Finding {
	if g.User == "" {
		g.User = p.user(ctx)
	}
	list := p.reach(ctx, g)
	breaker := p.breaker(ctx)
	list = append(list, breaker)
	return append(list, p.hosted(ctx)...)
}

// user is that of the session's grant, where it may be read.
func (p *Patient) user(ctx context.Context) string {
	const nobody = "dev"
	ctx, cancel := p.within(ctx)
	defer cancel()
	js, err := jetstream.New(p.Conn)
	if err != nil {
		return nobody
	}
	kv, err := js.KeyValue(ctx, subjects.BucketGrants)
	if err != nil {
		return nobody
	}
	e, err := kv.Get(ctx, subjects.GrantKey(p.Tenant, p.Session))
	if err != nil {
		return nobody
	}
	var grant subjects.Grant
	if subjects.Decode(e.Value(), &grant) != nil || subjects.CheckToken("user", grant.User) != nil {
		return nobody
	}
	return grant.User
}

// reach asks the gateway for a user's apps.
func (p *Patient) reach(ctx context.Context, g Gateway) []Finding {
	const address = "Compare gateway.url with what the gateway's operator says, and look at DNS, proxy (gateway.proxy), certificates (gateway.ca_file) and network policies between."
	client, err := connectors.NewClient(g.Client)
	if err != nil {
		return []Finding{{gatewayCheck, Failed, err.Error(), address}}
	}
	defer client.CloseIdle()
	at := client.Origin()
	who := connectors.Who{Tenant: p.Tenant, User: g.User}
	began := time.Now()
	apps, err := p.apps(ctx, client, who)
	took := time.Since(began).Round(100 * time.Microsecond)
	if err == nil {
		connected := 0
		for _, a := range apps {
			if a.Connected {
				connected++
			}
		}
		return []Finding{
			ok(gatewayCheck, "%s answered in %s", at, took),
			ok(identityCheck, "user %s (%s): %d apps, %d of them connected", g.User, g.TokenFrom, len(apps), connected),
		}
	}
	f, known := connectors.AsFailure(err)
	if !known {
		return []Finding{{gatewayCheck, Failed, at + ": " + err.Error(), address}}
	}
	answered := ok(gatewayCheck, "%s answered in %s", at, took)
	switch f.Kind {
	case connectors.KindNoToken:
		return append(p.anonymous(ctx, g, at, address), withoutToken(g, err))
	case connectors.KindAuth:
		return []Finding{answered, {
			identityCheck, Failed, fmt.Sprintf("the gateway refuses the token of user %s (%s): %s", g.User, g.TokenFrom, f.Error()),
			"The sign-in has expired, or the token is another gateway's: sign in again and put the new token where it comes from. A token in a worker's environment is read at its start.",
		}}
	case connectors.KindForbidden, connectors.KindDark:
		return []Finding{answered, {
			identityCheck, Failed, fmt.Sprintf("connectors are not open to user %s (%s): HTTP %d, %s", g.User, g.TokenFrom, f.Status, f.Error()),
			"The account is not entitled to connectors, or gateway.url leads to something else. Until then the sessions of this user see no hosted tools, and nothing is said to them.",
		}}
	case connectors.KindRateLimited:
		return []Finding{{gatewayCheck, Warning, at + ": " + f.Error(), "The gateway limits this account's requests: spread the load, or have the limit raised."}}
	case connectors.KindServer:
		return []Finding{{gatewayCheck, Failed, fmt.Sprintf("%s: HTTP %d, %s", at, f.Status, f.Error()), "The gateway itself fails: see its status. Workers stop sending after breaker.threshold failures in a row and try again by themselves."}}
	case connectors.KindMalformed, connectors.KindTooLarge, connectors.KindRefused, connectors.KindConflict:
		return []Finding{{gatewayCheck, Failed, at + " does not answer as a gateway: " + f.Error(), address}}
	}
	return []Finding{{gatewayCheck, Failed, at + " can not be reached: " + f.Error(), address}}
}

// apps asks for a user's apps, within four times the patient's time for a question.
func (p *Patient) apps(ctx context.Context, client *connectors.Client, who connectors.Who) ([]connectors.App, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*p.Wait)
	defer cancel()
	return client.List(ctx, who)
}

// anonymous sees whether the gateway is there when there is no token for it: it then
// refuses one that nobody has.
func (p *Patient) anonymous(ctx context.Context, g Gateway, at, address string) []Finding {
	g.Client.Credentials = connectors.Shared("toolbridge-doctor-has-no-token")
	client, err := connectors.NewClient(g.Client)
	if err != nil {
		return []Finding{{gatewayCheck, Failed, err.Error(), address}}
	}
	defer client.CloseIdle()
	_, err = p.apps(ctx, client, connectors.Who{Tenant: p.Tenant, User: g.User})
	f, known := connectors.AsFailure(err)
	if known && f.Status == 0 || known && f.Kind == connectors.KindServer || err != nil && !known {
		return []Finding{{gatewayCheck, Failed, at + " can not be reached: " + err.Error(), address}}
	}
	return []Finding{ok(gatewayCheck, "%s answers", at)}
}

// withoutToken judges that there is no token here for a user.
func withoutToken(g Gateway, err error) Finding {
	const advice = "Run it with the workers' environment and configuration (TOOLBRIDGE_GATEWAY_TOKEN, gateway.token_env, gateway.credentials). Users without a token become guests with their first manage_connections, unless the configuration forbids that."
	if errors.Is(err, connectors.ErrNoIdentity) {
		return Finding{identityCheck, Warning, fmt.Sprintf("there is no token here for user %s (%s)", g.User, g.TokenFrom), advice}
	}
	return Finding{identityCheck, Failed, fmt.Sprintf("the token of user %s can not be had (%s): %v", g.User, g.TokenFrom, err), advice}
}

// breaker reads what the fleet has written down of the tenant's breakers.
func (p *Patient) breaker(ctx context.Context) Finding {
	const check = "breaker"
	ctx, cancel := p.within(ctx)
	defer cancel()
	p.forbade()
	js, err := jetstream.New(p.Conn)
	if err != nil {
		return Finding{check, Failed, err.Error(), "Look at the server's log."}
	}
	kv, err := js.KeyValue(ctx, subjects.BucketBreakers)
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return Finding{check, Warning, "no worker has had a gateway yet", "Give the workers the same configuration (gateway.url or --gateway), and restart them."}
	case err != nil && p.forbade():
		return skipped(check, "read the breakers")
	case err != nil:
		return Finding{check, Failed, "the breakers can not be read: " + err.Error(), "Look at the server's log; in a cluster, whether it has a leader."}
	}
	keys, err := kv.ListKeysFiltered(ctx, "*."+p.Tenant)
	if err != nil {
		if p.forbade() {
			return skipped(check, "read the breakers")
		}
		return Finding{check, Failed, "the breakers can not be read: " + err.Error(), "Look at the server's log; in a cluster, whether it has a leader."}
	}
	defer func() { _ = keys.Stop() }()
	for key := range keys.Keys() {
		e, err := kv.Get(ctx, key)
		if err != nil {
			continue
		}
		var r struct {
			State string    `json:"state"`
			At    time.Time `json:"at"`
			Until time.Time `json:"until"`
		}
		if json.Unmarshal(e.Value(), &r) != nil || r.State == connectors.StateClosed || r.State == "" {
			continue
		}
		return Finding{
			check, Warning, fmt.Sprintf("%s since %s: calls of hosted tools are refused as GATEWAY_UNAVAILABLE", strings.ReplaceAll(r.State, "_", " "), r.At.UTC().Format(time.RFC3339)),
			"The gateway has failed several times in a row. The breaker closes by itself with the first call after its cooldown that succeeds; see docs/runbooks/breaker.md.",
		}
	}
	return ok(check, "closed")
}

// hosted asks a worker as a session that may use hosted tools, and says what it
// answers about them.
func (p *Patient) hosted(ctx context.Context) []Finding {
	const check = "hosted tools"
	within := 3 * p.Wait // also for a gateway that hangs: the worker answers before
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	p.forbade()
	deadline := nats.Header{subjects.HeaderDeadline: {strconv.FormatInt(time.Now().Add(within*9/10).UnixMilli(), 10)}}
	m, err := p.search(ctx, deadline, "doctor probe", probe+","+manage)
	switch {
	case err != nil && p.forbade():
		return []Finding{skipped(check, "ask as session "+p.Session+" of tenant "+p.Tenant)}
	case err != nil:
		return nil // the search without them says it
	}
	var r subjects.BridgeReply
	var found subjects.SearchResult
	if subjects.Decode(m.Data, &r) != nil || r.IsError || subjects.Decode(r.Result, &found) != nil {
		return []Finding{{check, Failed, "a session that has manage_connections gets no search: " + clip(m.Data), "The code and message say why."}}
	}
	n := found.Connectors
	switch {
	case n == nil:
		return []Finding{ok(check, "the workers have nothing to say against them for session %s", p.Session)}
	case n.Status == connectors.StatusNotSetUp:
		return []Finding{{check, Warning, "the user of session " + p.Session + " has no identity at the gateway yet", "The user's first manage_connections makes one, or give the user a token (gateway.credentials)."}}
	case n.Reason == connectors.ReasonSignInExpired:
		return []Finding{{check, Failed, "the workers' token for the user of session " + p.Session + " is refused, or there is none", "Sign in again, and give the workers the new token; one in their environment is read at their start."}}
	}
	return []Finding{{check, Failed, "the workers do not reach the gateway: " + n.Status + " " + n.Reason, "Where it can be reached from here, look at the workers' way there: proxy, certificates, egress of their network policy; and at the breaker."}}
}
