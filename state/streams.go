package state

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"toolbridge/subjects"
)

// checkStreams refuses to work on a TOOLBRIDGE_* stream that takes subjects the
// contract does not name, or that lets the headers of a publisher do more than
// publish.
func checkStreams(ctx context.Context, js jetstream.JetStream, space subjects.Space) error {
	lister := js.ListStreams(ctx)
	var faults []string
	for info := range lister.Info() {
		if !strings.HasPrefix(info.Config.Name, subjects.StreamPrefix) {
			continue
		}
		if fault := streamFault(info.Config, space); fault != "" {
			faults = append(faults, fmt.Sprintf("stream %s %s", info.Config.Name, fault))
		}
	}
	if err := lister.Err(); err != nil {
		return fmt.Errorf("listing streams: %w%s", err, advice(err))
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return fmt.Errorf("%s; correct it, or delete it and let the worker make it", strings.Join(faults, "; "))
}

func streamFault(cfg jetstream.StreamConfig, space subjects.Space) string {
	switch {
	case cfg.AllowMsgSchedules:
		return "allows scheduled messages, so any publisher could send for others later"
	case cfg.AllowRollup:
		return "allows roll-up, so any publisher could purge it"
	case cfg.AllowMsgTTL:
		return "allows a TTL per message, so any publisher could make records vanish"
	case cfg.AllowMsgCounter:
		return "allows counters, so any publisher could change values"
	}
	allowed := func(subject string) bool {
		for _, s := range space.Streams() {
			partition := s.Name == subjects.StreamCalls && strings.HasPrefix(cfg.Name, s.Name)
			if cfg.Name != s.Name && !partition {
				continue
			}
			for _, a := range s.Subjects {
				if covers(a, subject) {
					return true
				}
			}
		}
		return false
	}
	if len(cfg.Subjects) == 0 {
		return "takes no subject of its own (a mirror or source), which the contract does not name"
	}
	if cfg.Mirror != nil || len(cfg.Sources) > 0 {
		return "copies from other streams, which the contract does not name"
	}
	for _, subject := range cfg.Subjects {
		if !allowed(subject) {
			return fmt.Sprintf("takes subject %s, which is not the contract's", subject)
		}
	}
	return ""
}

// covers reports whether every subject that matches inner matches outer.
func covers(outer, inner string) bool {
	o, i := strings.Split(outer, "."), strings.Split(inner, ".")
	for k, t := range o {
		if t == ">" {
			return len(i) > k
		}
		if k >= len(i) || i[k] == ">" {
			return false
		}
		if t != "*" && t != i[k] {
			return false
		}
	}
	return len(o) == len(i)
}
