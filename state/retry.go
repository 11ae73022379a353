package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// attempt is how long one try may take: a request that was lost with the
	// server that had it would otherwise be waited for to the end.
	attempt = 10 * time.Second
	pause   = 500 * time.Millisecond
)

// Retry runs f until it succeeds, or fails with more than a missing answer, or ctx
// ends. f gets 10 s for one try, and must be safe to repeat. Each try that had no
// answer is logged; the last one's error is returned when ctx ends.
func Retry(ctx context.Context, log *slog.Logger, f func(context.Context) error) error {
	for {
		err := try(ctx, f)
		if err == nil || !Unanswered(err) || ctx.Err() != nil {
			return err
		}
		log.Warn("no answer from JetStream; trying again", "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}

// OpenConsumer makes a durable consumer, or takes the one that is there, as Retry
// does.
func OpenConsumer(ctx context.Context, log *slog.Logger, stream jetstream.Stream, cfg jetstream.ConsumerConfig) (c jetstream.Consumer, err error) {
	err = Retry(ctx, log, func(ctx context.Context) (err error) {
		c, err = stream.CreateOrUpdateConsumer(ctx, cfg)
		return err
	})
	return c, err
}

func try(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return f(ctx)
}

// Unanswered reports whether an error says only that no answer came: the server
// was away or restarted, or a cluster has no leader yet. The same again may
// succeed.
func Unanswered(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode == errCodeUnavailable || api.ErrorCode == errCodeNoLeader
	}
	for _, e := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrNoServers,
		jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Codes of the JetStream API, which the client library has no names for.
const (
	errCodeUnavailable = 10008
	errCodeNoLeader    = 10009
)
