package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// Approver decides on the calls of a tenant that need a person's word. It holds
// no state of its own: any number may act side by side, and the first decision
// stands.
type Approver struct {
	client       *Client
	tenant, name string
}

// Approver names one approver of a tenant; decisions carry that name. It sends
// nothing; the error is a *subjects.ErrToken.
func (c *Client) Approver(tenant, approver string) (*Approver, error) {
	if err := subjects.CheckToken("tenant", tenant); err != nil {
		return nil, err
	}
	if err := subjects.CheckToken("approver", approver); err != nil {
		return nil, err
	}
	return &Approver{client: c, tenant: tenant, name: approver}, nil
}

// Tenant is the approver's tenant.
func (a *Approver) Tenant() string { return a.tenant }

// Name is the approver's own token.
func (a *Approver) Name() string { return a.name }

// Request sends any message to list or decide (one of the Area constants) and
// returns the reply's JSON as it came. The typed methods are built on it.
func (a *Approver) Request(ctx context.Context, area string, message any) (json.RawMessage, error) {
	space := a.client.cfg.Space
	var subject string
	switch area {
	case subjects.AreaApprovalsList:
		subject = space.ApprovalList(a.tenant, a.name)
	case subjects.AreaApprovalsDecide:
		subject = space.ApprovalDecide(a.tenant, a.name)
	default:
		return nil, fmt.Errorf("request %s: an approver sends only to %s and %s", area, subjects.AreaApprovalsList, subjects.AreaApprovalsDecide)
	}
	body, err := subjects.Encode(message)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", area, err)
	}
	return a.client.request(ctx, subject, body, a.client.cfg.Timeout)
}

// List returns what waits for a decision and which choices are remembered,
// oldest first; of one session, or of all for "".
func (a *Approver) List(ctx context.Context, session string) (*subjects.ApprovalListReply, error) {
	body, err := a.Request(ctx, subjects.AreaApprovalsList, subjects.ApprovalListRequest{Session: session})
	if err != nil {
		return nil, fmt.Errorf("listing approvals: %w", err)
	}
	var reply subjects.ApprovalListReply
	if err := subjects.Decode(body, &reply); err != nil {
		return nil, fmt.Errorf("listing approvals: the reply: %w", err)
	}
	return &reply, nil
}

// Decide sends a decision and returns the one that stands. Sending the same
// again is safe. The error is a *subjects.Error: UNKNOWN_APPROVAL;
// ALREADY_DECIDED, EXPIRED or WITHDRAWN, with the Decision that stands;
// ARGUMENTS_CHANGED. Answer makes a decision that is bound to what was seen.
func (a *Approver) Decide(ctx context.Context, r subjects.ApprovalDecideRequest) (*subjects.Decision, error) {
	d, err := a.decide(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("deciding on approval %s: %w", r.ID, err)
	}
	return d, nil
}

// Forget withdraws a remembered choice, so that people are asked again.
func (a *Approver) Forget(ctx context.Context, id, reason string) (*subjects.Decision, error) {
	d, err := a.decide(ctx, subjects.ApprovalDecideRequest{Forget: id, Reason: reason})
	if err != nil {
		return nil, fmt.Errorf("forgetting choice %s: %w", id, err)
	}
	return d, nil
}

func (a *Approver) decide(ctx context.Context, r subjects.ApprovalDecideRequest) (*subjects.Decision, error) {
	body, err := a.Request(ctx, subjects.AreaApprovalsDecide, r)
	if err != nil {
		return nil, err
	}
	var d subjects.Decision
	if err := subjects.Decode(body, &d); err != nil {
		return nil, fmt.Errorf("the reply: %w", err)
	}
	return &d, nil
}

// Answer is a decision on what the approval shows: should other arguments than
// these be sent, it is refused with ARGUMENTS_CHANGED. Show people
// ArgumentsJSON, which is the exact text.
func Answer(a subjects.Approval, choice subjects.Choice, reason string) subjects.ApprovalDecideRequest {
	sum := sha256.Sum256([]byte(a.ArgumentsJSON))
	return subjects.ApprovalDecideRequest{ID: a.ID, Choice: choice, ArgumentsSHA256: hex.EncodeToString(sum[:]), Reason: reason}
}

// ApprovalNews is one message to approvers: a question, which may come more than
// once, or how one ended. One of Requested and Settled is not nil.
type ApprovalNews struct {
	Requested *subjects.Approval
	Settled   *subjects.Decision

	JSON json.RawMessage // as it came
}

// Watch subscribes to the tenant's questions and returns once the server knows
// it. From then on the tenant has an approver: every question is answered at
// once with an empty message, which decides nothing but tells the worker that
// somebody is there. What waited before is in List.
func (a *Approver) Watch(ctx context.Context) (*Feed[ApprovalNews], error) {
	space := a.client.cfg.Space
	requested, settled := space.ApprovalRequested(a.tenant), space.ApprovalSettled(a.tenant)
	return feed(ctx, a.client, subjects.KindApproval, func(m *nats.Msg) (ApprovalNews, error) {
		news := ApprovalNews{JSON: m.Data}
		if m.Subject == settled {
			news.Settled = &subjects.Decision{}
			return news, subjects.Decode(m.Data, news.Settled)
		}
		if subjects.ReplyAllowed(m.Reply, subjects.ReplyPrefixes()) {
			// A lost answer costs nothing: the server tells the worker who is there.
			_ = a.client.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{subjects.HeaderKind: {subjects.KindReply}}})
		}
		news.Requested = &subjects.Approval{}
		return news, subjects.Decode(m.Data, news.Requested)
	}, requested, settled)
}
