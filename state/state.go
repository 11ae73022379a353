package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// Config is how the buckets are made where they do not exist yet.
type Config struct {
	// Replicas of every bucket, 1 to 5; 0 means 1. Use 3 in a cluster.
	Replicas int
	// BindingTTL is how long a session's binding to a catalog lasts after its
	// last refresh; 0 means 25 hours (24 hours from the last use, and the hour
	// at most that workers wait between two refreshes).
	BindingTTL time.Duration
	// ToolsetTTL is how long a registration lasts without a heartbeat; 0 means
	// 30 seconds.
	ToolsetTTL time.Duration
	// CatalogBytes and BlobBytes bound the two object stores; 0 means 1 GiB
	// each. A full store answers BUSY.
	CatalogBytes, BlobBytes int64
	// CallBytes bounds each of the buckets and streams that calls need, where it
	// is less than their standard (256 MiB to 4 GiB); 0 means the standard.
	CallBytes int64
	// MaxBlob bounds one object on its way in and out; 0 means 64 MiB.
	MaxBlob int64
}

func (c Config) withDefaults() Config {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.BindingTTL == 0 {
		c.BindingTTL = 25 * time.Hour
	}
	if c.ToolsetTTL == 0 {
		c.ToolsetTTL = 30 * time.Second
	}
	if c.CatalogBytes == 0 {
		c.CatalogBytes = 1 << 30
	}
	if c.BlobBytes == 0 {
		c.BlobBytes = 1 << 30
	}
	if c.MaxBlob == 0 {
		c.MaxBlob = 64 << 20
	}
	return c
}

// State holds the opened buckets. It has no goroutine and needs no closing.
type State struct {
	Toolsets  jetstream.KeyValue // registrations of executors, expiring
	Revisions jetstream.KeyValue // when registrations last changed, expiring
	Bindings  jetstream.KeyValue // sessions' catalogs, expiring
	Grants    jetstream.KeyValue // what sessions may see and call
	Catalogs  *Blobs             // catalog content by hash
	Blobs     *Blobs             // definitions of toolsets, large bodies

	nc *nats.Conn
}

// revisionTTL is how long it is known when an executor's definitions last changed,
// after a worker last renewed it.
const revisionTTL = 25 * time.Hour

const (
	bindingBytes = 256 << 20
	toolsetBytes = 64 << 20
	grantBytes   = 64 << 20
)

// Open creates the buckets that are missing and checks those that exist. It
// fails when JetStream is not available, when an existing bucket or stream
// breaks the contract, or when the server has not the room asked for.
func Open(ctx context.Context, nc *nats.Conn, space subjects.Space, cfg Config) (*State, error) {
	cfg = cfg.withDefaults()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("opening JetStream: %w", err)
	}
	if err := checkStreams(ctx, js, space); err != nil {
		return nil, err
	}
	s := &State{nc: nc}
	if err := s.openRegistry(ctx, js, cfg); err != nil {
		return nil, err
	}
	for _, b := range []bucket{
		{&s.Revisions, jetstream.KeyValueConfig{
			Bucket: subjects.BucketRevisions, Description: "Toolbridge: at which revision an executor's definitions last changed",
			TTL: revisionTTL, MaxBytes: toolsetBytes,
		}},
		{&s.Bindings, jetstream.KeyValueConfig{
			Bucket: subjects.BucketBindings, Description: "Toolbridge: which catalogs a session assembled",
			TTL: cfg.BindingTTL, MaxBytes: bindingBytes,
		}},
		{&s.Grants, jetstream.KeyValueConfig{
			Bucket: subjects.BucketGrants, Description: "Toolbridge: what a session may see and call",
			MaxBytes: grantBytes,
		}},
	} {
		if err := b.open(ctx, js, cfg); err != nil {
			return nil, err
		}
	}
	if s.Catalogs, err = openObjects(ctx, js, subjects.ObjectsCatalogs, "Toolbridge: catalog content by hash", cfg.CatalogBytes, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenRegistry is Open for executors, which have no rights on more: only Toolsets
// and Blobs are set.
func OpenRegistry(ctx context.Context, nc *nats.Conn, cfg Config) (*State, error) {
	cfg = cfg.withDefaults()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("opening JetStream: %w", err)
	}
	s := &State{nc: nc}
	if err := s.openRegistry(ctx, js, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *State) openRegistry(ctx context.Context, js jetstream.JetStream, cfg Config) (err error) {
	toolsets := bucket{&s.Toolsets, jetstream.KeyValueConfig{
		Bucket: subjects.BucketToolsets, Description: "Toolbridge: live executors and their definitions",
		TTL: cfg.ToolsetTTL, LimitMarkerTTL: cfg.ToolsetTTL, MaxBytes: toolsetBytes,
	}}
	if err := toolsets.open(ctx, js, cfg); err != nil {
		return err
	}
	s.Blobs, err = openObjects(ctx, js, subjects.ObjectsBlobs, "Toolbridge: large bodies by hash", cfg.BlobBytes, cfg)
	return err
}

// bucket is one to open, and where it goes.
type bucket struct {
	to  *jetstream.KeyValue
	cfg jetstream.KeyValueConfig
}

func (b bucket) open(ctx context.Context, js jetstream.JetStream, cfg Config) (err error) {
	b.cfg.History, b.cfg.Replicas, b.cfg.Storage = 1, cfg.Replicas, jetstream.FileStorage
	*b.to, err = openBucket(ctx, js, b.cfg)
	return err
}

func openBucket(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, cfg)
		if errors.Is(err, jetstream.ErrBucketExists) { // another worker was faster, with another configuration
			kv, err = js.KeyValue(ctx, cfg.Bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening bucket %s: %w%s", cfg.Bucket, err, advice(err))
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading bucket %s: %w", cfg.Bucket, err)
	}
	if cfg.TTL > 0 && status.TTL() <= 0 {
		return nil, fmt.Errorf("bucket %s has no TTL, so its entries would never go; give it %s, or delete it and let the worker make it", cfg.Bucket, cfg.TTL)
	}
	if cfg.TTL == 0 && status.TTL() > 0 {
		return nil, fmt.Errorf("bucket %s expires its entries after %s, but they must stay; remove the TTL", cfg.Bucket, status.TTL())
	}
	return kv, nil
}

func openObjects(ctx context.Context, js jetstream.JetStream, bucket, description string, size int64, cfg Config) (*Blobs, error) {
	objects, err := js.ObjectStore(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		objects, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: bucket, Description: description, MaxBytes: size, Replicas: cfg.Replicas, Storage: jetstream.FileStorage,
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			objects, err = js.ObjectStore(ctx, bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening object store %s: %w%s", bucket, err, advice(err))
	}
	status, err := objects.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading object store %s: %w", bucket, err)
	}
	if status.TTL() > 0 {
		return nil, fmt.Errorf("object store %s expires objects after %s from their first put, also those in use; remove the TTL", bucket, status.TTL())
	}
	return &Blobs{objects: objects, max: cfg.MaxBlob}, nil
}

// advice adds what to do to the errors that an operator meets first.
func advice(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return " (is JetStream enabled on the server and for this account?)"
	case errors.As(err, &api) && (api.ErrorCode == errCodeNoRoom || api.ErrorCode == 10023 || api.ErrorCode == 10028):
		return " (the server has not the room asked for: raise its max_file_store or the account's limit, or configure smaller stores)"
	}
	return ""
}

// GetFresh reads the last value of a key from the stream's leader, so that a
// write that was acknowledged before is seen. It returns
// jetstream.ErrKeyNotFound for keys that are absent or deleted.
func (s *State) GetFresh(ctx context.Context, bucket, key string) (value []byte, revision uint64, err error) {
	return getFresh(ctx, s.nc, bucket, key)
}

// Last reads the last message of a subject from the stream's leader. It returns
// jetstream.ErrMsgNotFound when there is none.
func (s *State) Last(ctx context.Context, stream, subject string) (data []byte, seq uint64, err error) {
	data, seq, _, err = last(ctx, s.nc, stream, subject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		err = fmt.Errorf("reading %s of stream %s: %w", subject, stream, err)
	}
	return data, seq, err
}

// Full reports whether an error says that a stream took no more.
func Full(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == errCodeStoreFailed || api.ErrorCode == errCodeNoRoom)
}

// Codes of the server's API: a stream that discards new messages is full, and
// the server is out of storage.
const (
	errCodeStoreFailed jetstream.ErrorCode = 10077
	errCodeNoRoom      jetstream.ErrorCode = 10047
)
