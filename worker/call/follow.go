package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// follower reads what was written to a stream since it last looked. A subject
// that was written several times meanwhile is read once where the stream keeps
// one message each.
type follower struct {
	js      jetstream.JetStream
	stream  string
	headers bool      // read no bodies
	from    time.Time // where to begin; zero: at the first message

	seen      uint64 // last message of the stream that was read
	delivered uint64 // last of the consumer
	consumer  jetstream.Consumer
}

const (
	followBatch = 500
	// followerIdle is after how long the server forgets a follower that does not
	// read any more.
	followerIdle = time.Minute
)

// errGap says that a message was lost on its way; it is read again.
var errGap = errors.New("a message was lost on its way")

// read hands every new message to note.
func (f *follower) read(ctx context.Context, note func(jetstream.Msg, *jetstream.MsgMetadata)) error {
	err := f.next(ctx, note)
	if err != nil {
		f.consumer = nil // made again behind the last message that was read
		return fmt.Errorf("reading stream %s: %w", f.stream, err)
	}
	return nil
}

func (f *follower) next(ctx context.Context, note func(jetstream.Msg, *jetstream.MsgMetadata)) error {
	stream, err := f.js.Stream(ctx, f.stream)
	if err != nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	if last < f.seen { // the stream was made anew
		f.seen, f.consumer = 0, nil
	}
	if last == f.seen {
		return nil
	}
	if f.consumer == nil {
		if err := f.open(ctx, stream); err != nil {
			return err
		}
	}
	for f.seen < last {
		batch, err := f.consumer.FetchNoWait(followBatch)
		if err != nil {
			return err
		}
		n := 0
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			if meta.Sequence.Consumer != f.delivered+1 {
				return errGap
			}
			n, f.delivered, f.seen = n+1, meta.Sequence.Consumer, meta.Sequence.Stream
			note(msg, meta)
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if n == 0 {
			f.seen = last // the rest is gone by now
		}
	}
	return nil
}

func (f *follower) open(ctx context.Context, stream jetstream.Stream) error {
	cfg := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: f.headers, MemoryStorage: true, Replicas: 1, InactiveThreshold: followerIdle,
	}
	switch {
	case f.seen > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.seen+1
	case !f.from.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &f.from
	}
	consumer, err := stream.CreateConsumer(ctx, cfg)
	if err != nil {
		return err
	}
	f.consumer, f.delivered = consumer, 0
	return nil
}
