package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// wantPayload is the max_payload of the shipped configurations.
const wantPayload = 8 << 20

// connection looks at the server and the way to it.
func (p *Patient) connection() []Finding {
	const check = "connection"
	rtt, err := p.Conn.RTT()
	if err != nil {
		return []Finding{{check, Failed, "the server does not answer: " + err.Error(), "Look at the server's log and at the network between."}}
	}
	list := []Finding{ok(check, "NATS %s at %s, round trip %s", p.Conn.ConnectedServerVersion(), p.Conn.ConnectedUrlRedacted(), rtt.Round(10*time.Microsecond))}
	if !p.Conn.HeadersSupported() {
		list = append(list, Finding{"headers", Failed, "the server carries no message headers", "Remove no_header_support from its configuration: traces, deadlines and errors travel in headers."})
	}
	switch size := p.Conn.MaxPayload(); {
	case size < 1<<20:
		list = append(list, Finding{"max_payload", Failed, fmt.Sprintf("max_payload is %d bytes", size), "Set max_payload: 8MB in the server's configuration: assemblies and results do not fit."})
	case size < wantPayload:
		list = append(list, Finding{"max_payload", Warning, fmt.Sprintf("max_payload is %d bytes", size), "Set max_payload: 8MB in the server's configuration: larger assemblies and results are refused or cut into chunks."})
	default:
		list = append(list, ok("max_payload", "%d bytes", size))
	}
	return list
}

// inbox sends a message to this connection's own reply subjects, which every
// answer needs, and tries whether it could read those of others.
func (p *Patient) inbox(ctx context.Context) []Finding {
	const check = "inbox"
	ctx, cancel := p.within(ctx)
	defer cancel()
	p.forbade()
	reply := p.Conn.NewInbox()
	sub, err := p.Conn.SubscribeSync(reply)
	if err != nil {
		return []Finding{{check, Failed, err.Error(), ""}}
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := p.Conn.FlushWithContext(ctx); err != nil {
		return []Finding{{check, Failed, err.Error(), ""}}
	}
	const advice = "\"toolbridge permissions\" prints what each role must be allowed, and the inbox prefix that its client must use (--inbox-prefix)."
	if p.forbade() {
		return []Finding{{check, Failed, "the server does not let this connection subscribe to its own replies (" + reply + ")", advice}}
	}
	list := []Finding{ok(check, "replies arrive")}
	// Publishing there is the workers' part, so being forbidden to is no fault.
	if err := p.Conn.Publish(reply, nil); err == nil {
		if _, err := sub.NextMsgWithContext(ctx); err != nil && !p.forbade() {
			list[0] = Finding{check, Failed, "a message to this connection's own inbox does not arrive", advice}
		}
	}
	p.forbade()
	if !p.Conn.AuthRequired() {
		list[0].Detail += "; the server asks nobody who they are"
		return list
	}
	all, err := p.Conn.SubscribeSync("_INBOX.>")
	if err != nil {
		return list
	}
	defer func() { _ = all.Unsubscribe() }()
	if p.Conn.FlushWithContext(ctx) == nil && !p.forbade() {
		list = append(list, Finding{"inboxes", Warning, "this connection may subscribe to everybody's replies", advice})
	}
	return list
}

// clock compares this machine's with the server's, which times leases, expiries
// and deadlines.
func (p *Patient) clock(ctx context.Context) []Finding {
	const check = "clock"
	ctx, cancel := p.within(ctx)
	defer cancel()
	sent := time.Now()
	there, err := serverTime(ctx, p.Conn)
	if err != nil {
		if p.forbade() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
			return []Finding{skipped(check, "ask the server for its time")}
		}
		return []Finding{{check, Skipped, "the server does not say its time: " + err.Error(), ""}}
	}
	took := time.Since(sent)
	off := there.Sub(sent.Add(took / 2))
	off = max(0, off.Abs()-took/2) // what the way there can not explain
	const advice = "Synchronise the clocks (NTP): deadlines, leases and the expiry of approvals compare them."
	switch {
	case off > 5*time.Second:
		return []Finding{{check, Failed, fmt.Sprintf("this machine and the server are %s apart", off.Round(10*time.Millisecond)), advice}}
	case off > time.Second:
		return []Finding{{check, Warning, fmt.Sprintf("this machine and the server are %s apart", off.Round(10*time.Millisecond)), advice}}
	}
	return []Finding{ok(check, "within %s of the server's", max(off, time.Millisecond).Round(time.Millisecond))}
}
