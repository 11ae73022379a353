package connectors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

const (
	askWithin      = 5 * time.Second
	keepToken      = 5 * time.Minute // without expires_at
	keepNone       = 2 * time.Second // that a user has no identity
	keepFailure    = time.Second     // that nobody answered
	beforeExpiry   = 5 * time.Second // a token is asked for again so long before it ends
	maxTokenReply  = 64 << 10
	maxKeptTokens  = 20_000
	maxErrorInText = 200
)

// BusCredentials asks a service on the bus for users' tokens, by request on
// <prefix>.<tenant>._credentials.<user>, and keeps each until it expires. Questions
// about one user that come together are asked once.
type BusCredentials struct {
	nc    *nats.Conn
	space subjects.Space

	mu    sync.Mutex
	users map[Who]*tokenOnBus
}

// tokenOnBus is what is known of one user.
type tokenOnBus struct {
	asking  chan struct{} // closed when the question under way has ended; nil: none
	cred    Credential
	err     error
	until   time.Time
	refused string // a token that the gateway refused
}

// NewBusCredentials sends nothing yet.
func NewBusCredentials(nc *nats.Conn, space subjects.Space) *BusCredentials {
	return &BusCredentials{nc: nc, space: space, users: map[Who]*tokenOnBus{}}
}

// Token implements Credentials.
func (b *BusCredentials) Token(ctx context.Context, who Who) (Credential, error) {
	if subjects.CheckToken("tenant", who.Tenant) != nil || subjects.CheckToken("user", who.User) != nil {
		return Credential{}, ErrNoIdentity
	}
	for {
		b.mu.Lock()
		u := b.user(who)
		if time.Now().Before(u.until) {
			cred, err := u.cred, u.err
			b.mu.Unlock()
			return cred, err
		}
		if u.asking == nil {
			u.asking = make(chan struct{})
			refused := u.refused
			b.mu.Unlock()
			return b.ask(ctx, who, u, refused)
		}
		asking := u.asking
		b.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return Credential{}, ctx.Err()
		}
	}
}

// Refused gives a token up that the gateway refused; the next question says so.
func (b *BusCredentials) Refused(who Who, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u := b.users[who]; u != nil && u.err == nil && u.cred.Token == token {
		u.refused, u.until = token, time.Time{}
	}
}

// user is the record of a user. It is locked.
func (b *BusCredentials) user(who Who) *tokenOnBus {
	u := b.users[who]
	if u == nil {
		if len(b.users) >= maxKeptTokens {
			now := time.Now()
			for w, old := range b.users {
				if old.asking == nil && (!now.Before(old.until) || len(b.users) >= maxKeptTokens) {
					delete(b.users, w)
				}
			}
		}
		u = &tokenOnBus{}
		b.users[who] = u
	}
	return u
}

// ask puts the one question. When its own caller goes away nothing is kept, so that
// the next asks again.
func (b *BusCredentials) ask(ctx context.Context, who Who, u *tokenOnBus, refused string) (Credential, error) {
	cred, keep, err := b.request(ctx, who, refused)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(u.asking)
	u.asking = nil
	if ctx.Err() != nil && err != nil {
		return Credential{}, err
	}
	u.cred, u.err, u.until = cred, err, time.Now().Add(keep)
	if err == nil && cred.Token != refused {
		u.refused = ""
	}
	return cred, err
}

func (b *BusCredentials) request(ctx context.Context, who Who, refused string) (Credential, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	body, err := subjects.Encode(subjects.CredentialRequest{Refused: refused != ""})
	if err != nil {
		return Credential{}, keepFailure, err
	}
	m := &nats.Msg{
		Subject: b.space.Credentials(who.Tenant, who.User), Data: body,
		Header: nats.Header{subjects.HeaderKind: {subjects.KindCredential}},
	}
	reply, err := b.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return Credential{}, keepFailure, fmt.Errorf("nobody answers on %s", m.Subject)
	case err != nil:
		return Credential{}, keepFailure, fmt.Errorf("asking on %s: %w", m.Subject, err)
	case len(reply.Data) > maxTokenReply:
		return Credential{}, keepFailure, fmt.Errorf("the answer on %s has %d bytes; at most %d are read", m.Subject, len(reply.Data), maxTokenReply)
	case reply.Header.Get(subjects.HeaderErrorCode) != "":
		return Credential{}, keepFailure, fmt.Errorf("the answer on %s is an error: %s", m.Subject, oneLine(reply.Header.Get(subjects.HeaderError), maxErrorInText))
	}
	var r subjects.CredentialReply
	if subjects.Decode(reply.Data, &r) != nil { // its text could hold a token
		return Credential{}, keepFailure, fmt.Errorf("the answer on %s is none that the bus contract knows", m.Subject)
	}
	switch {
	case r.Error != "":
		return Credential{}, keepFailure, fmt.Errorf("the answer on %s is an error: %s", m.Subject, oneLine(r.Error, maxErrorInText))
	case r.Token == "":
		return Credential{}, keepNone, ErrNoIdentity
	case !validToken(r.Token):
		return Credential{}, keepFailure, fmt.Errorf("the token on %s holds characters that a header can not carry", m.Subject)
	}
	cred := credentialOf(r.Token)
	if r.ManagedTools != nil {
		cred.ManagedTools = *r.ManagedTools
	}
	if r.ExpiresAt == "" {
		return cred, keepToken, nil
	}
	at, err := time.Parse(time.RFC3339, r.ExpiresAt)
	if err != nil {
		return Credential{}, keepFailure, fmt.Errorf("the answer on %s has an expires_at that is no RFC 3339 time", m.Subject)
	}
	left := time.Until(at)
	if left <= 0 {
		return Credential{}, keepFailure, fmt.Errorf("the token on %s has expired already", m.Subject)
	}
	return cred, max(left-beforeExpiry, min(left, time.Second)), nil
}
