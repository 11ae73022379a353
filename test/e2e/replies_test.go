//go:build unix

package e2e

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAimedRepliesReachNobody: a reply subject that points at another session, an
// executor, an approver, a bucket or a stream gets no answer there.
func TestAimedRepliesReachNobody(t *testing.T) {
	p := run(t, nil, "dev", "--nats-port", "0", "--store", t.TempDir())
	url := p.ready()
	hostile, victim := newAgent(t, url, "default"), newAgent(t, url, "default")
	js, err := jetstream.New(victim.nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "VICTIM", Subjects: []string{"victim.>"}})
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "victims"})
	if err != nil {
		t.Fatal(err)
	}
	grants, err := js.KeyValue(t.Context(), "toolbridge_grants")
	if err != nil {
		t.Fatal(err)
	}
	aims := []string{
		victim.subject("event"), victim.subject("exec"), victim.subject("exec.cancel"), victim.subject("result.c1"), victim.subject("assemble"),
		"toolbridge.v1.default._exec.run.mcp-x", "toolbridge.v1.default._approvals.decide.mallory", "toolbridge.v1.default._hooks.run.x",
		"toolbridge.v1._calls.x", "toolbridge.v1._dead.x", "victim.taken", "$KV.victims.key", "$KV.toolbridge_grants.default.s", "_inbox.x", "_INBOXES.x", "plain",
	}
	heard := make([]*nats.Subscription, len(aims))
	for i, aim := range aims {
		if heard[i], err = victim.nc.SubscribeSync(aim); err != nil {
			t.Fatal(err)
		}
	}
	if err := victim.nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"assemble", "bridge", "preflight"} {
		for _, aim := range aims {
			for _, body := range []string{`{"tools":[]}`, `nonsense`} {
				if err := hostile.nc.PublishRequest(hostile.subject(verb), aim, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
			if err := hostile.nc.PublishRequest("toolbridge.v1.default.br$ken."+verb, aim, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		hostile.raw(verb, `{"tools":[]}`) // what came before has been handled
	}
	if err := victim.nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	for i, sub := range heard {
		if n, _, err := sub.Pending(); n != 0 || err != nil {
			t.Errorf("%d messages arrived on %s (%v)", n, aims[i], err)
		}
	}
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("the stream holds %d messages (%v)", info.State.Msgs, err)
	}
	for name, bucket := range map[string]jetstream.KeyValue{"victims": kv, "toolbridge_grants": grants} {
		if keys, err := bucket.Keys(t.Context()); err == nil {
			t.Errorf("bucket %s holds %v", name, keys)
		}
	}
}
