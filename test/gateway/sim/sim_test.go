package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"toolbridge/connectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client speaks to a simulator that runs for one test.
type client struct {
	t      testing.TB
	s      *Server
	origin string
	http   *http.Client
	token  string
}

func run(t testing.TB, cfg Config) *client {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	origin, err := s.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, s: s, origin: origin, http: &http.Client{Transport: &http.Transport{}}, token: "ada-token"}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		s.Stop()
	})
	return c
}

func (c *client) as(token string) *client {
	other := *c
	other.token = token
	return &other
}

// reply is what came back, as far as it came.
type reply struct {
	status int // 0: nothing
	header http.Header
	body   []byte
}

// send makes a request. body is text, or something to encode.
func (c *client) send(ctx context.Context, method, path, key string, body any) (reply, error) {
	c.t.Helper()
	text, isText := body.(string)
	if !isText && body != nil {
		text = string(encode(body))
	}
	r, err := http.NewRequestWithContext(ctx, method, c.origin+"/"+strings.TrimPrefix(path, "/"), strings.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if key != "" {
		r.Header.Set(connectors.HeaderIdempotencyKey, key)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, out}, err
}

// must is a request that gets an answer, of this status, decoded.
func must[T any](c *client, status int, method, path, key string, body any) T {
	c.t.Helper()
	got, err := c.send(c.t.Context(), method, path, key, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	if got.status != status {
		c.t.Fatalf("%s %s: status %d, want %d: %s", method, path, got.status, status, got.body)
	}
	var v T
	if len(got.body) > 0 {
		if err := json.Unmarshal(got.body, &v); err != nil {
			c.t.Fatalf("%s %s: %v in %s", method, path, err, got.body)
		}
	}
	return v
}

type problemBody struct {
	Error struct{ Code, Message string }
}

func call(connector, tool, arguments string) connectors.ExecuteRequest {
	return connectors.ExecuteRequest{Tools: []connectors.ToolCall{{Connector: connector, Tool: tool, Arguments: json.RawMessage(arguments)}}}
}

func (c *client) execute(key string, q connectors.ExecuteRequest) []connectors.ToolResult {
	c.t.Helper()
	return must[connectors.ExecuteReply](c, http.StatusOK, "POST", connectors.RouteExecute, key, q).Results
}

func (c *client) one(key, connector, tool, arguments string) connectors.ToolResult {
	c.t.Helper()
	results := c.execute(key, call(connector, tool, arguments))
	if len(results) != 1 {
		c.t.Fatalf("%d results", len(results))
	}
	return results[0]
}

func code(r connectors.ToolResult) string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

func (c *client) open(link string) int {
	c.t.Helper()
	res, err := c.http.Get(link)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestATokenThatNobodyHasIsUnauthorizedOnEveryRoute(t *testing.T) {
	c := run(t, Config{})
	for _, r := range []struct{ method, path string }{
		{"POST", connectors.RouteSearch},
		{"POST", connectors.RouteSchemas},
		{"POST", connectors.RouteExecute},
		{"POST", connectors.RouteConnections},
		{"GET", connectors.RouteConnectors},
		{"GET", connectors.RouteAccounts + "/x"},
		{"GET", connectors.RoutePortalAccounts},
		{"PATCH", connectors.RoutePortalAccounts + "/x"},
		{"DELETE", connectors.RoutePortalAccounts + "/x"},
	} {
		for _, token := range []string{"", "nobody"} {
			if p := must[problemBody](c.as(token), 401, r.method, r.path, "k", "{}"); p.Error.Code != "UNAUTHORIZED" {
				t.Errorf("%s %s: %+v", r.method, r.path, p)
			}
		}
	}
	if n := len(c.s.Record().Effects); n != 0 {
		t.Errorf("%d effects", n)
	}
}

func TestSearchEchoesEachQueryAtItsPlaceAndRanksBySharedWords(t *testing.T) {
	c := run(t, Config{})
	reply := must[connectors.SearchReply](c, 200, "POST", connectors.RouteSearch, "", connectors.SearchRequest{Queries: []connectors.UseCase{
		{UseCase: "send an email with gmail"}, {UseCase: "zeppelin"}, {UseCase: "create a linear issue"},
	}})
	want := []string{"GMAIL_SEND_EMAIL", "", "LINEAR_CREATE_ISSUE"}
	for i, g := range reply.Results {
		first := ""
		if len(g.Tools) > 0 {
			first = g.Tools[0]
		}
		if g.Index != i || first != want[i] || g.Tools == nil {
			t.Errorf("group %d: %+v, want first %q", i, g, want[i])
		}
		for _, slug := range append(g.Tools, g.RelatedTools...) {
			if _, ok := reply.Schemas[slug]; !ok {
				t.Errorf("%s has no schema", slug)
			}
		}
	}
	if reply.Results[1].UseCase != "zeppelin" || len(reply.Connections) == 0 || len(reply.NextSteps) == 0 {
		t.Errorf("%+v", reply)
	}
	again := must[json.RawMessage](c, 200, "POST", connectors.RouteSearch, "", `{"queries":[{"useCase":"mail"}]}`)
	if more := must[json.RawMessage](c, 200, "POST", connectors.RouteSearch, "", `{"queries":[{"useCase":"mail"}]}`); !bytes.Equal(again, more) {
		t.Errorf("the same search has two answers:\n%s\n%s", again, more)
	}
	must[problemBody](c, 400, "POST", connectors.RouteSearch, "", connectors.SearchRequest{Queries: make([]connectors.UseCase, 8)})
}

func TestSchemasSayWhichAccountsThereAreAndWhatIsMeantInstead(t *testing.T) {
	c := run(t, Config{})
	ask := connectors.SchemasRequest{Tools: []string{"GMAIL_SEND_EMAIL", "GMAIL_SEND_MAIL", "SEND_EMAIL", "GITHUB_issues_create", "issues_create"}}
	reply := must[connectors.SchemasReply](c, 200, "POST", connectors.RouteSchemas, "", ask)
	if len(reply.Schemas) != 3 || len(reply.NotFound) != 2 || !strings.Contains(string(reply.Suggestions), `"GMAIL_SEND_EMAIL"`) {
		t.Errorf("%+v", reply)
	}
	if s := string(reply.Schemas["GMAIL_SEND_EMAIL"].InputSchema); !strings.Contains(s, `"enum":["work","home"]`) {
		t.Errorf("two accounts, and the schema is %s", s)
	}
	reply = must[connectors.SchemasReply](c.as("dev-token"), 200, "POST", connectors.RouteSchemas, "", ask)
	if s := string(reply.Schemas["GMAIL_SEND_EMAIL"].InputSchema); strings.Contains(s, "connector_alias") {
		t.Errorf("no account, and the schema is %s", s)
	}
}

func TestOneKeyHasOneEffectAndOneAnswer(t *testing.T) {
	c := run(t, Config{})
	q := call("linear", "LINEAR_CREATE_ISSUE", `{"title":"A"}`)
	first := must[json.RawMessage](c, 200, "POST", connectors.RouteExecute, "k1", q)
	if again := must[json.RawMessage](c, 200, "POST", connectors.RouteExecute, "k1", q); !bytes.Equal(first, again) {
		t.Errorf("the same key has two answers:\n%s\n%s", first, again)
	}
	if p := must[problemBody](c, 409, "POST", connectors.RouteExecute, "k1", call("linear", "LINEAR_CREATE_ISSUE", `{"title":"B"}`)); p.Error.Code != "IDEMPOTENCY_CONFLICT" {
		t.Errorf("%+v", p)
	}
	must[problemBody](c, 400, "POST", connectors.RouteExecute, "", q)
	must[json.RawMessage](c.as("dev-token"), 200, "POST", connectors.RouteExecute, "k1", q) // another user's key is another key
	effects := c.s.Record().EffectsOf(EffectExecute)
	if len(effects) != 2 || effects[0].User != "ada" || effects[0].Key != "k1" || string(effects[0].Arguments) != `{"title":"A"}` || effects[1].User != "dev" {
		t.Errorf("%+v", effects)
	}
}

func TestExecuteAnswersEachToolAtItsPlaceWithItsOwnError(t *testing.T) {
	c := run(t, Config{Users: []User{{
		Name: "ada", Token: "ada-token", DisabledApps: []string{"notion"}, DisabledTools: []string{"GMAIL_DELETE_MESSAGE"},
		Accounts: []Connected{{Connector: "gmail"}, {Connector: "linear"}, {Connector: "github"}},
	}}})
	q := connectors.ExecuteRequest{}
	for _, e := range [][3]string{
		{"linear", "LINEAR_CREATE_ISSUE", `{"title":"A"}`},
		{"linear", "LINEAR_CREATE_ISSUE", `{"title":""}`},
		{"gmail", "GMAIL_NO_SUCH", `{}`},
		{"linear", "GMAIL_SEND_EMAIL", `{"to":"x@y"}`},
		{"slack", "SLACK_POST", `{"channel":"c","text":"t"}`},
		{"notion", "NOTION_CREATE_PAGE", `{}`},
		{"gmail", "GMAIL_DELETE_MESSAGE", `{"message_id":"1"}`},
		{"github", "issues_create", `{"owner":"o","repo":"r","title":"t"}`},
		{"gmail", "GMAIL_SEND_EMAIL", `{"to":"x@y","nonsense":1}`},
		{"gmail", "GMAIL_SEND_EMAIL", `[]`},
	} {
		q.Tools = append(q.Tools, connectors.ToolCall{Connector: e[0], Tool: e[1], Arguments: json.RawMessage(e[2])})
	}
	want := []string{
		"", codeProvider, codeNotFound, codeNotFound, codeConnection, codeNotAllowed, codeNotAllowed, "", codeProvider, codeProvider,
	}
	for i, r := range c.execute("k", q) {
		if r.Index != i || code(r) != want[i] || (r.Error == nil) != (r.Data != nil) {
			t.Errorf("result %d: %+v %+v, want code %q", i, r, r.Error, want[i])
		}
	}
	if n := len(c.s.Record().EffectsOf(EffectExecute)); n != 2 {
		t.Errorf("%d effects", n)
	}
}

func TestAToolRunsUnderTheAccountThatIsNamedAndNoOther(t *testing.T) {
	c := run(t, Config{})
	send := func(key, arguments string) connectors.ToolResult {
		return c.one(key, "gmail", "GMAIL_SEND_EMAIL", arguments)
	}
	for key, want := range map[string]string{`{"to":"x@y"}`: "work", `{"to":"x@y","connector_alias":"home"}`: "home", `{"to":"x@y","connector_alias":null}`: "work"} {
		if r := send(key, key); r.Account != want || r.Error != nil {
			t.Errorf("%s: %+v %+v", key, r, r.Error)
		}
	}
	if r := send("unknown", `{"to":"x@y","connector_alias":"nobody"}`); code(r) != codeProvider || r.Account != "" {
		t.Errorf("%+v", r)
	}
	if r := send("bad", `{"to":"","connector_alias":"home"}`); code(r) != codeProvider || r.Account != "home" {
		t.Errorf("%+v", r)
	}
	for _, a := range c.s.Accounts("ada") {
		if a.Alias != nil && *a.Alias == "home" {
			if err := c.s.SetStatus(a.ConnectionID, StatusRevoked); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := send("revoked", `{"to":"x@y","connector_alias":"home"}`); code(r) != codeConnection || r.Error.ConnectURL == "" || r.Account != "home" {
		t.Errorf("%+v", r)
	}
	effects := c.s.Record().EffectsOf(EffectExecute)
	if len(effects) != 3 {
		t.Errorf("%d effects", len(effects))
	}
	for _, e := range effects {
		if strings.Contains(string(e.Arguments), "connector_alias") {
			t.Errorf("the app saw %s", e.Arguments)
		}
	}
}

func TestAConnectionIsMadeByOpeningItsLink(t *testing.T) {
	c := run(t, Config{}).as("dev-token")
	r := c.one("k1", "gmail", "GMAIL_SEND_EMAIL", `{"to":"x@y"}`)
	if code(r) != codeConnection || r.Error.ConnectionID == "" || r.Error.Connector != "gmail" {
		t.Fatalf("%+v", r)
	}
	read := func(id string) connectors.Account {
		return must[connectors.Account](c, 200, "GET", connectors.RouteAccounts+"/"+id, "", nil)
	}
	if a := read(r.Error.ConnectionID); a.Status != StatusPending || a.Active {
		t.Errorf("%+v", a)
	}
	if n := c.open(r.Error.ConnectURL); n != 200 {
		t.Fatalf("the page: %d", n)
	}
	if a := read(r.Error.ConnectionID); a.Status != StatusActive || !a.Active || a.Alias != nil {
		t.Errorf("%+v", a)
	}
	if n := c.open(r.Error.ConnectURL); n != http.StatusGone {
		t.Errorf("the link works twice: %d", n)
	}
	if r := c.one("k2", "gmail", "GMAIL_SEND_EMAIL", `{"to":"x@y"}`); r.Error != nil {
		t.Fatalf("%+v", r.Error)
	}
	m := c.mint(connectors.MintRequest{Connectors: []string{"gmail"}, Alias: "work"})[0]
	if m.Status != "initiated" || m.Alias != "work" || m.ConnectURL == "" {
		t.Fatalf("%+v", m)
	}
	c.open(m.ConnectURL)
	if r := c.one("k3", "gmail", "GMAIL_SEND_EMAIL", `{"to":"x@y","connector_alias":"work"}`); r.Error != nil || r.Account != "work" {
		t.Fatalf("%+v", r)
	}
	if r := c.one("k4", "gmail", "GMAIL_SEND_EMAIL", `{"to":"x@y"}`); r.Error != nil || r.Account != "" {
		t.Fatalf("the account used by default is another: %+v", r)
	}
	must[problemBody](c.as("ada-token"), 404, "GET", connectors.RouteAccounts+"/"+m.ConnectionID, "", nil)
}

func (c *client) mint(q connectors.MintRequest) []connectors.Minted {
	c.t.Helper()
	return must[connectors.MintReply](c, 200, "POST", connectors.RouteConnections, "", q).Results
}

func TestAMintIsSettledByTheStateOfTheApp(t *testing.T) {
	c := run(t, Config{}) // ada
	got := c.mint(connectors.MintRequest{Connectors: []string{"gmail", "notion", "slack", "nonsense"}})
	for i, want := range []string{"active", "initiated", "initiated", "failed"} {
		if got[i].Status != want || (got[i].ConnectURL != "") != (want == "initiated") {
			t.Errorf("%+v, want %s", got[i], want)
		}
	}
	// A second one makes a second link: nothing made it harmless.
	again := c.mint(connectors.MintRequest{Connectors: []string{"notion"}})[0]
	if again.ConnectionID == got[1].ConnectionID {
		t.Errorf("%+v", again)
	}
	// slack had expired: the same connection is renewed.
	if c.open(got[2].ConnectURL); c.mint(connectors.MintRequest{Connectors: []string{"slack"}})[0].Status != "active" {
		t.Error("slack was connected again and is not active")
	}
	// A forced one replaces the account when it is made, not before.
	forced := c.mint(connectors.MintRequest{Connectors: []string{"gmail"}, Alias: "home", Reinitiate: true})[0]
	if r := c.one("k1", "gmail", "GMAIL_SEND_EMAIL", `{"to":"x@y","connector_alias":"home"}`); r.Error != nil || forced.Status != "initiated" {
		t.Errorf("%+v %+v", forced, r)
	}
	c.open(forced.ConnectURL)
	c.one("k2", "gmail", "GMAIL_SEND_EMAIL", `{"to":"x@y","connector_alias":"home"}`)
	if e := c.s.Record().EffectsOf(EffectExecute); e[0].ConnectionID == e[1].ConnectionID || e[1].ConnectionID != forced.ConnectionID {
		t.Errorf("%+v", e)
	}
	failing := c.mint(connectors.MintRequest{Connectors: []string{"notion"}})[0]
	c.open(failing.ConnectURL + "?outcome=failed")
	if a := must[connectors.Account](c, 200, "GET", connectors.RouteAccounts+"/"+failing.ConnectionID, "", nil); a.Status != StatusFailed {
		t.Errorf("%+v", a)
	}
	must[problemBody](c, 400, "POST", connectors.RouteConnections, "", connectors.MintRequest{Connectors: []string{"notion"}, Alias: "No Alias"})
}

func TestTheListComesInPagesAndSaysWhatIsConnected(t *testing.T) {
	c := run(t, Config{MoreApps: 60})
	var all []connectors.App
	path, pages := connectors.RouteConnectors, 0
	for path != "" {
		reply := must[connectors.ListReply](c, 200, "GET", path, "", nil)
		all, path = append(all, reply.Items...), ""
		if pages++; reply.NextCursor != nil {
			path = connectors.RouteConnectors + "?limit=50&cursor=" + *reply.NextCursor
		}
	}
	state := map[string]connectors.App{}
	for _, a := range all {
		state[a.Connector] = a
	}
	if len(all) != 67 || len(state) != 67 || pages != 2 {
		t.Errorf("%d apps on %d pages", len(all), pages)
	}
	if a := state["gmail"]; !a.Connected || a.ConnectionStatus != StatusActive {
		t.Errorf("%+v", a)
	}
	if a := state["slack"]; a.Connected || a.ConnectionStatus != StatusExpired {
		t.Errorf("%+v", a)
	}
	if a := state["notion"]; a.Connected || a.ConnectionStatus != "" {
		t.Errorf("%+v", a)
	}
	must[problemBody](c, 400, "GET", connectors.RouteConnectors+"?cursor=x", "", nil)
}

func TestThePortalRenamesAndDisconnectsTheUsersOwnAccounts(t *testing.T) {
	c := run(t, Config{})
	list := func() map[string]connectors.Account {
		out := map[string]connectors.Account{}
		for _, a := range must[connectors.AccountsReply](c, 200, "GET", connectors.RoutePortalAccounts, "", nil).Accounts {
			if a.Alias != nil {
				out[*a.Alias] = a
			}
		}
		return out
	}
	work, home := list()["work"], list()["home"]
	if !work.Active || home.Active || home.Label != "ada.home@mail.example" {
		t.Fatalf("%+v %+v", work, home)
	}
	at := func(a connectors.Account) string { return connectors.RoutePortalAccounts + "/" + a.ConnectionID }
	if a := must[connectors.Account](c, 200, "PATCH", at(home), "", `{"alias":"private"}`); *a.Alias != "private" || list()["private"].ConnectionID != home.ConnectionID {
		t.Errorf("%+v", a)
	}
	for body, status := range map[string]int{`{"alias":"work"}`: 409, `{"alias":"Wo rk"}`: 400} {
		must[struct{ Error string }](c, status, "PATCH", at(home), "", body)
	}
	must[struct{ Error string }](c.as("dev-token"), 404, "DELETE", at(work), "", nil)
	must[struct{}](c, 204, "DELETE", at(work), "", nil)
	must[struct{ Error string }](c, 404, "DELETE", at(work), "", nil)
	if a := list()["private"]; !a.Active {
		t.Errorf("the account that is left is not the one used: %+v", a)
	}
	kinds := map[string]int{}
	for _, e := range c.s.Record().Effects {
		kinds[e.Kind]++
	}
	if kinds[EffectRename] != 1 || kinds[EffectDisconnect] != 1 {
		t.Errorf("%v", kinds)
	}
}

func TestAGuestIsCreatedOncePerKey(t *testing.T) {
	c := run(t, Config{}).as("")
	q := connectors.GuestRequest{Tenant: "default", User: "u-17"}
	first := must[connectors.GuestReply](c, 200, "POST", connectors.RouteGuest, "g1", q)
	if again := must[connectors.GuestReply](c, 200, "POST", connectors.RouteGuest, "g1", q); again != first || first.Token == "" {
		t.Errorf("%+v and %+v", first, again)
	}
	if other := must[connectors.GuestReply](c, 200, "POST", connectors.RouteGuest, "g2", q); other.Identity == first.Identity {
		t.Errorf("%+v", other)
	}
	must[problemBody](c, 409, "POST", connectors.RouteGuest, "g1", connectors.GuestRequest{Tenant: "default", User: "u-18"})
	must[problemBody](c, 400, "POST", connectors.RouteGuest, "", q)
	must[connectors.ListReply](c.as(first.Token), 200, "GET", connectors.RouteConnectors, "", nil)
	if n := len(c.s.Record().EffectsOf(EffectGuest)); n != 2 {
		t.Errorf("%d guests were created", n)
	}
	must[problemBody](run(t, Config{NoGuests: true}), 403, "POST", connectors.RouteGuest, "g1", q)
}

func TestWhatServesAgainAtItsAddressHasKeptEverything(t *testing.T) {
	c := run(t, Config{})
	c.one("k1", "linear", "LINEAR_CREATE_ISSUE", `{"title":"A"}`)
	c.s.Stop()
	c.s.Stop()
	c.http.CloseIdleConnections()
	if _, err := c.send(t.Context(), "GET", connectors.RouteConnectors, "", nil); err == nil {
		t.Fatal("it serves after Stop")
	}
	if _, err := c.s.Start(strings.TrimPrefix(c.origin, "http://")); err != nil {
		t.Fatal(err)
	}
	c.one("k1", "linear", "LINEAR_CREATE_ISSUE", `{"title":"A"}`)
	if n := len(c.s.Record().EffectsOf(EffectExecute)); n != 1 {
		t.Errorf("%d effects", n)
	}
	if _, err := c.s.Start("127.0.0.1:0"); err == nil {
		t.Error("it starts twice")
	}
}

func TestWrongUsersAndFaultsAreRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no name":      {Users: []User{{Token: "t"}}},
		"no token":     {Users: []User{{Name: "u"}}},
		"same token":   {Users: []User{{Name: "u", Token: "t"}, {Name: "v", Token: "t"}}},
		"no such app":  {Users: []User{{Name: "u", Token: "t", Accounts: []Connected{{Connector: "x"}}}}},
		"bad alias":    {Users: []User{{Name: "u", Token: "t", Accounts: []Connected{{Connector: "gmail", Alias: "A"}}}}},
		"bad status":   {Users: []User{{Name: "u", Token: "t", Accounts: []Connected{{Connector: "gmail", Status: "x"}}}}},
		"fault kind":   {Faults: []Fault{{Kind: "x"}}},
		"fault route":  {Faults: []Fault{{Kind: Hang, Route: "x"}}},
		"fault number": {Faults: []Fault{{Kind: Hang, Count: -2}}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func deadline(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
