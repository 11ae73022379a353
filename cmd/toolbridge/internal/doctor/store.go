package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// nearly is from which share of a limit it is time to do something.
const nearly = 0.8

// storage looks at JetStream's limits for this account.
func (p *Patient) storage(ctx context.Context, js jetstream.JetStream) []Finding {
	const check = "jetstream"
	ctx, cancel := p.within(ctx)
	defer cancel()
	p.forbade()
	info, err := js.AccountInfo(ctx)
	switch {
	case err == nil:
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return []Finding{{check, Failed, "JetStream is not enabled", "Enable jetstream in the server's configuration, and for this account."}}
	case p.forbade():
		return []Finding{skipped(check, "look at JetStream")}
	default:
		return []Finding{{check, Failed, "JetStream does not answer: " + err.Error(), "Look at the server's log; in a cluster, whether it has a leader."}}
	}
	list := []Finding{ok(check, "%d streams, %d consumers, %s stored", info.Streams, info.Consumers, bytes(info.Store))}
	for _, l := range []struct {
		what      string
		used, max int64
		show      func(uint64) string
	}{
		{"storage", int64(info.Store), info.Limits.MaxStore, bytes},
		{"streams", int64(info.Streams), int64(info.Limits.MaxStreams), number},
		{"consumers", int64(info.Consumers), int64(info.Limits.MaxConsumers), number},
	} {
		if l.max > 0 && float64(l.used) >= nearly*float64(l.max) {
			list = append(list, Finding{"jetstream " + l.what, Warning, fmt.Sprintf("%s of %s used", l.show(uint64(l.used)), l.show(uint64(l.max))), "Raise the account's limit before it is reached: then calls are refused as BUSY."})
		}
	}
	return list
}

// named is a stream of the contract, as people know it.
type named struct {
	stream, shown string
	work, dead    bool
	expires       bool
}

func (p *Patient) contract(partitions int) []named {
	list := []named{
		{subjects.StreamResults, subjects.StreamResults, false, false, true},
		{subjects.StreamDecisions, subjects.StreamDecisions, false, false, true},
		{subjects.StreamAudit, subjects.StreamAudit, false, false, true},
		{subjects.StreamDead, subjects.StreamDead, false, true, true},
		{"OBJ_" + subjects.ObjectsCatalogs, subjects.ObjectsCatalogs, false, false, false},
		{"OBJ_" + subjects.ObjectsBlobs, subjects.ObjectsBlobs, false, false, false},
	}
	for i := range partitions {
		name := fmt.Sprintf("%s_%d", subjects.StreamCalls, i)
		list = append(list, named{name, name, true, false, false})
	}
	for _, b := range subjects.Buckets(partitions) {
		list = append(list, named{"KV_" + b, b, false, false, false})
	}
	return list
}

// streams looks at the shared state: is all of it there, replicated, and is there
// room.
func (p *Patient) streams(ctx context.Context, js jetstream.JetStream) []Finding {
	const check = "shared state"
	p.forbade()
	first, cancel := p.within(ctx)
	_, err := js.Stream(first, subjects.StreamCalls+"_0")
	cancel()
	switch {
	case err == nil:
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return []Finding{{check, Failed, "there is none yet", "Start a worker: it makes its streams and buckets."}}
	case p.forbade():
		return []Finding{skipped(check, "look at the streams")}
	default:
		return []Finding{{check, Failed, err.Error(), "Look at the server's log; in a cluster, whether the streams have leaders."}}
	}
	partitions := 1
	for ; partitions < 64; partitions++ {
		ctx, cancel := p.within(ctx)
		_, err := js.Stream(ctx, fmt.Sprintf("%s_%d", subjects.StreamCalls, partitions))
		cancel()
		if err != nil {
			break
		}
	}
	var list []Finding
	replicas, seen := 0, 0
	for _, n := range p.contract(partitions) {
		asking, cancel := p.within(ctx)
		s, err := js.Stream(asking, n.stream)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			switch n.shown {
			case subjects.BucketBreakers, subjects.BucketConnections, subjects.BucketServers, subjects.BucketIdentities:
				continue // made only where there is a gateway
			}
			list = append(list, Finding{n.shown, Failed, "it is missing", "Start a worker again: it makes what is missing. What it held is lost."})
			continue
		}
		if err != nil {
			list = append(list, Finding{n.shown, Failed, "it can not be read: " + err.Error(), "Look at the server's log; in a cluster, whether it has a leader."})
			continue
		}
		seen++
		info := s.CachedInfo()
		if replicas == 0 {
			replicas = info.Config.Replicas
		}
		list = append(list, p.stream(ctx, s, info, n, replicas)...)
	}
	if Worst(list) == OK {
		list = append(list, ok(check, "%d streams and buckets, %d partitions of calls, %d replicas", seen, partitions, replicas))
	}
	return list
}

func (p *Patient) stream(ctx context.Context, s jetstream.Stream, info *jetstream.StreamInfo, n named, replicas int) []Finding {
	var list []Finding
	if limit := info.Config.MaxBytes; limit > 0 && float64(info.State.Bytes) >= nearly*float64(limit) {
		list = append(list, Finding{n.shown, Warning, fmt.Sprintf("%s of %s used", bytes(info.State.Bytes), bytes(uint64(limit))), "Raise its max_bytes (nats stream edit), or find out who fills it: when it is full, requests that need it are refused as BUSY."})
	}
	if info.Config.Replicas != replicas {
		list = append(list, Finding{n.shown, Warning, fmt.Sprintf("%d replicas, the others have %d", info.Config.Replicas, replicas), "Give all the same number (nats stream edit --replicas, and bus.replicas of the workers)."})
	}
	if c := info.Cluster; c != nil {
		for _, r := range c.Replicas {
			if r.Offline || !r.Current {
				list = append(list, Finding{n.shown, Warning, fmt.Sprintf("replica %s is not current (%d behind)", r.Name, r.Lag), "Look at that server; with one more lost the stream may stop."})
			}
		}
		if c.Name != "" && info.Config.Replicas == 1 && len(p.Conn.DiscoveredServers()) > 0 {
			list = append(list, Finding{n.shown, Warning, "one replica in a cluster", "Set bus.replicas: 3; the loss of one server loses it."})
		}
	}
	if n.dead && info.State.Msgs > 0 {
		list = append(list, Finding{n.shown, Warning, fmt.Sprintf("%d calls could not be served", info.State.Msgs), "Each says why: nats stream view " + n.stream})
	}
	if n.work {
		list = append(list, p.queue(ctx, s, n)...)
	}
	return list
}

// queue looks at the workers' consumer of one partition.
func (p *Patient) queue(ctx context.Context, s jetstream.Stream, n named) []Finding {
	ctx, cancel := p.within(ctx)
	defer cancel()
	c, err := s.Consumer(ctx, subjects.QueueWorkers)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return []Finding{{n.shown, Failed, "no worker takes its calls", "Start a worker."}}
	}
	if err != nil {
		return []Finding{{n.shown, Failed, "its consumer can not be read: " + err.Error(), ""}}
	}
	info := c.CachedInfo()
	const many = 1000
	if info.NumPending > many {
		return []Finding{{n.shown, Warning, fmt.Sprintf("%d calls wait for a free worker", info.NumPending), "Start more workers, or give each more slots (bus.call_slots)."}}
	}
	if info.NumRedelivered > 0 {
		return []Finding{{n.shown, Warning, fmt.Sprintf("%d calls have lost a worker and are tried again", info.NumRedelivered), "Look for workers that end or hang: their log says why."}}
	}
	return nil
}

// serverTime is the time of the server that answers the API.
func serverTime(ctx context.Context, nc *nats.Conn) (time.Time, error) {
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+subjects.StreamResults, nil)
	if err != nil {
		return time.Time{}, err
	}
	var info struct {
		At    time.Time `json:"ts"`
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return time.Time{}, err
	}
	if info.Error != nil {
		return time.Time{}, errors.New(info.Error.Description)
	}
	if info.At.IsZero() {
		return time.Time{}, errors.New("the server does not say its time")
	}
	return info.At, nil
}

func bytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[i:i+1] + "iB"
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }
