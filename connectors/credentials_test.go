package connectors

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

func jwt(claims string) string {
	return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestAChainAsksInOrderAndStopsAtAFailure(t *testing.T) {
	broken := credentialsFunc(func(context.Context, Who) (Credential, error) { return Credential{}, errors.New("sealed") })
	for name, c := range map[string]struct {
		chain Chain
		token string
		err   string
	}{
		"own before shared":       {Chain{Fixed{ada: "own"}, Shared("all")}, "own", ""},
		"shared for the others":   {Chain{Fixed{}, Shared("all")}, "all", ""},
		"nobody":                  {Chain{Fixed{}, Shared("")}, "", ErrNoIdentity.Error()},
		"none at all":             {nil, "", ErrNoIdentity.Error()},
		"a failure is no absence": {Chain{broken, Shared("all")}, "", "sealed"},
	} {
		got, err := c.chain.Token(t.Context(), ada)
		if got.Token != c.token || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %q, %v", name, got.Token, err)
		}
	}
}

func TestTheClaimOfATokenDecidesWhetherToolsAreManaged(t *testing.T) {
	for token, want := range map[string]bool{
		"opaque": true, "a.b": true, "a.b.c": true, "a.!!.c": true,
		jwt(`{"managed_tools":true}`): true, jwt(`{"managed_tools":false}`): false, jwt(`{"sub":"x"}`): true,
		jwt(`[]`): true, jwt(`{"a":{"managed_tools":false}}`): true,
	} {
		if got := credentialOf(token); got.ManagedTools != want || got.Token != token {
			t.Errorf("%q: %+v", token, got)
		}
	}
}

func TestTokensFromEnvAreNamedButNeverShown(t *testing.T) {
	env := map[string]string{"ADA": " tok-ada\n", "BAD": "hunter2\nX: y", "EMPTY": " "}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	got, err := TokensFromEnv(map[string]string{"acme/ada": "ADA"}, lookup)
	if diff := cmp.Diff(Fixed{ada: "tok-ada"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for whose, name := range map[string]string{"acme/ada": "BAD", "acme/bob": "EMPTY", "acme/eve": "MISSING", "ada": "ADA", "acme/a.b": "ADA", "_x/ada": "ADA"} {
		_, err := TokensFromEnv(map[string]string{whose: name}, lookup)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s=%s: %v", whose, name, err)
		}
	}
}

func TestATokenFileIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "[]", `{"acme":{"ada":7}}`, `{"acme":{"ada":""}}`, `{"acme":{"ada":"hunter2 x"}}`, `{"acme":{"ada":"hunter2","ada":"hunter2"}}`, `{"acme":"hunter2"}`} {
		write(text, time.Now())
		if _, err := OpenTokenFile(path); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := OpenTokenFile(path + "x"); err == nil {
		t.Error("a missing file was taken")
	}
	began := time.Now()
	write(`{"acme":{"ada":"first"}}`, began)
	f, err := OpenTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	token := func() string {
		f.mu.Lock()
		f.looked = time.Time{} // as a second later
		f.mu.Unlock()
		c, err := f.Token(t.Context(), ada)
		if err != nil {
			return err.Error()
		}
		return c.Token
	}
	if got := token(); got != "first" {
		t.Error(got)
	}
	write(`{"acme":{"ada":"second"}}`, began.Add(time.Second))
	if got := token(); got != "second" {
		t.Error(got)
	}
	write(`{"acme":{"ada":`, began.Add(2*time.Second))
	if got := token(); got != "second" {
		t.Errorf("a broken file took the tokens away: %s", got)
	}
	write(`{}`, began.Add(3*time.Second))
	if got := token(); got != ErrNoIdentity.Error() {
		t.Error(got)
	}
}

// keeper answers for tokens on a bus.
type keeper struct {
	mu    sync.Mutex
	asked []string
	reply string
	hold  chan struct{}
}

func newKeeper(t *testing.T) (*BusCredentials, *keeper) {
	t.Helper()
	nc := bus.Connect(t, bus.Server(t))
	k := &keeper{}
	sub, err := nc.Subscribe(subjects.Space{}.Credentials("acme", "*"), func(m *nats.Msg) {
		k.mu.Lock()
		k.asked = append(k.asked, strings.TrimPrefix(m.Subject, "toolbridge.v1.acme._credentials.")+" "+string(m.Data)+" "+m.Header.Get(subjects.HeaderKind))
		reply, hold := k.reply, k.hold
		k.mu.Unlock()
		if hold != nil {
			<-hold
		}
		_ = m.Respond([]byte(reply))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return NewBusCredentials(nc, subjects.Space{}), k
}

func (k *keeper) says(reply string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reply = reply
}

func (k *keeper) heard() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.asked...)
}

func TestTheBusIsAskedOnceForATokenUntilItExpiresOrIsRefused(t *testing.T) {
	b, k := newKeeper(t)
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	k.says(`{"token":"first","expires_at":"` + in(time.Hour) + `","managed_tools":false}`)
	k.hold = make(chan struct{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if c, err := b.Token(t.Context(), ada); err != nil || c.Token != "first" || c.ManagedTools {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
	close(k.hold)
	all.Wait()
	k.says(`{"token":"second"}`)
	if c, _ := b.Token(t.Context(), ada); c.Token != "first" {
		t.Errorf("%+v", c)
	}
	b.Refused(ada, "other")
	b.Refused(ada, "first")
	if c, err := b.Token(t.Context(), ada); err != nil || c.Token != "second" || !c.ManagedTools {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := b.Token(t.Context(), Who{"acme", "bob"}); err != nil || c.Token != "second" {
		t.Errorf("%+v, %v", c, err)
	}
	if diff := cmp.Diff([]string{"ada {} credential", `ada {"refused":true} credential`, "bob {} credential"}, k.heard()); diff != "" {
		t.Error(diff)
	}
}

func TestAnswersOnTheBusThatAreNoTokens(t *testing.T) {
	for name, c := range map[string]struct {
		reply      string
		noIdentity bool
	}{
		"none":        {`{}`, true},
		"error":       {`{"error":"the vault\nis sealed"}`, false},
		"no JSON":     {`hunter2`, false},
		"wrong type":  {`{"token":["hunter2"]}`, false},
		"not visible": {`{"token":"hunter2\u0000"}`, false},
		"expired":     {`{"token":"hunter2","expires_at":"2020-01-01T00:00:00Z"}`, false},
		"no time":     {`{"token":"hunter2","expires_at":"hunter2"}`, false},
		"long":        {`{"token":"` + strings.Repeat("x", 100_000) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, k := newKeeper(t)
			k.says(c.reply)
			got, err := b.Token(t.Context(), ada)
			if err == nil || got.Token != "" || errors.Is(err, ErrNoIdentity) != c.noIdentity {
				t.Fatalf("%+v, %v", got, err)
			}
			if text := err.Error(); strings.Contains(text, "hunter2") || strings.ContainsAny(text, "\n\x00") || len(text) > 1000 {
				t.Errorf("the error says too much: %s", text)
			}
			if _, again := b.Token(t.Context(), ada); again == nil || len(k.heard()) != 1 {
				t.Errorf("asked again at once: %v", k.heard())
			}
		})
	}
}

func TestWithoutAKeeperOnTheBusThereIsNoTokenAndNoWait(t *testing.T) {
	b := NewBusCredentials(bus.Connect(t, bus.Server(t)), subjects.Space{})
	began := time.Now()
	if _, err := b.Token(t.Context(), ada); err == nil || errors.Is(err, ErrNoIdentity) || time.Since(began) > 4*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	if _, err := b.Token(t.Context(), Who{"acme", "a.b"}); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("a user that no subject can name: %v", err)
	}
}

func TestAQuestionThatItsCallerGaveUpIsAskedAgain(t *testing.T) {
	b, k := newKeeper(t)
	k.says(`{"token":"late"}`)
	k.hold = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Token(ctx, ada); err == nil {
		t.Error("a cancelled question was answered")
	}
	close(k.hold)
	if c, err := b.Token(t.Context(), ada); err != nil || c.Token != "late" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestConnectorsAreAvailableToThoseWhoMayUseThem(t *testing.T) {
	nc := bus.Connect(t, bus.Server(t))
	st, err := state.Open(t.Context(), nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	broken := credentialsFunc(func(context.Context, Who) (Credential, error) { return Credential{}, errors.New("sealed") })
	for name, c := range map[string]struct {
		credentials Credentials
		change      func(*Config)
		who         Who
		want        bool
	}{
		"signed in":                    {Fixed{ada: "t"}, nil, ada, true},
		"may not use managed tools":    {Fixed{ada: jwt(`{"managed_tools":false}`)}, nil, ada, false},
		"no identity, guests allowed":  {nil, nil, ada, true},
		"no identity, guests refused":  {nil, func(c *Config) { c.NoGuests = true }, ada, false},
		"signed in where no guests":    {Fixed{ada: "t"}, func(c *Config) { c.NoGuests = true }, ada, true},
		"switched off":                 {Fixed{ada: "t"}, func(c *Config) { c.Disabled = true }, ada, false},
		"nobody":                       {Shared("t"), nil, Who{Tenant: "acme"}, false},
		"the token can not be had":     {broken, nil, ada, false},
		"a user that is none":          {nil, nil, Who{"acme", "a b"}, false},
		"shared token, whoever it is":  {Shared("t"), nil, Who{"acme", "eve"}, true},
		"a guest is refused by nobody": {Chain{}, nil, Who{"acme", "eve"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Client: ClientConfig{URL: "http://gateway.invalid", Credentials: c.credentials}, Logger: slog.New(slog.DiscardHandler)}
			if c.change != nil {
				c.change(&cfg)
			}
			g, err := New(cfg, nc, st)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = g.Stop(context.Background()) }()
			for range 2 { // the second is remembered
				if got := g.Available(t.Context(), c.who); got != c.want {
					t.Errorf("available: %v", got)
				}
			}
		})
	}
	var none *Gateway
	if none.Available(t.Context(), ada) {
		t.Error("no gateway is available")
	}
}

func TestAGatewayStartsOnceAndStopsAsOftenAsOneLikes(t *testing.T) {
	g, err := New(Config{Client: ClientConfig{URL: "http://gateway.invalid"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err == nil {
		t.Error("it was started twice")
	}
	for range 2 {
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, cfg := range []Config{{}, {Client: ClientConfig{URL: "gateway"}}, {Client: ClientConfig{URL: "http://g", MaxAnswer: -1}}} {
		if _, err := New(cfg, nil, nil); err == nil {
			t.Errorf("taken: %s", fmt.Sprint(cfg.Client.URL))
		}
	}
}
