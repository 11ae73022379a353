package connectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"toolbridge/subjects"
)

// Portal serves a user's own accounts to the back end of a desktop: nobody else may
// disconnect one. Everything is the portal's word; when the portal is down nothing is
// asked of the gateway instead.
type Portal struct{ gateway *Gateway }

// NewPortal needs a gateway that is started.
func NewPortal(g *Gateway) *Portal { return &Portal{g} }

// PortalChange is what a request has changed, for the audit.
type PortalChange struct {
	Type    string // identity.created, account.renamed, account.disconnected
	Account string // id
	Reason  string // the new alias
}

// Serve answers one request of that user. change is nil when nothing was changed.
// The error is a *subjects.Error.
func (p *Portal) Serve(ctx context.Context, who Who, r subjects.PortalRequest) (reply subjects.PortalReply, change *PortalChange, err error) {
	reply.Accounts = []subjects.Account{}
	if err := checkPortal(r); err != nil {
		return reply, nil, err
	}
	if !p.gateway.Available(ctx, who) {
		return reply, nil, subjects.NewError(subjects.CodeForbidden, "connected accounts are not available to this user")
	}
	cred, tokenErr := p.gateway.Credentials.Token(ctx, who)
	if errors.Is(tokenErr, ErrNoIdentity) {
		switch {
		case r.Action == subjects.PortalList: // there is nothing yet, and nobody is asked
			return reply, nil, nil
		case r.Action != subjects.PortalOpen:
			return reply, nil, noAccount(r.Account)
		case p.gateway.Identities == nil:
			return reply, nil, subjects.NewError(subjects.CodeForbidden, "this user has no sign-in at the gateway")
		}
		if cred, err = p.gateway.Identities.Create(ctx, who); err != nil {
			return reply, nil, portalError("setting connected apps up", err)
		}
		change = &PortalChange{Type: "identity.created"}
	} else if tokenErr != nil {
		return reply, nil, portalError("finding the user's sign-in", tokenErr)
	}
	if r.Action == subjects.PortalOpen {
		reply.Identity = "user"
		if cred.Guest {
			reply.Identity = "guest"
		}
	}
	accounts, err := p.gateway.Client.PortalAccounts(ctx, who)
	if err != nil {
		return reply, change, portalError("reading the accounts", err)
	}
	if r.Action == subjects.PortalRename || r.Action == subjects.PortalDisconnect {
		if accounts, change, err = p.alter(ctx, who, r, accounts); err != nil {
			return reply, change, err
		}
	}
	for _, a := range accounts {
		reply.Accounts = append(reply.Accounts, shownAccount(a))
	}
	return reply, change, nil
}

func checkPortal(r subjects.PortalRequest) error {
	bad := func(path, message string) error {
		e := subjects.NewError(subjects.CodeBadRequest, message)
		e.Path = path
		return e
	}
	switch r.Action {
	case subjects.PortalOpen, subjects.PortalList:
		return nil
	case subjects.PortalRename, subjects.PortalDisconnect:
	default:
		return bad("action", fmt.Sprintf("there is no action %.40q: open, list, rename or disconnect", r.Action))
	}
	if r.Account == "" || utf8.RuneCountInString(r.Account) > 128 {
		return bad("account", "account is the id of an account, 1 to 128 characters")
	}
	if r.Action == subjects.PortalRename && !alias.MatchString(r.Alias) {
		return bad("alias", fmt.Sprintf("%.40q can not be an alias: %s", r.Alias, aliasRule))
	}
	return nil
}

// alter renames or disconnects an account of the list, and returns the accounts as
// they are afterwards.
func (p *Portal) alter(ctx context.Context, who Who, r subjects.PortalRequest, accounts []Account) ([]Account, *PortalChange, error) {
	i := slices.IndexFunc(accounts, func(a Account) bool { return a.ConnectionID == r.Account })
	if i < 0 {
		return nil, nil, noAccount(r.Account)
	}
	if r.Action == subjects.PortalDisconnect {
		if err := p.gateway.Client.Disconnect(ctx, who, r.Account); err != nil {
			return nil, nil, portalError("disconnecting the account", err)
		}
		change := &PortalChange{Type: "account.disconnected", Account: r.Account}
		if now, err := p.gateway.Client.PortalAccounts(ctx, who); err == nil {
			return now, change, nil
		}
		return slices.Delete(accounts, i, i+1), change, nil
	}
	if accounts[i].Retired {
		return nil, nil, subjects.NewError(subjects.CodeBadRequest, "this account is retired: it can not be renamed")
	}
	done, err := p.gateway.Client.RenameAccount(ctx, who, r.Account, r.Alias)
	if err != nil {
		return nil, nil, portalError("renaming the account", err)
	}
	change := &PortalChange{Type: "account.renamed", Account: r.Account, Reason: r.Alias}
	if done.ConnectionID == r.Account {
		accounts[i] = *done
	} else {
		accounts[i].Alias = &r.Alias
	}
	return accounts, change, nil
}

func noAccount(id string) error {
	e := subjects.NewError(subjects.CodeBadRequest, fmt.Sprintf("the user has no account %.140q", id))
	e.Path = "account"
	return e
}

func shownAccount(a Account) subjects.Account {
	out := subjects.Account{
		ID: a.ConnectionID, Connector: oneLine(a.Connector, maxLabel), Label: oneLine(a.Label, maxLabel),
		Status: oneLine(a.Status, 40), Active: a.Active, Retired: a.Retired,
	}
	if a.Alias != nil {
		out.Alias = oneLine(*a.Alias, maxLabel)
	}
	return out
}

// portalError is what the back end is told about a request that the portal did not
// serve.
func portalError(doing string, err error) error {
	var guest *GuestFailure
	if errors.As(err, &guest) {
		code := subjects.CodeUnavailable
		if guest.Refused {
			code = subjects.CodeForbidden
		}
		e := subjects.NewError(code, doing+": "+guest.Error())
		e.RetryAfterMS = guest.RetryAfter.Milliseconds()
		return e
	}
	f, ok := AsFailure(err)
	if !ok {
		return subjects.NewError(subjects.CodeUnavailable, doing+": "+oneLine(err.Error(), maxMessageChars))
	}
	detail := strings.TrimSuffix(f.Code+": "+f.Message, ": ")
	tell := func(code subjects.Code, message string) error {
		e := subjects.NewError(code, message)
		if f.RetryAfter > 0 {
			e.RetryAfterMS = max(1, f.RetryAfter.Milliseconds())
		}
		return e
	}
	switch {
	case f.Kind == KindNoToken, f.Kind == KindAuth, f.Kind == KindForbidden, signInCode(f.Code):
		return tell(subjects.CodeForbidden, doing+": the portal refuses the user's sign-in ("+detail+")")
	case f.Status == 409 && f.Code == codeRetired:
		return tell(subjects.CodeBadRequest, doing+": the account is retired")
	case f.Status == 409:
		return tell(subjects.CodeBadRequest, doing+": the alias is taken by another account of this app")
	case f.Status == 404 && f.Code == "connection_not_found":
		return tell(subjects.CodeBadRequest, doing+": the account is not there any more")
	case f.Status == 404, f.Status == 405:
		return tell(subjects.CodeUnavailable, doing+": the portal does not offer it ("+detail+")")
	case f.Kind == KindRateLimited:
		return tell(subjects.CodeBusy, doing+": too many requests")
	case f.Kind == KindTimeout && errors.Is(err, context.DeadlineExceeded):
		return tell(subjects.CodeDeadlineExceeded, doing+" took longer than the request may")
	case f.Kind == KindRefused:
		return tell(subjects.CodeBadRequest, doing+": "+detail)
	}
	return tell(subjects.CodeUnavailable, doing+": the portal can not be reached ("+detail+")")
}
