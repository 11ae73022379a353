package approval

import (
	"context"
	"errors"
	"time"

	"toolbridge/subjects"
)

// Store keeps what people are asked and what they decided. What a method
// acknowledges survives the process. Every read sees what was acknowledged to
// anybody before it.
type Store interface {
	// Add keeps a pending approval, and nothing where one of that id was kept
	// before, settled or not.
	Add(ctx context.Context, tenant string, a subjects.Approval) error
	// Pending returns one; ErrNone when it is not pending.
	Pending(ctx context.Context, tenant, id string) (subjects.Approval, error)
	// EachPending calls f for every pending approval of a tenant, in the order
	// in which they were added, until f returns false.
	EachPending(ctx context.Context, tenant string, f func(subjects.Approval) bool) error
	// Remove ends a pending approval. Its id can not be added again.
	Remove(ctx context.Context, tenant, id string) error

	// Settle keeps a decision unless one stands, and returns the one that stands.
	Settle(ctx context.Context, s Settled) (Settled, error)
	// Decision returns the one that stands; ErrNone when there is none.
	Decision(ctx context.Context, tenant, id string) (Settled, error)

	// Choice returns a remembered choice, also a forgotten one, with its
	// revision; ErrNone when there never was one.
	Choice(ctx context.Context, tenant, id string) (Choice, uint64, error)
	// SetChoice replaces it at a revision, 0 for none; ErrChanged when it is at
	// another by now.
	SetChoice(ctx context.Context, tenant, id string, c Choice, revision uint64) error
	// EachOld calls f for every pending approval of any tenant that was added
	// before a time.
	EachOld(ctx context.Context, before time.Time, f func(tenant, id string) bool) error
	// EachChoice calls f for every choice of a tenant until f returns false.
	EachChoice(ctx context.Context, tenant string, f func(Choice) bool) error
	// DropChoices deletes what was last written before a time and is forgotten, or
	// holds for a session only.
	DropChoices(ctx context.Context, before time.Time) error
}

// ErrNone and ErrChanged: see Store.
var (
	ErrNone    = errors.New("there is none")
	ErrChanged = errors.New("it was changed meanwhile")
)

// Settled is one decision with what it was about: a value of the stream of
// decisions.
type Settled struct {
	subjects.Decision
	Tenant string `json:"tenant"`
	// Approval that was settled, without the arguments; their digest stays.
	Approval subjects.Approval `json:"approval"`
	// Seq orders decisions; the store gives it.
	Seq uint64 `json:"-"`
}

// Choice is a remembered choice as it is kept. A forgotten one stays, so that
// the decision that made it can not bring it back.
type Choice struct {
	subjects.Remembered
	// For whom it holds beside Session or User of the above: a session's choice
	// holds while the session belongs to the same user.
	Of string `json:"of,omitempty"`
	// Seq of the decision that made it.
	Seq       uint64             `json:"seq"`
	Forgotten *subjects.Decision `json:"forgotten,omitempty"`
}
