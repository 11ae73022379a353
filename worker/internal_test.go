package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"toolbridge/catalog"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

func TestAValueIsMadeOnceHoweverManyAskForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOnceCache[int](10, nil)
		made := 0
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				v, err := c.get(t.Context(), "k", func(context.Context) (int, error) {
					time.Sleep(time.Second)
					made++
					return 7, nil
				})
				if v != 7 || err != nil {
					t.Errorf("get = %d, %v", v, err)
				}
			})
		}
		all.Wait()
		if made != 1 {
			t.Errorf("made %d times", made)
		}
	})
}

func TestACancelledMakerIsReplacedByTheNextWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newOnceCache[int](10, nil)
		ctx, cancel := context.WithCancel(t.Context())
		slow := func(ctx context.Context) (int, error) {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Minute):
				return 1, nil
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.get(ctx, "k", slow); !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled maker got %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if v, err := c.get(t.Context(), "k", slow); v != 1 || err != nil {
				t.Errorf("the next got %d, %v", v, err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

func TestTheCacheKeepsWhatWasUsedLastWithinItsWeight(t *testing.T) {
	c := newOnceCache(10, func(v int) int64 { return int64(v) })
	value := func(v int) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return v, nil }
	}
	has := func(key string) bool {
		_, err := c.get(t.Context(), key, func(context.Context) (int, error) { return 0, io.EOF })
		return err == nil
	}
	for _, k := range []string{"a", "b", "c"} {
		if _, err := c.get(t.Context(), k, value(4)); err != nil {
			t.Fatal(err)
		}
		has("a") // a stays in use
	}
	if got := []bool{has("a"), has("b"), has("c")}; !cmp.Equal(got, []bool{true, false, true}) {
		t.Errorf("kept a, b, c: %v", got)
	}
	if _, err := c.get(t.Context(), "huge", value(1000)); err != nil || !has("huge") {
		t.Error("the value used last is not kept")
	}
}

func TestContentComesBackEqualFromItsBytes(t *testing.T) {
	raw := []byte(`[{"type":"function","function":{"name":"own","description":"Ö <b>","parameters":{"default":9007199254740993}},"toolset":"mcp-a","parallel":true}]`)
	own, _, err := catalog.Decode(raw, catalog.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	reg, _, err := catalog.Decode([]byte(`[{"name":"r1","description":"d","toolset":"lies"},{"name":"r2"}]`), catalog.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range reg {
		reg[i].Toolset, reg[i].Registry = "mcp-r", true
	}
	cfg := catalog.DefaultConfig()
	cfg.ThresholdPct, cfg.Defer = 0, []string{}
	settings, err := cfg.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	in := catalog.Input{
		Definitions: append(own, reg...), Config: cfg, ContextLength: 12345, Dialect: catalog.Anthropic,
		Unavailable: []catalog.Unavailable{{Label: "x", ToolCount: 3, Reason: "down"}},
	}
	c := &content{Input: in, Header: contentHeader{
		Version: contentVersion, Tenant: "t", Config: settings, ContextLength: in.ContextLength, Dialect: in.Dialect, Unavailable: in.Unavailable,
		Runs: []run{{Count: 1}, {Count: 2, Toolset: "mcp-r", SHA256: "h", Trusted: true}},
	}}
	encoded, err := c.encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeContent(encoded, 100)
	if err != nil {
		t.Fatal(err)
	}
	a, b := catalog.Assemble(c.Input), catalog.Assemble(back.Input)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	if !back.trusted("mcp-r") || back.trusted("mcp-a") || !back.Input.Definitions[2].Registry || back.Input.Definitions[0].Registry {
		t.Errorf("origins are lost: %+v", back.Header.Runs)
	}
	again, err := back.encode()
	if err != nil || string(again) != string(encoded) {
		t.Errorf("other bytes the second time: %v\n%s\n%s", err, again, encoded)
	}
}

func FuzzDecodeContent(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"tenant\":\"t\",\"config\":{},\"context_length\":1,\"dialect\":\"openai\",\"runs\":[{\"n\":1}]}\n[{\"name\":\"a\"}]"))
	f.Add([]byte("{}\n[]"))
	f.Add([]byte("{\"v\":1,\"runs\":[{\"n\":-1},{\"n\":2}]}\n[{\"name\":\"a\"}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeContent(data, 100)
		if err != nil {
			return
		}
		encoded, err := c.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeContent(encoded, 100); err != nil {
			t.Fatalf("what was read can not be written and read again: %v\n%s", err, encoded)
		}
	})
}

func TestOnlyUnboundContentIsSwept(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t))
	ctx := t.Context()
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCatalogs(st, 1<<20, testPacking(t), slog.New(slog.DiscardHandler))
	bound, unbound := []byte("bound content"), []byte("unbound content")
	if err := c.store(ctx, "t", "s1", &assembled{hex: hash(bound), encoded: bound}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Catalogs.PutIfAbsent(ctx, unbound); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		now  time.Time
		want int
	}{{time.Now(), 0}, {time.Now().Add(27 * time.Hour), 1}} {
		if n, err := c.sweepOnce(ctx, step.now); n != step.want || err != nil {
			t.Errorf("swept %d, %v; want %d", n, err, step.want)
		}
	}
	for data, want := range map[string]bool{string(bound): true, string(unbound): false} {
		if has, err := st.Catalogs.Has(ctx, hash([]byte(data))); has != want || err != nil {
			t.Errorf("%s is there: %v, %v", data, has, err)
		}
	}
}

func TestASweptCatalogIsStoredAgainForTheNextSession(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t))
	ctx := t.Context()
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCatalogs(st, 1<<20, testPacking(t), slog.New(slog.DiscardHandler))
	data := []byte("content")
	for i := range 2 {
		if err := c.store(ctx, "t", fmt.Sprintf("s%d", i), &assembled{hex: hash(data), encoded: data}); err != nil {
			t.Fatal(err)
		}
		if has, err := st.Catalogs.Has(ctx, hash(data)); !has || err != nil {
			t.Fatalf("after session %d: %v, %v", i, has, err)
		}
		if err := st.Catalogs.Delete(ctx, hash(data)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheStrictestApprovalOfTheChainCounts(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"auto"}, "auto"},
		{[]string{"auto", "ask"}, "ask"},
		{[]string{"ask", "auto"}, "ask"},
		{[]string{"auto", "", "deny"}, "deny"},
		{[]string{"", "auto"}, ""},
		{[]string{"auto", ""}, ""},
		{[]string{"auto", "auto"}, "auto"},
		{[]string{"always"}, "ask"},
	} {
		s := scope{}
		for _, w := range c.words {
			s.chain = append(s.chain, subjects.Grant{Approval: w})
		}
		if got := s.approval(); got != c.want {
			t.Errorf("%v gives %q, want %q", c.words, got, c.want)
		}
	}
}

func TestLargeContentIsKeptPackedAndComesBackWhole(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t))
	ctx := t.Context()
	st, err := state.Open(ctx, nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCatalogs(st, 1<<20, testPacking(t), slog.New(slog.DiscardHandler))
	data := bytes.Repeat([]byte("{a definition like many others} "), 10_000)
	for _, want := range []bool{true, false} {
		if absent, err := c.put(ctx, hash(data), data); absent != want || err != nil {
			t.Errorf("put = %v, %v; want %v", absent, err, want)
		}
	}
	list, err := st.Catalogs.List(ctx)
	if err != nil || len(list) != 1 || list[0].Size > uint64(len(data)/10) {
		t.Errorf("kept as %+v, %v", list, err)
	}
	if got, err := c.get(ctx, hash(data)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("get = %d bytes, %v", len(got), err)
	}
	if _, err := st.Catalogs.PutNamed(ctx, hash([]byte("x")), []byte("other bytes than the name says")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.get(ctx, hash([]byte("x"))); !errors.Is(err, errContent) {
		t.Errorf("get of content under a wrong name = %v", err)
	}
}

func testPacking(t *testing.T) *packing {
	t.Helper()
	p, err := newPacking()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
