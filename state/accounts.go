package state

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// Accounts are the buckets of what belongs to users' accounts at the gateway. Only
// workers may read them: the one holds links, the other tokens.
type Accounts struct {
	Operations jetstream.KeyValue // running and recent operations of manage_connections, expiring
	Identities jetstream.KeyValue // guest identities and their tokens
}

// operationTTL is how long an operation is known: longer than its call.
const operationTTL = 26 * time.Hour

const (
	operationBytes = 64 << 20
	identityBytes  = 64 << 20
)

// OpenAccounts creates the two buckets where they are missing, and checks them
// where they exist. Executors need neither, so Open leaves them out.
func OpenAccounts(ctx context.Context, js jetstream.JetStream, cfg Config) (*Accounts, error) {
	cfg = cfg.withDefaults()
	a := &Accounts{}
	for _, b := range []struct {
		to  *jetstream.KeyValue
		cfg jetstream.KeyValueConfig
	}{
		{&a.Operations, jetstream.KeyValueConfig{
			Bucket: subjects.BucketConnections, Description: "Toolbridge: running and recent operations of manage_connections; workers only",
			TTL: operationTTL, MaxBytes: cfg.bytes(operationBytes),
		}},
		{&a.Identities, jetstream.KeyValueConfig{
			Bucket: subjects.BucketIdentities, Description: "Toolbridge: guest identities at the gateway; workers only",
			MaxBytes: cfg.bytes(identityBytes),
		}},
	} {
		b.cfg.History, b.cfg.Replicas, b.cfg.Storage = 1, cfg.Replicas, jetstream.FileStorage
		var err error
		if *b.to, err = openBucket(ctx, js, b.cfg); err != nil {
			return nil, err
		}
	}
	return a, nil
}
