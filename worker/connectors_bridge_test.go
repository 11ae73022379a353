package worker_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"toolbridge/connectors"
	"toolbridge/worker"
)

const (
	gmailSchemas = `{"GMAIL_SEND_EMAIL":{"connector":"gmail","tool":"GMAIL_SEND_EMAIL","description":"Send an email from gmail","inputSchema":{"type":"object","properties":{"connector_alias":{"type":"string","enum":["work","home"]},"n":{"maximum":12345678901234567890}},"required":["to"]}},` +
		`"GMAIL_DELETE":{"connector":"gmail","tool":"GMAIL_DELETE","description":"Delete an email","inputSchema":{}},` +
		`"SLACK_POST":{"connector":"slack","tool":"SLACK_POST","description":"Post an email to slack","inputSchema":{}}}`
	gmailFound = `{"results":[{"index":0,"tools":["GMAIL_SEND_EMAIL","GMAIL_DELETE","SLACK_POST"]}],"schemas":` + gmailSchemas + `}`
)

// mailTools are local tools of which five match "mail message", one matches
// "calendar event", and none "zeppelin".
func mailTools(more ...string) string {
	list := []string{tool("mcp__cal__create_event", "mcp-cal", "Create an event in the calendar")}
	for _, verb := range []string{"send", "list", "move", "flag", "print"} {
		list = append(list, tool("mcp__post__"+verb+"_message", "mcp-post", "Mail: "+verb+" one message", "folder"))
	}
	return `{"tools":` + tools(append(list, more...)...) + `}`
}

// withoutNotice cuts the "connectors" member off the end of a payload.
func withoutNotice(t *testing.T, payload json.RawMessage) (rest string, notice map[string]any) {
	t.Helper()
	at := strings.LastIndex(string(payload), `,"connectors":{"status"`)
	if at < 0 {
		return string(payload), nil
	}
	notice = decode(t, payload[at+len(`,"connectors":`):len(payload)-1])
	return string(payload[:at]) + "}", notice
}

// K15, and the gateway's other ways to fail: the local results have the same bytes
// as with connectors off, at once where every query has local matches, and the
// payload says what is missing.
func TestK15AFailingGatewayCostsNothingButItsOwnHits(t *testing.T) {
	g := newScriptedGateway(t)
	f := newFleet(t)
	f.start(worker.Config{Dev: true, Gateway: gatewayOf(t, f, g.URL, func(c *connectors.Config) {
		c.SearchWait = 50 * time.Millisecond
		c.Breaker.Disabled = true
	})})
	plain := newFleet(t)
	plain.start(worker.Config{Dev: true})
	const named = `["connectors__gmail__SEND_EMAIL","mcp__cal__create_event","nope"]`
	huge := `{"results":[{"tools":["A"]}],"schemas":{"A":{"connector":"a","description":"` + strings.Repeat("x", 9<<20) + `"}}}`
	for name, answer := range map[string]gatewayAnswer{
		"never-answers":  {Raise: "timeout"},
		"breaks-off":     {Raise: "reset"},
		"502":            {Status: 502, Body: json.RawMessage(`{}`)},
		"html-page":      {Status: 502, Body: json.RawMessage(`"<html>bad gateway</html>"`)},
		"html-200":       {Status: 200, Body: json.RawMessage(`"<html>"`)},
		"half":           {Status: 200, Body: json.RawMessage(strconv.Quote(gmailFound[:100]))},
		"another-shape":  {Status: 200, Body: json.RawMessage(`{"results":{},"schemas":7}`)},
		"too-large":      {Status: 200, Body: json.RawMessage(huge)},
		"not-available":  {Status: 404, Body: json.RawMessage(`{"error":"NOT_FOUND"}`)},
		"signed-out":     {Status: 401, Body: json.RawMessage(`{"error":{"code":"TOKEN_EXPIRED"}}`)},
		"other-queries":  {Status: 200, Body: json.RawMessage(`{"results":[{"useCase":"other","tools":["SLACK_POST"]},{"useCase":"other","tools":["SLACK_POST"]}],"schemas":` + gmailSchemas + `}`)},
		"nothing-usable": {Status: 200, Body: json.RawMessage(`{"results":[{"tools":["NOPE",7,null]},7],"schemas":{"NOPE":{"connector":7}}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			g.answer(name, answer)
			on := f.assembleIn(name, "s", mailTools(manageConnections))
			off := plain.assembleIn(name, "s", mailTools())
			silent := slices.Contains([]string{"not-available", "other-queries", "nothing-usable"}, name)
			for _, c := range []struct {
				tool, arguments string
			}{
				{"tool_search", `{"queries":["mail message","calendar event"],"limit":5}`},
				{"tool_search", `{"queries":["zeppelin","mail message"]}`},
				{"tool_search", `{"queries":["mail message"],"limit":3}`},
				{"tool_describe", `{"names":` + named + `}`},
			} {
				if name == "other-queries" && c.tool == "tool_describe" {
					continue // its schemas are good
				}
				deadline := time.Now().Add(1500 * time.Millisecond)
				got, notice := withoutNotice(t, f.bridgeIn(name, "s", on, c.tool, c.arguments, "Toolbridge-Deadline", strconv.FormatInt(deadline.UnixMilli(), 10)))
				want, _ := withoutNotice(t, plain.bridgeIn(name, "s", off, c.tool, c.arguments))
				if c.tool == "tool_describe" && !silent { // the names are told of in the notice
					want = strings.Replace(want, `"connectors__gmail__SEND_EMAIL",`, "", 1)
					if notice != nil && text(notice["names"]) != `["connectors__gmail__SEND_EMAIL"]` {
						t.Errorf("names %v", notice["names"])
					}
				}
				if got != want {
					t.Errorf("%s %s gives\n%s\nwith connectors off\n%s", c.tool, c.arguments, got, want)
				}
				if silent != (notice == nil) {
					t.Errorf("%s: notice %v", c.tool, notice)
				}
				if notice != nil && notice["status"] != "unavailable" {
					t.Errorf("%s: notice %v", c.tool, notice)
				}
			}
		})
	}
}

// A hanging gateway never turns an answer into a request's error: what the session
// has is answered before the deadline, by a margin.
func TestAHangingGatewayIsBoundedByTheRequestsDeadline(t *testing.T) {
	g := newScriptedGateway(t)
	g.answer("t", gatewayAnswer{Raise: "timeout"})
	f := newFleet(t)
	f.start(worker.Config{Dev: true, MaxInFlight: 2, Gateway: gatewayOf(t, f, g.URL)})
	catalog := f.assembleIn("t", "s", mailTools(manageConnections))
	until := time.Now().Add(time.Second)
	payload := f.bridgeIn("t", "s", catalog, "tool_search", `{"queries":["zeppelin"]}`, "Toolbridge-Deadline", strconv.FormatInt(until.UnixMilli(), 10))
	if _, notice := withoutNotice(t, payload); notice["reason"] != "unreachable" {
		t.Errorf("%s", payload)
	}
	// Those who wait for the gateway keep no place from the others.
	var waiting sync.WaitGroup
	for i := range 4 {
		waiting.Go(func() {
			reply := f.send("toolbridge.v1.t.s.bridge", fmt.Sprintf(`{"id":"w%d","name":"tool_search","arguments":{"queries":["zeppelin %d"]},"catalog":%q}`, i, i, catalog),
				"Toolbridge-Deadline", strconv.FormatInt(time.Now().Add(2*time.Second).UnixMilli(), 10))
			if !strings.Contains(string(reply.Data), `"unreachable"`) {
				t.Errorf("%s", reply.Data)
			}
		})
		eventually(t, "the search is sent", func() bool { return len(g.asked("t")) == i+2 })
	}
	if reply := f.ask("s", "preflight", fmt.Sprintf(`{"names":["mcp__cal__create_event"],"catalog":%q}`, catalog)); reply["error"] != nil {
		t.Errorf("%v", reply)
	}
	waiting.Wait()
}

func TestHostedAndLocalToolsAreRankedTogether(t *testing.T) {
	g := newScriptedGateway(t)
	g.answer("t", gatewayAnswer{Status: 200, Body: json.RawMessage(gmailFound)})
	f := newFleet(t)
	f.start(worker.Config{Dev: true, Gateway: gatewayOf(t, f, g.URL)})
	catalog := f.assembleIn("t", "s", mailTools(manageConnections))
	find := func(query string) map[string]any {
		t.Helper()
		return decode(t, f.bridgeIn("t", "s", catalog, "tool_search", fmt.Sprintf(`{"queries":[%q]}`, query)))
	}
	r := find("send email gmail")
	if m := text(at(t, r, "results", 0, "matches")); !strings.HasPrefix(m, `["connectors__gmail__SEND_EMAIL"`) {
		t.Errorf("matches %s", m)
	}
	if d := text(at(t, r, "tools", "connectors__gmail__SEND_EMAIL")); d != `{"description":"Send an email from gmail Accounts (connector_alias): work, home.","required":["to"],"source":"connectors","source_name":"gmail"}` {
		t.Errorf("%s", d)
	}
	// A tool that lacks the word that names the intent is none, but can be near.
	r = find("post email zeppelin")
	if m, near := text(at(t, r, "results", 0, "matches")), text(at(t, r, "results", 0, "near_matches")); m != `[]` || !strings.Contains(near, `"connectors__slack__POST"`) {
		t.Errorf("matches %s, near %s", m, near)
	}
	if words := text(at(t, r, "results", 0, "unmatched_terms")); words != `["zeppelin"]` {
		t.Errorf("unmatched %s", words)
	}
	// A local tool's name is not sent.
	before := len(g.asked("t"))
	for _, query := range []string{"mcp__cal__create_event", " MCP__cal__create_event "} {
		if m := text(at(t, find(query), "results", 0, "matches")); m != `["mcp__cal__create_event"]` {
			t.Errorf("matches %s", m)
		}
	}
	if n := len(g.asked("t")); n != before {
		t.Errorf("%d requests for local names", n-before)
	}
	// Beside another query only that one is.
	g.script("t", gatewayAnswer{Status: 200, Body: json.RawMessage(gmailFound)})
	r = decode(t, f.bridgeIn("t", "s", catalog, "tool_search", `{"queries":["mcp__cal__create_event","delete email","mcp__post__send_message"]}`))
	asked := g.asked("t")
	if last := asked[len(asked)-1]; last != `v1/connectors/search {"queries":[{"useCase":"delete email"}]}` {
		t.Errorf("asked %s", last)
	}
	if m := text(at(t, r, "results", 1, "matches", 0)); m != `"connectors__gmail__DELETE"` {
		t.Errorf("%s", text(r["results"]))
	}
}

// connector_alias and its enumeration pass through, and the accounts are told in
// the description; the schema keeps its numbers and its order.
func TestADescribedConnectorShowsItsAccounts(t *testing.T) {
	g := newScriptedGateway(t)
	g.answer("t", gatewayAnswer{Status: 200, Body: json.RawMessage(`{"schemas":` + gmailSchemas + `}`)})
	f := newFleet(t)
	f.start(worker.Config{Dev: true, Gateway: gatewayOf(t, f, g.URL)})
	catalog := f.assembleIn("t", "s", mailTools(manageConnections))
	got := string(f.bridgeIn("t", "s", catalog, "tool_describe", `{"names":["connectors__gmail__SEND_EMAIL"]}`))
	want := `{"tools":{"connectors__gmail__SEND_EMAIL":{"description":"Send an email from gmail Accounts (connector_alias): work, home.","parameters":{"type":"object","properties":{"connector_alias":{"type":"string","enum":["work","home"]},"n":{"maximum":12345678901234567890}},"required":["to"]}}}}`
	if got != want {
		t.Errorf("%s", got)
	}
}

// Never more than the session may see: its grant bounds what the gateway finds and
// describes, and names whose account is asked.
func TestAGrantBoundsHostedTools(t *testing.T) {
	g := newScriptedGateway(t)
	g.answer("t", gatewayAnswer{Status: 200, Body: json.RawMessage(gmailFound)})
	f := newFleet(t)
	var mu sync.Mutex
	users := map[string]bool{}
	f.start(worker.Config{Gateway: gatewayOf(t, f, g.URL, func(c *connectors.Config) {
		c.DevUser = ""
		c.Client.Credentials = userCredentials{asked: func(who connectors.Who) {
			mu.Lock()
			defer mu.Unlock()
			users[who.User] = true
		}}
	})})
	for _, c := range []struct {
		name, grant string
		want        []string // of gmail's and slack's tools
	}{
		{"everything", `{"user":"u-17"}`, []string{"connectors__gmail__DELETE", "connectors__gmail__SEND_EMAIL", "connectors__slack__POST"}},
		{"by toolset", `{"user":"u-17","toolsets":["connectors"]}`, []string{"connectors__gmail__DELETE", "connectors__gmail__SEND_EMAIL", "connectors__slack__POST"}},
		{"by name", `{"user":"u-17","tools":["connectors__gmail__*"]}`, []string{"connectors__gmail__DELETE", "connectors__gmail__SEND_EMAIL"}},
		{"denied", `{"user":"u-17","deny":["connectors__gmail__SEND_EMAIL","connectors__slack__*"]}`, []string{"connectors__gmail__DELETE"}},
		{"only others", `{"user":"u-17","toolsets":["mcp-post"]}`, nil},
		{"nothing", `{"user":"u-17","tools":[],"toolsets":[]}`, nil},
		{"no user", `{"tools":["*"]}`, nil},
		{"no grant", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			session := strings.ReplaceAll(c.name, " ", "-")
			if c.grant != "" {
				f.grant(session, c.grant)
			}
			catalog := f.assembleIn("t", session, mailTools(manageConnections))
			r := decode(t, f.bridgeIn("t", session, catalog, "tool_search", `{"queries":["email"],"limit":25}`))
			var found []string
			for name := range r["tools"].(map[string]any) {
				if strings.HasPrefix(name, "connectors__") {
					found = append(found, name)
				}
			}
			slices.Sort(found)
			if !slices.Equal(found, c.want) {
				t.Errorf("finds %v, want %v", found, c.want)
			}
			if strings.Contains(text(r), "SLACK") || strings.Contains(text(r), "slack") != slices.Contains(c.want, "connectors__slack__POST") {
				t.Errorf("the answer tells of tools out of scope: %s", text(r))
			}
			r = decode(t, f.bridgeIn("t", session, catalog, "tool_describe", `{"names":["connectors__gmail__SEND_EMAIL","connectors__GMAIL__SEND_EMAIL","connectors__gmail__GMAIL_SEND_EMAIL","connectors__slack__POST"]}`))
			for name := range r["tools"].(map[string]any) {
				shown := map[string]string{"connectors__slack__POST": "connectors__slack__POST"}[name]
				if shown == "" {
					shown = "connectors__gmail__SEND_EMAIL"
				}
				if !slices.Contains(c.want, shown) {
					t.Errorf("describes %s", name)
				}
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(users) != 1 || !users["u-17"] {
		t.Errorf("asked for the accounts of %v", users)
	}
}

// Without manage_connections among a session's tools there are no connectors, and
// no request leaves; so it is where they are switched off.
func TestConnectorsOutOfScopeSendNothing(t *testing.T) {
	v := newVectorFleet(t)
	for _, c := range []struct {
		name string
		f    *fleet
		body string
	}{{"not-asked-for", v.on, mailTools()}, {"switched-off", v.off, mailTools(manageConnections)}} {
		v.gateway.answer(c.name, gatewayAnswer{Status: 200, Body: json.RawMessage(gmailFound)})
		catalog := c.f.assembleIn(c.name, "s", c.body)
		r := decode(t, c.f.bridgeIn(c.name, "s", catalog, "tool_search", `{"queries":["zeppelin","send email"]}`))
		if s := text(r); strings.Contains(s, "connectors") {
			t.Errorf("%s: %s", c.name, s)
		}
		r = decode(t, c.f.bridgeIn(c.name, "s", catalog, "tool_describe", `{"names":["connectors__gmail__SEND_EMAIL"]}`))
		if text(r["not_found"]) != `["connectors__gmail__SEND_EMAIL"]` || r["connectors"] != nil {
			t.Errorf("%s: %s", c.name, text(r))
		}
		if asked := v.gateway.asked(c.name); len(asked) > 0 {
			t.Errorf("%s: asked %v", c.name, asked)
		}
	}
}
