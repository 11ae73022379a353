package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestTheMicroServiceIsNamedAndDescribed(t *testing.T) {
	s := newSession(t)
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		m, err := s.nc.Request("$SRV."+verb+".toolbridge", nil, wait)
		if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		if !strings.Contains(string(m.Data), `"name":"toolbridge"`) {
			t.Errorf("%s: %s", verb, m.Data)
		}
		if verb != "INFO" {
			continue
		}
		for _, endpoint := range []string{"assemble", "bridge", "preflight"} {
			if !strings.Contains(string(m.Data), `"subject":"`+*prefix+`.*.*.`+endpoint+`"`) {
				t.Errorf("no endpoint %s: %s", endpoint, m.Data)
			}
		}
		if !strings.Contains(string(m.Data), `"queue_group":"workers"`) {
			t.Errorf("not in the queue group workers: %s", m.Data)
		}
	}
}

func TestRepliesGoOnlyWhereRepliesBelong(t *testing.T) {
	s, victim := newSession(t), newSession(t)
	aims := []string{victim.subject("event"), victim.subject("exec"), victim.subject("result.c1"), *prefix + "." + *tenant + "._exec.run.mcp-x", "_inbox.x", "elsewhere"}
	var heard []*nats.Subscription
	for _, aim := range aims {
		sub, err := victim.nc.SubscribeSync(aim)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, sub)
	}
	if err := victim.nc.FlushTimeout(wait); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"assemble", "bridge", "preflight"} {
		for _, aim := range aims {
			if err := s.nc.PublishRequest(s.subject(verb), aim, []byte(usual())); err != nil {
				t.Fatal(err)
			}
		}
	}
	// These answers tell that the requests before them have been handled.
	s.assemble(usual())
	s.send(s.subject("bridge"), `{}`)
	s.send(s.subject("preflight"), `{}`)
	if err := victim.nc.FlushTimeout(wait); err != nil {
		t.Fatal(err)
	}
	for i, sub := range heard {
		if n, _, err := sub.Pending(); n != 0 || err != nil {
			t.Errorf("%d answers arrived on %s (%v)", n, aims[i], err)
		}
	}
}

func TestSubjectsThatAreNoSessionsAreLeftAlone(t *testing.T) {
	s := newSession(t)
	for _, verb := range []string{"assemble", "bridge", "preflight"} {
		m, err := s.nc.Request(*prefix+"."+*tenant+"._approvals."+verb, []byte(usual()), 300*time.Millisecond)
		if err == nil {
			t.Errorf("%s on a reserved second token was answered: %s", verb, m.Data)
		}
	}
}
