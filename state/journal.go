package state

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// Calls is the part of the state that carries tool calls: per partition a work
// queue and a journal, and for all of them results, decisions, audit and dead
// letters.
type Calls struct {
	Partitions []Partition
	Approvals  jetstream.KeyValue
	Decisions  jetstream.Stream
	Results    jetstream.Stream
	JS         jetstream.JetStream
}

// Partition is one work queue with its journal.
type Partition struct {
	Number  int
	Queue   jetstream.Stream
	Journal jetstream.KeyValue
	Bucket  string // of the journal
}

// Of returns the partition of a session: all its calls are in one.
func (c *Calls) Of(tenant, session string) *Partition {
	h := fnv.New32a()
	_, _ = h.Write([]byte(tenant + "." + session))
	return &c.Partitions[h.Sum32()%uint32(len(c.Partitions))]
}

const (
	journalTTL    = 25 * time.Hour
	journalBytes  = 4 << 30
	queueBytes    = 1 << 30
	resultBytes   = 4 << 30
	decisionBytes = 256 << 20
	auditBytes    = 4 << 30
	deadBytes     = 256 << 20
	approvalBytes = 256 << 20
)

// OpenCalls creates or checks what calls need. partitions is how many queues and
// journals there are, 1 to 64; 0 means one. Every worker of a deployment must
// be given the same number: another number than what exists is refused.
func OpenCalls(ctx context.Context, js jetstream.JetStream, space subjects.Space, cfg Config, partitions int) (*Calls, error) {
	cfg = cfg.withDefaults()
	if partitions == 0 {
		partitions = 1
	}
	if partitions < 1 || partitions > 64 {
		return nil, fmt.Errorf("%d partitions: 1 to 64 are possible", partitions)
	}
	if err := checkPartitions(ctx, js, partitions); err != nil {
		return nil, err
	}
	c := &Calls{JS: js}
	for p := range partitions {
		n := strconv.Itoa(p)
		part := Partition{Number: p, Bucket: subjects.BucketJournal + "_" + n}
		var err error
		if part.Queue, err = openStream(ctx, js, jetstream.StreamConfig{
			Name: subjects.StreamCalls + "_" + n, Description: "Toolbridge: accepted calls and wake-ups", Subjects: space.CallSubjects(p),
			Metadata:  map[string]string{partitionsKey: strconv.Itoa(partitions)},
			Retention: jetstream.WorkQueuePolicy, MaxBytes: cfg.bytes(queueBytes), Duplicates: 100 * time.Millisecond, Replicas: cfg.Replicas,
		}); err != nil {
			return nil, err
		}
		if part.Journal, err = openBucket(ctx, js, jetstream.KeyValueConfig{
			Bucket: part.Bucket, Description: "Toolbridge: what happened to each call", History: 1,
			TTL: journalTTL, MaxBytes: cfg.bytes(journalBytes), Replicas: cfg.Replicas, Storage: jetstream.FileStorage,
		}); err != nil {
			return nil, err
		}
		c.Partitions = append(c.Partitions, part)
	}
	var err error
	for _, s := range []struct {
		to  *jetstream.Stream
		cfg jetstream.StreamConfig
	}{
		{&c.Results, jetstream.StreamConfig{
			Name: subjects.StreamResults, Subjects: []string{space.Result("*", "*", "*")}, Description: "Toolbridge: final results, the last per call",
			MaxMsgsPerSubject: 1, MaxAge: journalTTL, MaxBytes: cfg.bytes(resultBytes), AllowDirect: true,
		}},
		{&c.Decisions, jetstream.StreamConfig{
			Name: subjects.StreamDecisions, Subjects: []string{space.DecisionSubject("*", "*")}, Description: "Toolbridge: decisions on approvals, one each",
			MaxAge: 30 * 24 * time.Hour, MaxBytes: cfg.bytes(decisionBytes), AllowDirect: true,
		}},
		{new(jetstream.Stream), jetstream.StreamConfig{
			Name: subjects.StreamAudit, Subjects: []string{space.AuditSubject("*", "*")}, Description: "Toolbridge: who ran and decided what",
			MaxAge: 90 * 24 * time.Hour, MaxBytes: cfg.bytes(auditBytes), DenyDelete: true, DenyPurge: true,
		}},
		{new(jetstream.Stream), jetstream.StreamConfig{
			Name: subjects.StreamDead, Subjects: []string{space.DeadSubject("*", "*", "*")}, Description: "Toolbridge: what could not be served, and why",
			MaxAge: 30 * 24 * time.Hour, MaxBytes: cfg.bytes(deadBytes),
		}},
	} {
		s.cfg.Replicas, s.cfg.Duplicates = cfg.Replicas, 100*time.Millisecond
		if *s.to, err = openStream(ctx, js, s.cfg); err != nil {
			return nil, err
		}
	}
	c.Approvals, err = openBucket(ctx, js, jetstream.KeyValueConfig{
		Bucket: subjects.BucketApprovals, Description: "Toolbridge: pending approvals and remembered choices", History: 1,
		LimitMarkerTTL: journalTTL, // what is settled leaves a marker for that long
		MaxBytes:       cfg.bytes(approvalBytes), Replicas: cfg.Replicas, Storage: jetstream.FileStorage,
	})
	return c, err
}

// partitionsKey is the metadata of a queue that says how many there are.
const partitionsKey = "toolbridge.partitions"

// checkPartitions refuses another number of partitions than the deployment has: a
// session's calls would be looked for where they are not.
func checkPartitions(ctx context.Context, js jetstream.JetStream, partitions int) error {
	first, err := js.Stream(ctx, subjects.StreamCalls+"_0")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for partitions: %w%s", err, advice(err))
	}
	have := first.CachedInfo().Config.Metadata[partitionsKey]
	if have == strconv.Itoa(partitions) {
		return nil
	}
	if have == "" {
		have = "an unknown number of"
	}
	return fmt.Errorf("the calls of this deployment are in %s partitions, and %d are configured: give every worker the same number; to change it, let all calls of the last day end, stop the workers and delete the streams %s_* and the buckets %s_*",
		have, partitions, subjects.StreamCalls, subjects.BucketJournal)
}

// bytes is a bucket's bound, scaled where the deployment is given less room.
func (c Config) bytes(standard int64) int64 {
	if c.CallBytes > 0 && c.CallBytes < standard {
		return c.CallBytes
	}
	return standard
}

func openStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	cfg.Discard, cfg.Storage = jetstream.DiscardNew, jetstream.FileStorage
	if cfg.Name == subjects.StreamResults {
		cfg.Discard = jetstream.DiscardOld // a result that nobody fetched for a day makes room
	}
	s, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = js.Stream(ctx, cfg.Name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("opening stream %s: %w%s", cfg.Name, err, advice(err))
	}
	have := s.CachedInfo().Config
	switch {
	case have.Retention != cfg.Retention:
		return nil, fmt.Errorf("stream %s has retention %s, it needs %s; delete it and let the worker make it", cfg.Name, have.Retention, cfg.Retention)
	case cfg.Discard == jetstream.DiscardNew && have.Discard != jetstream.DiscardNew:
		return nil, fmt.Errorf("stream %s discards old messages when it is full, so accepted calls would be lost; set discard to new", cfg.Name)
	case cfg.DenyPurge && (!have.DenyPurge || !have.DenyDelete):
		return nil, fmt.Errorf("stream %s can be purged or deleted from; it must deny both", cfg.Name)
	}
	return s, nil
}
