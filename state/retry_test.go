package state_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/state"
)

func TestARequestWithoutAnAnswerIsTriedAgain(t *testing.T) {
	lost := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("opening bucket x: %w", ctx.Err())
	}
	broken := errors.New("the bucket has no TTL")
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	tests := []struct {
		name  string
		tries []func(context.Context) error
		want  error
	}{
		{"at once", []func(context.Context) error{fails(nil)}, nil},
		{"lost with the server", []func(context.Context) error{lost, fails(nats.ErrTimeout), lost, fails(nil)}, nil},
		{"no leader yet", []func(context.Context) error{fails(&jetstream.APIError{Code: 503, ErrorCode: 10008}), fails(nil)}, nil},
		{"an answer that says no", []func(context.Context) error{lost, fails(broken)}, broken},
		{"no JetStream", []func(context.Context) error{fails(jetstream.ErrJetStreamNotEnabled)}, jetstream.ErrJetStreamNotEnabled},
		{"no room", []func(context.Context) error{fails(&jetstream.APIError{Code: 503, ErrorCode: 10047})}, &jetstream.APIError{Code: 503, ErrorCode: 10047}},
		{"to the end", []func(context.Context) error{lost, lost, lost, lost, lost, lost, lost}, context.DeadlineExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n := 0
				err := state.Retry(ctx, slog.New(slog.DiscardHandler), func(ctx context.Context) error {
					n++
					return tt.tries[n-1](ctx)
				})
				if !errors.Is(err, tt.want) && fmt.Sprint(err) != fmt.Sprint(tt.want) {
					t.Errorf("Retry = %v, want %v", err, tt.want)
				}
				if tt.name != "to the end" && n != len(tt.tries) {
					t.Errorf("%d tries, want %d", n, len(tt.tries))
				}
				if tt.name == "to the end" && n < 5 {
					t.Errorf("%d tries only", n)
				}
			})
		})
	}
}
