package state

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// OpenServers creates the bucket of the MCP servers that users had installed or
// enabled, or checks it. Only hosts that have such servers need it. It holds names;
// what is run stands in the operator's files.
func OpenServers(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.KeyValue, error) {
	cfg = cfg.withDefaults()
	const size = 16 << 20
	return openBucket(ctx, js, jetstream.KeyValueConfig{
		Bucket: subjects.BucketServers, Description: "Toolbridge: MCP servers that users had installed or enabled",
		History: 1, Replicas: cfg.Replicas, Storage: jetstream.FileStorage, MaxBytes: cfg.bytes(size),
	})
}
