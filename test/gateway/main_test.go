package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"toolbridge/connectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItPrintsOneLineAndServesUntilItIsStopped(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	faults := write("faults.json", `[{"kind": "status", "route": "list"}]`)
	users := write("users.json", `[{"name": "zoe", "token": "z", "accounts": [{"connector": "gmail", "alias": "work"}]}]`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--faults", faults, "--users", users, "--user", "yan=y,slack,gmail:home"}, in, io.Discard)
		_ = in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal(<-ended)
	}
	origin := lines.Text()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i, want := range []int{503, 200} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+"/"+connectors.RouteConnectors, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+[]string{"z", "y"}[i])
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("request %d: %s", i, res.Status)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("a second line: %s", lines.Text())
	}
}

func TestWrongFlagsSayWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--user", "nobody"}, "name=token"},
		{[]string{"--user", "u=t,nonsense"}, "nonsense"},
		{[]string{"--faults", "/nonexistent"}, "/nonexistent"},
		{[]string{"--users", "/nonexistent"}, "/nonexistent"},
		{[]string{"--address", "nowhere"}, "nowhere"},
		{[]string{"more"}, "more"},
	} {
		if err := run(t.Context(), test.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v", test.args, err)
		}
	}
}
