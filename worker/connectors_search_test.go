package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"toolbridge/connectors"
	"toolbridge/state"
	"toolbridge/subjects"
	"toolbridge/worker"
)

// gatewayAnswer is one scripted answer of a gateway.
type gatewayAnswer struct {
	Status int
	Body   json.RawMessage
	Raise  string // "timeout": no answer; any other text: the connection breaks
}

// scriptedGateway answers each tenant's requests by a script of its own; what is
// beyond the script breaks the connection.
type scriptedGateway struct {
	*httptest.Server
	mu       sync.Mutex
	scripts  map[string][]gatewayAnswer // by tenant
	always   map[string]gatewayAnswer   // by tenant, after its script
	requests map[string][]string        // "path body" by tenant
}

func newScriptedGateway(t testing.TB) *scriptedGateway {
	g := &scriptedGateway{scripts: map[string][]gatewayAnswer{}, always: map[string]gatewayAnswer{}, requests: map[string][]string{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

func (g *scriptedGateway) script(tenant string, answers ...gatewayAnswer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scripts[tenant] = answers
}

// answer sets what a tenant is answered from now on.
func (g *scriptedGateway) answer(tenant string, a gatewayAnswer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.always[tenant] = a
}

func (g *scriptedGateway) asked(tenant string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests[tenant])
}

func (g *scriptedGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	tenant := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-of-")
	g.mu.Lock()
	g.requests[tenant] = append(g.requests[tenant], strings.TrimPrefix(r.URL.Path, "/")+" "+string(body))
	a, ok := g.always[tenant]
	if !ok {
		a.Raise = "reset"
	}
	if s := g.scripts[tenant]; len(s) > 0 {
		a, g.scripts[tenant] = s[0], s[1:]
	}
	g.mu.Unlock()
	switch a.Raise {
	case "":
		var text string
		if json.Unmarshal(a.Body, &text) == nil {
			a.Body = []byte(text)
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body)
	case "timeout":
		<-r.Context().Done()
	default:
		panic(http.ErrAbortHandler)
	}
}

// userCredentials gives every user the token of the tenant, unless without says
// otherwise for that tenant.
type userCredentials struct {
	without func(tenant string) error
	asked   func(who connectors.Who)
}

func (c userCredentials) Token(_ context.Context, who connectors.Who) (connectors.Credential, error) {
	if c.asked != nil {
		c.asked(who)
	}
	if c.without != nil {
		if err := c.without(who.Tenant); err != nil {
			if errors.Is(err, errUnusable) {
				return connectors.Credential{Token: "no\ntoken", ManagedTools: true}, nil
			}
			return connectors.Credential{}, err
		}
	}
	return connectors.Credential{Token: "token-of-" + who.Tenant, ManagedTools: true}, nil
}

// gatewayOf makes the worker's side of a gateway.
func gatewayOf(t testing.TB, f *fleet, url string, more ...func(*connectors.Config)) *connectors.Gateway {
	t.Helper()
	cfg := connectors.Config{
		Client:  connectors.ClientConfig{URL: url, Proxy: "direct", Credentials: userCredentials{}},
		DevUser: "dev", Logger: slog.New(slog.DiscardHandler),
	}
	for _, m := range more {
		m(&cfg)
	}
	st, err := state.Open(t.Context(), f.nc, subjects.Space{}, state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := connectors.New(cfg, f.nc, st)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

const manageConnections = `{"type":"function","function":{"name":"manage_connections","description":"Connect","parameters":{"type":"object"}}}`

// assembleIn assembles for a tenant and returns the catalog.
func (f *fleet) assembleIn(tenant, session, body string) string {
	f.t.Helper()
	reply := decode(f.t, f.send("toolbridge.v1."+tenant+"."+session+".assemble", body).Data)
	if reply["error"] != nil {
		f.t.Fatalf("assemble: %v", reply["error"])
	}
	return reply["catalog"].(string)
}

// bridgeIn calls a bridge tool and returns the bytes of its result.
func (f *fleet) bridgeIn(tenant, session, catalog, name, arguments string, headers ...string) json.RawMessage {
	f.t.Helper()
	data := f.send("toolbridge.v1."+tenant+"."+session+".bridge", fmt.Sprintf(`{"id":%q,"name":%q,"arguments":%s,"catalog":%q}`, f.id(), name, arguments, catalog), headers...).Data
	var reply struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(data, &reply); err != nil || reply.Error != nil {
		f.t.Fatalf("%s %s: %s, %v", name, arguments, data, err)
	}
	return reply.Result
}

type vectorTool struct {
	Name, Description, Toolset string
	Params                     []string
}

func vectorTools(list []vectorTool) string {
	var out []string
	for _, v := range list {
		out = append(out, tool(v.Name, v.Toolset, v.Description, v.Params...))
	}
	return tools(out...)
}

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// errUnusable makes a user's token one that no header can carry.
var errUnusable = errors.New("unusable")

// vectorOptions are the circumstances of a vector.
type vectorOptions struct {
	Enabled      *bool `json:"connectors_enabled"`
	RolledOut    *bool `json:"rolled_out"`
	NoToken      bool  `json:"no_token"`
	GuestPending bool  `json:"guest_pending"`
	Failure      *struct {
		Retryable bool
	}
}

// without is what a user's credentials say in those circumstances.
func (o *vectorOptions) without() error {
	switch {
	case o.NoToken:
		return errUnusable
	case o.GuestPending && (o.Failure == nil || o.Failure.Retryable):
		return connectors.ErrNoIdentity
	}
	return nil
}

func (o *vectorOptions) available() bool {
	return (o.Enabled == nil || *o.Enabled) && (o.RolledOut == nil || *o.RolledOut)
}

type noticeVector struct {
	Status, Reason string
	Names          []string
}

// vectorFleet is a fleet whose tenants are vectors: on has connectors, off has not.
type vectorFleet struct {
	gateway *scriptedGateway
	on, off *fleet
	without map[string]error
	mu      sync.Mutex
}

func newVectorFleet(t *testing.T) *vectorFleet {
	v := &vectorFleet{gateway: newScriptedGateway(t), on: newFleet(t), off: newFleet(t), without: map[string]error{}}
	short := func(c *connectors.Config) {
		c.Client.SearchTimeout, c.Client.SchemasTimeout = 300*time.Millisecond, 300*time.Millisecond
		c.Client.Credentials = userCredentials{without: func(tenant string) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.without[tenant]
		}}
	}
	v.on.start(worker.Config{Dev: true, Gateway: gatewayOf(t, v.on, v.gateway.URL, short)})
	v.off.start(worker.Config{Dev: true, Gateway: gatewayOf(t, v.off, v.gateway.URL, short, func(c *connectors.Config) { c.Disabled = true })})
	return v
}

// prepare sets the circumstances of one vector and returns its fleet.
func (v *vectorFleet) prepare(tenant string, o *vectorOptions, answers []gatewayAnswer) *fleet {
	v.mu.Lock()
	v.without[tenant] = o.without()
	v.mu.Unlock()
	v.gateway.script(tenant, answers...)
	if o.available() {
		return v.on
	}
	return v.off
}

// requiredAs compares required parameters with a vector's: their names, or how many
// there are and how long the first is.
func requiredAs(got []string, want []any) bool {
	if len(want) == 2 && len(got) > 0 {
		if n, ok := want[0].(float64); ok {
			return len(got) == int(n) && float64(len(got[0])) == want[1]
		}
	}
	return text(append([]string{}, got...)) == text(append([]any{}, want...))
}

func TestConnectorSearchVectors(t *testing.T) {
	var v struct {
		Local []vectorTool `json:"local_catalog"`
		Cases []struct {
			ID    string
			Input struct {
				Args    json.RawMessage
				Catalog string
				Gateway []gatewayAnswer
				Options vectorOptions
			}
			Expect struct {
				Error          string
				Queries        []string
				TotalAvailable int `json:"total_available"`
				Results        []struct {
					Query            string
					Matches          []string
					AvailableSources []struct {
						Name      string
						ToolCount int `json:"tool_count"`
					} `json:"available_sources"`
					HasHint bool `json:"has_hint"`
				}
				Tools map[string]struct {
					Source           string
					SourceName       string `json:"source_name"`
					Required         []any
					DescriptionChars int `json:"description_chars"`
				}
				Connectors *noticeVector
				Keys       []string
				Requests   []struct {
					Path string
					Body json.RawMessage
				}
			}
		}
	}
	readVectors(t, "connector_search.json", &v)
	// Under the standard ranking the gateway is always asked, and near matches are
	// added; what follows from that is another outcome there.
	standard := map[string]string{
		"limit1_local_full_no_remote": "the gateway is asked although the local matches fill the limit",
		"limit2_local_full_no_remote": "the gateway is asked although the local matches fill the limit",
		"limit0":                      "the gateway is asked although the local matches fill the limit, and its tools rank first",
	}
	fleet := newVectorFleet(t)
	for _, ranking := range []string{"reference", "standard"} {
		for _, c := range v.Cases {
			t.Run(ranking+"/"+c.ID, func(t *testing.T) {
				if why, ok := standard[c.ID]; ok && ranking == "standard" {
					t.Skip(why)
				}
				tenant := ranking + "-" + c.ID
				f := fleet.prepare(tenant, &c.Input.Options, c.Input.Gateway)
				list := v.Local
				if c.Input.Catalog == "mc_only" {
					list = list[len(list)-1:]
				}
				catalog := f.assembleIn(tenant, "s", fmt.Sprintf(`{"tools":%s,"config":{"ranking":%q}}`, vectorTools(list), ranking))
				raw := f.bridgeIn(tenant, "s", catalog, "tool_search", string(c.Input.Args))
				var got struct {
					Queries        []string
					TotalAvailable int `json:"total_available"`
					Results        []struct {
						Query            string
						Matches          []string
						NearMatches      []string `json:"near_matches"`
						AvailableSources []struct {
							Name      string
							ToolCount int `json:"tool_count"`
						} `json:"available_sources"`
						Hint string
					}
					Tools map[string]struct {
						Source, Description string
						SourceName          string `json:"source_name"`
						Required            []string
					}
					Connectors *struct {
						noticeVector
						Hint string
					}
					Error *struct{ Code string }
				}
				if err := json.Unmarshal(raw, &got); err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				if (c.Expect.Error != "") != (got.Error != nil) {
					t.Fatalf("error %+v, want %q", got.Error, c.Expect.Error)
				}
				requests := []string{}
				for _, r := range c.Expect.Requests {
					var compact bytes.Buffer
					if err := json.Compact(&compact, r.Body); err != nil {
						t.Fatal(err)
					}
					requests = append(requests, r.Path+" "+compact.String())
				}
				if diff := cmp.Diff(requests, append([]string{}, fleet.gateway.asked(tenant)...)); diff != "" {
					t.Errorf("requests: %s", diff)
				}
				if got.Error != nil {
					return
				}
				if diff := cmp.Diff(c.Expect.Queries, got.Queries); diff != "" {
					t.Error(diff)
				}
				near := 0
				named := map[string]bool{}
				for i, want := range c.Expect.Results {
					r := got.Results[i]
					near += len(r.NearMatches)
					for _, n := range append(slices.Clone(r.Matches), r.NearMatches...) {
						named[n] = true
					}
					matches := r.Matches
					wanted := want.Matches
					if ranking == "standard" { // the order is that ranking's own
						matches, wanted = slices.Sorted(slices.Values(matches)), slices.Sorted(slices.Values(wanted))
					}
					if r.Query != want.Query || !slices.Equal(matches, wanted) {
						t.Errorf("%q gives %v, want %q %v (near %v)", r.Query, r.Matches, want.Query, want.Matches, r.NearMatches)
					}
					if (r.Hint != "") != want.HasHint || len(r.AvailableSources) != len(want.AvailableSources) {
						t.Errorf("%q: hint %q, sources %v, want %v", r.Query, r.Hint, r.AvailableSources, want)
					}
				}
				if ranking == "reference" && near > 0 {
					t.Errorf("near matches under the reference ranking: %s", raw)
				}
				if near == 0 && got.TotalAvailable != c.Expect.TotalAvailable {
					t.Errorf("total_available %d, want %d", got.TotalAvailable, c.Expect.TotalAvailable)
				}
				for name, want := range c.Expect.Tools {
					r := got.Tools[name]
					if r.Source != want.Source || r.SourceName != want.SourceName || utf8.RuneCountInString(r.Description) != want.DescriptionChars || !requiredAs(r.Required, want.Required) {
						t.Errorf("%s: %+v, want %+v", name, r, want)
					}
				}
				if len(got.Tools) != len(named) {
					t.Errorf("tools %v beside %v", slices.Collect(maps.Keys(got.Tools)), named)
				}
				var notice *noticeVector
				if got.Connectors != nil {
					notice = &got.Connectors.noticeVector
					if got.Connectors.Hint == "" {
						t.Error("a notice without a hint")
					}
				}
				if diff := cmp.Diff(c.Expect.Connectors, notice); diff != "" {
					t.Error(diff)
				}
				keys := slices.Sorted(maps.Keys(decode(t, raw)))
				if want := slices.Sorted(slices.Values(c.Expect.Keys)); !slices.Equal(keys, want) {
					t.Errorf("members %v, want %v", keys, want)
				}
			})
		}
	}
}

func TestConnectorDescribeVectors(t *testing.T) {
	var v struct {
		Local []vectorTool `json:"local_catalog"`
		Cases []struct {
			ID    string
			Input struct {
				Args    struct{ Names any }
				Manage  bool `json:"with_manage_connections"`
				Gateway []gatewayAnswer
				Options vectorOptions
			}
			Expect struct {
				Tools map[string]struct {
					Description string
					Parameters  json.RawMessage
				}
				NotFound   []string `json:"not_found"`
				Errors     []string
				Connectors *noticeVector
				Keys       []string
				Requests   []struct {
					Path string
					Body json.RawMessage
				}
			}
		}
	}
	readVectors(t, "describe.json", &v)
	fleet := newVectorFleet(t)
	tested := 0
	for _, c := range v.Cases {
		if !strings.Contains(fmt.Sprint(c.Input.Args.Names), "connectors__") {
			continue // no connector's name; the catalog's tests have these
		}
		tested++
		t.Run(c.ID, func(t *testing.T) {
			f := fleet.prepare(c.ID, &c.Input.Options, c.Input.Gateway)
			list := v.Local
			if !c.Input.Manage {
				list = list[:len(list)-1]
			}
			catalog := f.assembleIn(c.ID, "s", `{"tools":`+vectorTools(append(slices.Clone(list), vectorTool{Name: "terminal", Description: "T"}))+`}`)
			raw := f.bridgeIn(c.ID, "s", catalog, "tool_describe", `{"names":`+text(c.Input.Args.Names)+`}`)
			var got struct {
				Tools map[string]struct {
					Description string
					Parameters  json.RawMessage
				}
				NotFound   []string `json:"not_found"`
				Errors     map[string]string
				Connectors *struct {
					noticeVector
					Hint string
				}
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if len(got.Tools) != len(c.Expect.Tools) {
				t.Errorf("tools %s", raw)
			}
			for name, want := range c.Expect.Tools {
				r := got.Tools[name]
				var a, b any
				if err := errors.Join(json.Unmarshal(want.Parameters, &a), json.Unmarshal(r.Parameters, &b)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(a, b); r.Description != want.Description || diff != "" {
					t.Errorf("%s: %q, want %q; %s", name, r.Description, want.Description, diff)
				}
			}
			var notice *noticeVector
			if got.Connectors != nil {
				notice = &got.Connectors.noticeVector
			}
			if diff := cmp.Diff(c.Expect.Connectors, notice); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(got.NotFound, c.Expect.NotFound) || !slices.Equal(slices.Sorted(maps.Keys(got.Errors)), c.Expect.Errors) {
				t.Errorf("not found %v, errors %v, want %v, %v", got.NotFound, got.Errors, c.Expect.NotFound, c.Expect.Errors)
			}
			keys := slices.Sorted(maps.Keys(decode(t, raw)))
			if want := slices.Sorted(slices.Values(c.Expect.Keys)); !slices.Equal(keys, want) {
				t.Errorf("members %v, want %v", keys, want)
			}
			var requests []string
			for _, r := range c.Expect.Requests {
				var compact bytes.Buffer
				if err := json.Compact(&compact, r.Body); err != nil {
					t.Fatal(err)
				}
				requests = append(requests, r.Path+" "+compact.String())
			}
			if diff := cmp.Diff(requests, fleet.gateway.asked(c.ID)); diff != "" {
				t.Errorf("requests: %s", diff)
			}
		})
	}
	if tested < 18 {
		t.Errorf("only %d vectors are about connectors", tested)
	}
}
