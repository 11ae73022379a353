package state

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

const (
	// breakerTTL removes the records of tenants that no longer come. It is longer
	// than any cooldown.
	breakerTTL   = 24 * time.Hour
	breakerBytes = 16 << 20
)

// OpenBreakers creates the bucket of the gateway's circuit breakers where it is
// missing, and checks it where it exists. Only workers need it.
func OpenBreakers(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.KeyValue, error) {
	cfg = cfg.withDefaults()
	return openBucket(ctx, js, jetstream.KeyValueConfig{
		Bucket: subjects.BucketBreakers, Description: "Toolbridge: transitions of the gateway's circuit breakers, and the probe's lease; workers only",
		TTL: breakerTTL, MaxBytes: cfg.bytes(breakerBytes), History: 1, Replicas: cfg.Replicas, Storage: jetstream.FileStorage,
	})
}
