package connectors

import (
	"context"
	"errors"
	"fmt"

	"toolbridge/subjects"
)

// rename gives one account another alias, at the portal. The account is found once
// and written down: a run that goes on for a lost one renames the same account, which
// is harmless to repeat.
func (m *Manage) rename(ctx context.Context, c ManageCall, t ManageTarget) ManageEnd {
	key := operationKey(c.Tenant, c.Session, operationID(c.Tenant, c.Session, c.CallID, c.Index))
	o, _, err := m.operations.load(ctx, key)
	switch {
	case err == nil && o.Phase == settled:
		return o.end()
	case err == nil:
	case errors.Is(err, errNoOperation):
		r, slotErr := m.find(ctx, c.Who, t)
		if slotErr != nil {
			return ManageEnd{Error: slotErr, Unsent: true, Again: ctx.Err() != nil}
		}
		o = newOperation(c, ActionRename)
		o.Phase, o.Renamed = starting, r
		if o, err = m.operations.create(ctx, key, o); err != nil {
			return m.unstored(ctx, err)
		}
	default:
		return m.unstored(ctx, err)
	}
	sentNow(c)
	done, err := m.gateway.Client.RenameAccount(ctx, c.Who, o.Renamed.Connection, o.Renamed.Alias)
	if err != nil && ctx.Err() != nil {
		return ManageEnd{Error: unserved("renaming the account", err), Again: true}
	}
	o, err = m.conclude(ctx, key, func(o *operation) {
		if err != nil {
			o.Failure = notRenamed(o.Renamed, err)
			return
		}
		o.Renamed.Done = true
		if done.Alias != nil {
			o.Renamed.Alias = oneLine(*done.Alias, maxLabel)
		}
		if done.Label != "" {
			o.Renamed.Label = oneLine(done.Label, maxLabel)
		}
	})
	if err != nil {
		return m.unstored(ctx, err)
	}
	return o.end()
}

// find is the one account that is to be renamed.
func (m *Manage) find(ctx context.Context, who Who, t ManageTarget) (*renamed, *subjects.SlotError) {
	accounts, err := m.gateway.Client.PortalAccounts(ctx, who)
	if err != nil {
		return nil, unserved("reading the accounts", err)
	}
	found := named(accounts, t.Name, t.Alias)
	switch {
	case len(found) == 0:
		return nil, &subjects.SlotError{
			Code: subjects.CodeToolError, Reason: "rename_none",
			Message: fmt.Sprintf("%s has no account %q: %s. An account with an alias goes by it, not by its label", t.Name, t.Alias, namesOf(accounts, t.Name)),
		}
	case len(found) > 1:
		return nil, &subjects.SlotError{
			Code: subjects.CodeToolError, Reason: "rename_ambiguous",
			Message: fmt.Sprintf("%d accounts of %s go by %q; the user can tell them apart on the accounts page", len(found), t.Name, t.Alias),
		}
	case found[0].Retired:
		return nil, retiredAccount(t.Name)
	}
	return &renamed{Connection: found[0].ConnectionID, Connector: t.Name, Alias: t.To, Label: oneLine(found[0].Label, maxLabel)}, nil
}

// codeRetired is the portal's code for an account that a newer one has replaced.
const codeRetired = "connection_retired"

func retiredAccount(connector string) *subjects.SlotError {
	return &subjects.SlotError{
		Code: subjects.CodeToolError, Reason: "rename_retired",
		Message: "this account of " + connector + " is retired: it can not be renamed. Connect the app again to have one that can",
	}
}

// notRenamed says why the portal did not rename an account.
func notRenamed(r *renamed, err error) *subjects.SlotError {
	f, ok := AsFailure(err)
	e := &subjects.SlotError{Code: subjects.CodeToolError}
	switch {
	case !ok:
		return unserved("renaming the account", err)
	case f.Status == 409 && f.Code == codeRetired:
		return retiredAccount(r.Connector)
	case f.Status == 409:
		e.Reason, e.Message = "rename_conflict", fmt.Sprintf("another account of %s has the alias %q already; choose another one", r.Connector, r.Alias)
	case f.Status == 404 && f.Code == "connection_not_found":
		e.Reason, e.Message = "rename_gone", "the account is not there any more; look with status"
	case f.Status == 404, f.Status == 405:
		e.Reason, e.Message = "rename_unsupported", "accounts can not be renamed here: the portal does not offer it"
	default:
		return unserved("renaming the account", err)
	}
	return e
}
