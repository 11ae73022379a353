package embedded

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, store string, port int) (*Server, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return Start(ctx, Config{Port: port, Store: store, Logger: slog.New(slog.DiscardHandler)})
}

func TestAStoreOutlivesItsServer(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a", "b")
	put := func(want string) (got string) {
		t.Helper()
		s, err := run(t, store, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		}()
		nc, err := nats.Connect("", s.InProcess())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if nc.MaxPayload() != MaxPayload {
			t.Errorf("max_payload = %d", nc.MaxPayload())
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := kv.Get(ctx, "k"); err == nil {
			got = string(e.Value())
		}
		if _, err := kv.PutString(ctx, "k", want); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := put("first"); got != "" {
		t.Errorf("a new store holds %q", got)
	}
	if got := put("second"); got != "first" {
		t.Errorf("after a restart the store holds %q", got)
	}
}

func TestASecondServerOnAStoreIsRefused(t *testing.T) {
	store := t.TempDir()
	s, err := run(t, store, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, store, 0); err == nil || !strings.Contains(err.Error(), "in use by another toolbridge dev") || !strings.Contains(err.Error(), "--store") {
		t.Errorf("err = %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s, err = run(t, store, 0)
	if err != nil {
		t.Fatalf("after Stop the store is not free: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	store := t.TempDir()
	if _, err := run(t, store, l.Addr().(*net.TCPAddr).Port); err == nil || !strings.Contains(err.Error(), "is in use") || !strings.Contains(err.Error(), "--nats-port") {
		t.Errorf("err = %v", err)
	}
	s, err := run(t, store, 0)
	if err != nil {
		t.Fatalf("the failed start holds the store: %v", err)
	}
	if !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") {
		t.Errorf("url = %s", s.URL())
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

func TestAStoreThatCanNotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, filepath.Join(file, "x"), 0); err == nil {
		t.Error("no error")
	}
}

func TestTheDefaultStoreIsTheUsersOwn(t *testing.T) {
	env := func(pairs map[string]string) func(string) (string, bool) {
		return func(k string) (string, bool) { v, ok := pairs[k]; return v, ok }
	}
	if got, err := DefaultStore(env(map[string]string{"XDG_STATE_HOME": "/s"})); err != nil || got != filepath.Join("/s", "toolbridge", "dev") {
		t.Errorf("%s, %v", got, err)
	}
}
