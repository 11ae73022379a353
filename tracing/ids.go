package tracing

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// ChildID is the identity of a span that belongs to another one and is known by
// its name and number: every worker that has the parent's knows it.
func ChildID(parent trace.SpanID, name string, number int) (id trace.SpanID) {
	h := fnv.New64a()
	_, _ = h.Write(parent[:])
	_, _ = h.Write([]byte(name))
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(number))
	_, _ = h.Write(n[:])
	binary.BigEndian.PutUint64(id[:], mix(h.Sum64()))
	if !id.IsValid() {
		id[7] = 1
	}
	return id
}

// mix spreads the bits of a number (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// At is the span of that identity in the same trace, as a parent for others.
func At(sc trace.SpanContext, id trace.SpanID) trace.SpanContext {
	return sc.WithSpanID(id).WithRemote(true)
}

// IDs generates identities for a tracer provider: random ones, save for a span
// whose identity is known beforehand. A provider without it draws others for
// those, and what hangs below them has no parent then.
type IDs struct{}

type (
	wantedID    struct{}
	wantedTrace struct{}
)

func withID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, wantedID{}, id)
}

func withTrace(ctx context.Context, id trace.TraceID) context.Context {
	return context.WithValue(ctx, wantedTrace{}, id)
}

// NewIDs implements the SDK's IDGenerator.
func (IDs) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if id, ok := ctx.Value(wantedTrace{}).(trace.TraceID); ok {
		t = id
	}
	for !t.IsValid() {
		binary.NativeEndian.PutUint64(t[:8], rand.Uint64()) //nolint:gosec // identities, no secrets
		binary.NativeEndian.PutUint64(t[8:], rand.Uint64()) //nolint:gosec // as above
	}
	return t, IDs{}.NewSpanID(ctx, t)
}

// NewSpanID implements the SDK's IDGenerator.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) (s trace.SpanID) {
	if id, ok := ctx.Value(wantedID{}).(trace.SpanID); ok && id.IsValid() {
		return id
	}
	for !s.IsValid() {
		binary.NativeEndian.PutUint64(s[:], rand.Uint64()) //nolint:gosec // identities, no secrets
	}
	return s
}
