package connectors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"toolbridge/state"
	"toolbridge/subjects"
)

// Identities are the guest identities of users who have none of their own. They
// stand in a bucket that only workers may read, tokens included; nothing of them is
// logged or goes into a message.
//
// An identity is created once, also by many workers at once: who creates it has
// written so before, the others wait, and whoever goes on for one that was lost
// sends the same idempotency key.
type Identities struct {
	cfg IdentitiesConfig
	kv  jetstream.KeyValue
	now func() time.Time

	mu    sync.Mutex
	known map[Who]kept
}

// IdentitiesConfig is what Identities need.
type IdentitiesConfig struct {
	// Create asks the gateway, which has one effect for all requests of one key.
	Create func(ctx context.Context, req GuestRequest, key string) (*GuestReply, error)
	// State reads what was written last.
	State *state.State
	// Disabled is nous.guest: false. Nothing is created, and nobody is a guest.
	Disabled bool
}

// NewIdentities keeps identities in that bucket.
func NewIdentities(cfg IdentitiesConfig, bucket jetstream.KeyValue) *Identities {
	return &Identities{cfg: cfg, kv: bucket, now: time.Now, known: map[Who]kept{}}
}

// identity is what the bucket says of one user.
type identity struct {
	Version   int           `json:"v"`
	State     identityState `json:"state"`
	ID        string        `json:"identity,omitempty"`
	Token     string        `json:"token,omitempty"`
	Owner     string        `json:"owner,omitempty"` // of the attempt under way
	Until     int64         `json:"until,omitempty"` // unix milliseconds: when the attempt counts as lost, or when the next may be made
	Code      string        `json:"code,omitempty"`  // why the last attempt failed
	Message   string        `json:"message,omitempty"`
	ChangedAt string        `json:"changed_at"`
}

type identityState string

const (
	identityCreating identityState = "creating"
	identityReady    identityState = "ready"
	identityFailed   identityState = "failed"  // may be tried again
	identityRefused  identityState = "refused" // for good
)

// kept is an identity as it was read.
type kept struct {
	identity
	at time.Time
}

const (
	identityVersion = 1
	// createWithin is when an attempt to create an identity counts as lost. One that
	// is only slow goes on: both carry the same key, so that there is one identity.
	createWithin = 15 * time.Second
	// createPoll is how often another worker's attempt is looked at.
	createPoll = 100 * time.Millisecond
	// availableFor is for how long Allowed believes what it has read.
	availableFor = 2 * time.Second
	// maxKnown bounds the identities that are remembered.
	maxKnown = 100_000
)

// GuestFailure is why there is no guest identity. Its text is the gateway's.
type GuestFailure struct {
	Code    string
	Message string
	// Refused says that no later attempt is made.
	Refused    bool
	RetryAfter time.Duration // how long until the next attempt, where that is known
}

func (f *GuestFailure) Error() string {
	if f.Message == "" {
		return "the gateway created no guest identity: " + f.Code
	}
	return f.Message
}

// noIdentity is ErrNoIdentity with what the last attempt failed of.
type noIdentity struct{ last *GuestFailure }

func (e *noIdentity) Error() string        { return ErrNoIdentity.Error() }
func (e *noIdentity) Is(target error) bool { return target == ErrNoIdentity }

// LastFailure is why the last attempt to create an identity failed, where an error
// that is ErrNoIdentity knows it.
func LastFailure(err error) (*GuestFailure, bool) {
	var e *noIdentity
	if errors.As(err, &e) && e.last != nil {
		return e.last, true
	}
	return nil, false
}

// Token implements Credentials: the guest's, or ErrNoIdentity. It creates nothing.
// A user who was refused for good gets the *GuestFailure.
func (g *Identities) Token(ctx context.Context, who Who) (Credential, error) {
	if g.cfg.Disabled {
		return Credential{}, ErrNoIdentity
	}
	if k, ok := g.remembered(who); ok && k.State == identityReady {
		return k.credential(), nil
	}
	i, _, err := g.read(ctx, who)
	if err != nil {
		return Credential{}, err
	}
	switch i.State {
	case identityReady:
		return i.credential(), nil
	case identityRefused:
		return Credential{}, i.failure(g.now())
	case identityFailed:
		return Credential{}, &noIdentity{i.failure(g.now())}
	}
	return Credential{}, ErrNoIdentity
}

// Allowed reports whether a user without an identity of their own is a guest, or may
// become one.
func (g *Identities) Allowed(ctx context.Context, who Who) bool {
	if g.cfg.Disabled {
		return false
	}
	k, ok := g.remembered(who)
	if !ok || k.State != identityReady && g.now().Sub(k.at) > availableFor {
		i, _, err := g.read(ctx, who)
		if err != nil {
			return false
		}
		k.identity = i
	}
	return k.State != identityRefused
}

// Create returns the guest's credential and creates the identity when there is
// none. The error is a *GuestFailure, or one of the store or of ctx.
func (g *Identities) Create(ctx context.Context, who Who) (Credential, error) {
	if g.cfg.Disabled {
		return Credential{}, ErrNoIdentity
	}
	owner, began := nuid.Next(), g.now()
	for {
		i, revision, err := g.read(ctx, who)
		if err != nil {
			return Credential{}, err
		}
		now := g.now()
		until := time.UnixMilli(i.Until)
		switch i.State {
		case identityReady:
			return i.credential(), nil
		case identityRefused:
			return Credential{}, i.failure(now)
		case identityFailed:
			if changed, err := time.Parse(time.RFC3339Nano, i.ChangedAt); now.Before(until) || err == nil && changed.After(began) {
				return Credential{}, i.failure(now) // of the attempt that was waited for, or too fresh to be repeated
			}
		case identityCreating:
			if i.Owner != owner && now.Before(until) {
				if !pause(ctx, nil, createPoll) {
					return Credential{}, fmt.Errorf("waiting for a guest identity that another worker creates: %w", ctx.Err())
				}
				continue
			}
		}
		revision, err = g.write(ctx, who, identity{State: identityCreating, Owner: owner, Until: now.Add(createWithin).UnixMilli()}, revision)
		if changedMeanwhile(err) {
			continue
		}
		if err != nil {
			return Credential{}, err
		}
		return g.create(ctx, who, revision)
	}
}

// create asks the gateway and writes down what came of it.
func (g *Identities) create(ctx context.Context, who Who, revision uint64) (Credential, error) {
	reply, err := g.cfg.Create(ctx, GuestRequest(who), guestKey(who))
	var next identity
	if err != nil {
		next = failed(err, g.now())
	} else {
		next = identity{State: identityReady, ID: reply.Identity, Token: reply.Token}
	}
	// What happened is written down although the caller may have gone.
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWithin)
	defer cancel()
	_, wrote := g.write(writing, who, next, revision)
	switch {
	case next.State == identityReady: // the same for every attempt, whoever writes it
		return next.credential(), nil
	case changedMeanwhile(wrote):
		if i, _, err := g.read(writing, who); err == nil && i.State == identityReady {
			return i.credential(), nil
		}
	}
	return Credential{}, next.failure(g.now())
}

// failed is what is kept of an attempt that brought no identity: a refusal for good
// where the gateway has answered that it will not, else when to try again.
func failed(err error, now time.Time) identity {
	out := identity{State: identityFailed, Code: "GUEST_FAILED", Message: oneLine(err.Error(), maxMessageChars)}
	f, ok := AsFailure(err)
	if !ok {
		return out
	}
	out.Code = f.Code
	if f.Message != "" {
		out.Message = oneLine(f.Message, maxMessageChars)
	}
	if !f.Retryable() && f.Status >= 400 && f.Status < 500 && f.Status != 408 {
		out.State = identityRefused
	}
	if f.RetryAfter > 0 {
		out.Until = now.Add(f.RetryAfter).UnixMilli()
	}
	return out
}

// guestKey is the same for one user, whichever worker asks and however often.
func guestKey(who Who) string {
	sum := sha256.Sum256([]byte("toolbridge guest\x00" + who.Tenant + "\x00" + who.User))
	return hex.EncodeToString(sum[:16])
}

func (i *identity) credential() Credential {
	return Credential{Token: i.Token, Guest: true, ManagedTools: true}
}

func (i *identity) failure(now time.Time) *GuestFailure {
	f := &GuestFailure{Code: i.Code, Message: i.Message, Refused: i.State == identityRefused}
	if until := time.UnixMilli(i.Until); i.Until > 0 && until.After(now) {
		f.RetryAfter = until.Sub(now)
	}
	return f
}

func identityKey(who Who) string { return who.Tenant + "." + who.User }

// read reads from the bucket's leader; the zero identity is none.
func (g *Identities) read(ctx context.Context, who Who) (i identity, revision uint64, err error) {
	if subjects.CheckToken("tenant", who.Tenant) != nil || subjects.CheckToken("user", who.User) != nil {
		return i, 0, fmt.Errorf("%w: %q is no user", ErrNoIdentity, oneLine(who.User, subjects.MaxToken))
	}
	value, revision, err := g.cfg.State.GetFresh(ctx, subjects.BucketIdentities, identityKey(who))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		revision = 0
	case err != nil:
		return i, 0, fmt.Errorf("reading the identity of a user: %w", err)
	default:
		if err := subjects.Decode(value, &i); err != nil || i.Version != identityVersion {
			return i, 0, fmt.Errorf("the identity of user %s of tenant %s can not be read", who.User, who.Tenant)
		}
	}
	g.remember(who, i)
	return i, revision, nil
}

func (g *Identities) write(ctx context.Context, who Who, i identity, revision uint64) (uint64, error) {
	i.Version, i.ChangedAt = identityVersion, moment(g.now())
	value, err := subjects.Encode(i)
	if err != nil {
		return 0, fmt.Errorf("writing the identity of a user: %w", err)
	}
	written, err := g.kv.Update(ctx, identityKey(who), value, revision)
	if err != nil {
		return 0, fmt.Errorf("writing the identity of a user: %w", err)
	}
	g.remember(who, i)
	return written, nil
}

func (g *Identities) remembered(who Who) (kept, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k, ok := g.known[who]
	return k, ok
}

func (g *Identities) remember(who Who, i identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= maxKnown {
		clear(g.known) // they are read again
	}
	g.known[who] = kept{i, g.now()}
}

// Refused forgets a token that the gateway refused, so that it is read again.
func (g *Identities) Refused(who Who, token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known[who].Token == token {
		delete(g.known, who)
	}
}

// changedMeanwhile reports whether a write came too late.
func changedMeanwhile(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch)
}

// storeWithin bounds a write of what has happened.
const storeWithin = 10 * time.Second
