package connectors

import (
	"context"
	"time"
)

// Breakers are the circuit breakers before one gateway, one for each tenant.
type Breakers struct{}

// States of a breaker.
const (
	StateClosed   = "closed"
	StateOpen     = "open"
	StateHalfOpen = "half_open"
)

// Allow asks whether an entry may be sent. It may when failure is nil; done must
// then be called once, with the outcome of the whole entry: nil, or its error.
// Otherwise failure is KindOpen with the time until the next try may be let
// through, and done is nil.
func (b *Breakers) Allow(ctx context.Context, tenant string) (done func(err error), failure *Failure) {
	return func(error) {}, nil
}

// State is a tenant's state on this worker, and, when it is not closed, how long
// until a try may be let through. It sends nothing.
func (b *Breakers) State(tenant string) (state string, retryAfter time.Duration) {
	return StateClosed, 0
}
