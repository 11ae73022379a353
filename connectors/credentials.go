package connectors

import (
	"context"
	"errors"
)

// Who is whose account is used. User comes from the session's grant; in dev it may
// be the configured one.
type Who struct{ Tenant, User string }

// ErrNoIdentity says that a user has no identity at the gateway yet.
var ErrNoIdentity = errors.New("no identity at the gateway yet")

// Credential is what a request of one user is sent with.
type Credential struct {
	Token        string // bearer token
	Guest        bool   // of a guest identity
	ManagedTools bool   // the identity may use connectors; a guest always may
}

// Credentials finds users' tokens. The error is ErrNoIdentity where a user has
// none. It must be safe for many goroutines, quick, and bounded by ctx.
type Credentials interface {
	Token(ctx context.Context, who Who) (Credential, error)
}
