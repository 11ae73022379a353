package state_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, bus.Leaks()...) }

func open(t *testing.T, s *server.Server) (*state.State, jetstream.JetStream, context.Context) {
	t.Helper()
	ctx := t.Context()
	nc := bus.Connect(t, s)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return st, js, ctx
}

func TestWorkersThatStartTogetherOpenTheSameBuckets(t *testing.T) {
	s := bus.Server(t)
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		nc := bus.Connect(t, s)
		all.Go(func() { _, errs[i] = state.Open(t.Context(), nc, subjects.Space{}, state.Config{}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestEqualBlobsAreStoredOnceAndAlwaysReadable(t *testing.T) {
	s := bus.Server(t)
	st, _, ctx := open(t, s)
	data := bytes.Repeat([]byte("definition "), 40_000)
	var all sync.WaitGroup
	names := make([]string, 6)
	for i := range names {
		all.Go(func() {
			name, err := st.Blobs.PutIfAbsent(ctx, data)
			if err != nil {
				t.Error(err)
				return
			}
			names[i] = name
			got, err := st.Blobs.Get(ctx, name)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("Get = %d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	for _, n := range names {
		if n != state.Hash(data) {
			t.Errorf("name = %s, want the hash %s", n, state.Hash(data))
		}
	}
	list, err := st.Blobs.List(ctx)
	if err != nil || len(list) != 1 {
		t.Errorf("List = %v, %v; want one object", list, err)
	}
	if _, err := st.Blobs.Get(ctx, "absent"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("Get of an absent object = %v", err)
	}
	if err := st.Blobs.Delete(ctx, names[0]); err != nil {
		t.Error(err)
	}
	if has, err := st.Blobs.Has(ctx, names[0]); has || err != nil {
		t.Errorf("Has after Delete = %v, %v", has, err)
	}
}

func TestObjectsAboveTheBoundAreRefusedBothWays(t *testing.T) {
	s := bus.Server(t)
	st, js, ctx := open(t, s)
	small, err := state.Open(ctx, js.Conn(), subjects.Space{}, state.Config{MaxBlob: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Blobs.PutIfAbsent(ctx, make([]byte, 11)); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("PutIfAbsent = %v", err)
	}
	name, err := st.Blobs.PutIfAbsent(ctx, make([]byte, 11))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.Blobs.Get(ctx, name); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("Get = %v", err)
	}
}

func TestObjectsThatOthersWroteCostTheConnectionNothing(t *testing.T) {
	s := bus.Server(t)
	st, js, ctx := open(t, s)
	good, err := st.Blobs.PutIfAbsent(ctx, []byte("good"))
	if err != nil {
		t.Fatal(err)
	}
	meta := func(name, members string) {
		t.Helper()
		subject := "$O." + subjects.ObjectsBlobs + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
		if _, err := js.Publish(ctx, subject, fmt.Appendf(nil, `{"name":%q,"bucket":%q,"size":4,"chunks":1,%s}`, name, subjects.ObjectsBlobs, members)); err != nil {
			t.Fatal(err)
		}
	}
	meta("long", `"nuid":"`+strings.Repeat("x", 5000)+`"`)
	meta("blank", `"nuid":"a >"`)
	meta("lines", `"nuid":"a\r\nPUB b 0\r\n"`)
	meta("wild", `"nuid":"*"`)
	meta("loop", `"nuid":"n","options":{"link":{"bucket":"`+subjects.ObjectsBlobs+`","name":"loop"}}`)
	for _, name := range []string{"", strings.Repeat("x", 6000), "long", "blank", "lines", "wild", "loop"} {
		if _, err := st.Blobs.Get(ctx, name); !errors.Is(err, state.ErrNotFound) {
			t.Errorf("Get(%.20q) = %v, want not found", name, err)
		}
	}
	if got, err := st.Blobs.Get(ctx, good); string(got) != "good" || err != nil {
		t.Errorf("the connection is gone: %q, %v", got, err)
	}
}

func TestAFreshReadSeesWritesDeletionsAndAbsence(t *testing.T) {
	s := bus.Server(t)
	st, _, ctx := open(t, s)
	read := func() string {
		v, _, err := st.GetFresh(ctx, subjects.BucketGrants, "t.s")
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return "absent"
		}
		if err != nil {
			return err.Error()
		}
		return string(v)
	}
	got := []string{read()}
	if _, err := st.Grants.PutString(ctx, "t.s", "one"); err != nil {
		t.Fatal(err)
	}
	got = append(got, read())
	if err := st.Grants.Delete(ctx, "t.s"); err != nil {
		t.Fatal(err)
	}
	got = append(got, read())
	if _, err := st.Grants.PutString(ctx, "t.s", "two"); err != nil {
		t.Fatal(err)
	}
	got = append(got, read())
	if err := st.Grants.Purge(ctx, "t.s"); err != nil {
		t.Fatal(err)
	}
	got = append(got, read())
	if diff := cmp.Diff([]string{"absent", "one", "absent", "two", "absent"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestStreamsThatBreakTheContractAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  jetstream.StreamConfig
		want string // "" means accepted
	}{
		{"the contract's own results", jetstream.StreamConfig{Name: "TOOLBRIDGE_RESULTS", Subjects: []string{"toolbridge.v1.*.*.result.*"}}, ""},
		{"a partition of the calls", jetstream.StreamConfig{Name: "TOOLBRIDGE_CALLS_3", Subjects: []string{"toolbridge.v1._calls.3.>"}}, ""},
		{"somebody else's stream", jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, AllowRollup: true}, ""},
		{"foreign subjects", jetstream.StreamConfig{Name: "TOOLBRIDGE_RESULTS", Subjects: []string{"toolbridge.v1.>"}}, "toolbridge.v1.>"},
		{"another stream's subjects", jetstream.StreamConfig{Name: "TOOLBRIDGE_AUDIT", Subjects: []string{"toolbridge.v1._dead.>"}}, "_dead"},
		{"an unknown name", jetstream.StreamConfig{Name: "TOOLBRIDGE_EXTRA", Subjects: []string{"toolbridge.v1._dead.>"}}, "TOOLBRIDGE_EXTRA"},
		{"roll-up", jetstream.StreamConfig{Name: "TOOLBRIDGE_AUDIT", Subjects: []string{"toolbridge.v1._audit.>"}, AllowRollup: true}, "roll-up"},
		{"message TTL", jetstream.StreamConfig{Name: "TOOLBRIDGE_DEAD", Subjects: []string{"toolbridge.v1._dead.>"}, AllowMsgTTL: true}, "TTL"},
		{"schedules", jetstream.StreamConfig{Name: "TOOLBRIDGE_DECISIONS", Subjects: []string{"toolbridge.v1._decisions.>"}, AllowMsgSchedules: true}, "scheduled"},
		{"counters", jetstream.StreamConfig{Name: "TOOLBRIDGE_AUDIT", Subjects: []string{"toolbridge.v1._audit.>"}, AllowMsgCounter: true}, "counters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nc := bus.Connect(t, bus.Server(t))
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(t.Context(), c.cfg); err != nil {
				t.Fatal(err)
			}
			_, err = state.Open(t.Context(), nc, subjects.Space{}, state.Config{})
			if c.want == "" && err != nil {
				t.Errorf("Open = %v, want it accepted", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.cfg.Name)) {
				t.Errorf("Open = %v, want the stream and %q named", err, c.want)
			}
		})
	}
}

func TestBucketsThatBreakTheContractAreRefused(t *testing.T) {
	for _, c := range []struct {
		cfg  jetstream.KeyValueConfig
		want string
	}{
		{jetstream.KeyValueConfig{Bucket: subjects.BucketToolsets}, "has no TTL"},
		{jetstream.KeyValueConfig{Bucket: subjects.BucketBindings}, "has no TTL"},
		{jetstream.KeyValueConfig{Bucket: subjects.BucketGrants, TTL: time.Hour}, "expires its entries"},
	} {
		t.Run(c.cfg.Bucket, func(t *testing.T) {
			nc := bus.Connect(t, bus.Server(t))
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateKeyValue(t.Context(), c.cfg); err != nil {
				t.Fatal(err)
			}
			if _, err := state.Open(t.Context(), nc, subjects.Space{}, state.Config{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open = %v, want %q", err, c.want)
			}
		})
	}
}

func TestWithoutJetStreamTheErrorSaysWhatToDo(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t, func(o *server.Options) { o.JetStream = false }))
	_, err := state.Open(t.Context(), nc, subjects.Space{}, state.Config{})
	if err == nil || !strings.Contains(err.Error(), "is JetStream enabled") {
		t.Errorf("Open = %v", err)
	}
}

func TestARegistrationThatIsNotRenewedIsToldToWatchers(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t))
	ctx := t.Context()
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{ToolsetTTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w, err := st.Toolsets.WatchAll(ctx, jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop() }()
	if _, err := st.Toolsets.PutString(ctx, "t.mcp-x.e", "{}"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 2 {
		select {
		case e := <-w.Updates():
			if e != nil {
				got = append(got, fmt.Sprint(e.Operation()))
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("watched %v only", got)
		}
	}
	if got[0] != jetstream.KeyValuePut.String() || got[1] == jetstream.KeyValuePut.String() {
		t.Errorf("watched %v, want a put and its end", got)
	}
}

func TestAnotherNumberOfPartitionsIsRefused(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n  int
		ok bool
	}{{65, false}, {-1, false}, {2, true}, {2, true}, {1, false}, {4, false}, {0, false}, {2, true}} {
		_, err := state.OpenCalls(t.Context(), js, subjects.Space{}, state.Config{CallBytes: 1 << 20}, c.n)
		if (err == nil) != c.ok {
			t.Errorf("%d partitions: %v", c.n, err)
		}
	}
}
