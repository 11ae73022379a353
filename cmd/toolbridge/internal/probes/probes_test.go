package probes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProbesTellHowTheProcessDoes(t *testing.T) {
	var down atomic.Bool
	level := new(slog.LevelVar)
	s, err := Start(t.Context(), Config{
		Address: "127.0.0.1:0", Level: level, Logger: slog.New(slog.DiscardHandler),
		Ready: func() error {
			if down.Load() {
				return errors.New("not connected to NATS")
			}
			return nil
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, path, body string, status int, says string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Address()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		got, _ := io.ReadAll(response.Body)
		if response.StatusCode != status || !strings.Contains(string(got), says) {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, response.StatusCode, got, status, says)
		}
	}
	ask("GET", "/healthz", "", 200, "ok")
	ask("GET", "/readyz", "", 200, "ready")
	ask("GET", "/metrics", "", 200, "up 1")
	down.Store(true)
	ask("GET", "/readyz", "", 503, "not connected to NATS")
	ask("GET", "/healthz", "", 200, "ok")
	ask("GET", "/loglevel", "", 200, "info")
	ask("PUT", "/loglevel", "debug\n", 200, "debug")
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %s", level.Level())
	}
	ask("PUT", "/loglevel", "loud", 400, "not known")
	ask("PUT", "/loglevel", "debug+400", 400, "not known")
	ask("PUT", "/loglevel", "", 400, "not known")
	ask("POST", "/loglevel", "info", 405, "")
	ask("GET", "/debug/pprof/", "", 404, "")
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %s", level.Level())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func TestOnlyThisMachineMaySetTheLevel(t *testing.T) {
	level := new(slog.LevelVar)
	h := Config{Level: level, Logger: slog.New(slog.DiscardHandler), Ready: func() error { return nil }}.handler()
	for from, status := range map[string]int{"10.0.0.7:1": 403, "[2001:db8::1]:1": 403, "nonsense": 403, "127.0.0.1:1": 200, "[::1]:1": 200} {
		level.Set(slog.LevelInfo)
		r := httptest.NewRequest(http.MethodPut, "/loglevel", strings.NewReader("error"))
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status || (level.Level() == slog.LevelError) != (status == 200) {
			t.Errorf("from %s: %d, level %s", from, w.Code, level.Level())
		}
	}
}

func TestAnAddressThatIsTakenIsSaid(t *testing.T) {
	first, err := Start(t.Context(), Config{Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Level: new(slog.LevelVar)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Stop(context.Background()) }()
	if _, err := Start(t.Context(), Config{Address: first.Address(), Logger: slog.New(slog.DiscardHandler), Level: new(slog.LevelVar)}); err == nil {
		t.Error("two servers on one address")
	}
}
