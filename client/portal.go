package client

import (
	"context"
	"fmt"

	"toolbridge/subjects"
)

// Portal manages one user's connected accounts, for the back end of a desktop. Who
// uses it acts as that user; the bus's permissions say who may.
type Portal struct {
	client       *Client
	tenant, user string
}

// Portal names a user of a tenant. It sends nothing; the error is a
// *subjects.ErrToken.
func (c *Client) Portal(tenant, user string) (*Portal, error) {
	if err := subjects.CheckToken("tenant", tenant); err != nil {
		return nil, err
	}
	if err := subjects.CheckToken("user", user); err != nil {
		return nil, err
	}
	return &Portal{client: c, tenant: tenant, user: user}, nil
}

// Open begins with the accounts: a user who has no identity at the gateway gets a
// guest's.
func (p *Portal) Open(ctx context.Context) (*subjects.PortalReply, error) {
	return p.send(ctx, subjects.PortalRequest{Action: subjects.PortalOpen})
}

// List returns the accounts. It creates nothing.
func (p *Portal) List(ctx context.Context) (*subjects.PortalReply, error) {
	return p.send(ctx, subjects.PortalRequest{Action: subjects.PortalList})
}

// Rename gives an account another alias and returns the accounts as they are then.
func (p *Portal) Rename(ctx context.Context, account, alias string) (*subjects.PortalReply, error) {
	return p.send(ctx, subjects.PortalRequest{Action: subjects.PortalRename, Account: account, Alias: alias})
}

// Disconnect removes an account and returns those that are left.
func (p *Portal) Disconnect(ctx context.Context, account string) (*subjects.PortalReply, error) {
	return p.send(ctx, subjects.PortalRequest{Action: subjects.PortalDisconnect, Account: account})
}

func (p *Portal) send(ctx context.Context, r subjects.PortalRequest) (*subjects.PortalReply, error) {
	body, err := subjects.Encode(r)
	if err == nil {
		body, err = p.client.request(ctx, p.client.cfg.Space.Portal(p.tenant, p.user), body, p.client.cfg.Timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("portal of user %s, %s: %w", p.user, r.Action, err)
	}
	var reply subjects.PortalReply
	if err := subjects.Decode(body, &reply); err != nil {
		return nil, fmt.Errorf("portal of user %s, %s: the reply: %w", p.user, r.Action, err)
	}
	return &reply, nil
}
