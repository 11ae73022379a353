package subjects

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// built is every subject that a Space builds, with what Parse makes of it.
func built(s Space, tenant, session, name, toolset string) map[string]Address {
	out := map[string]Address{
		s.Result(tenant, session, name):  {Tenant: tenant, Session: session, Verb: VerbResult, CallID: name},
		s.ExecRun(tenant, toolset):       {Tenant: tenant, Area: AreaExecRun, Name: toolset},
		s.ExecCancel(tenant, toolset):    {Tenant: tenant, Area: AreaExecCancel, Name: toolset},
		s.HookRun(tenant, name):          {Tenant: tenant, Area: AreaHooksRun, Name: name},
		s.ApprovalRequested(tenant):      {Tenant: tenant, Area: AreaApprovalsRequested},
		s.ApprovalSettled(tenant):        {Tenant: tenant, Area: AreaApprovalsSettled},
		s.ApprovalList(tenant, name):     {Tenant: tenant, Area: AreaApprovalsList, Name: name},
		s.ApprovalDecide(tenant, name):   {Tenant: tenant, Area: AreaApprovalsDecide, Name: name},
		s.Portal(tenant, name):           {Tenant: tenant, Area: AreaPortal, Name: name},
		s.MCPList(tenant):                {Tenant: tenant, Area: AreaMCPList},
		s.MCPManage(tenant, name):        {Tenant: tenant, Area: AreaMCPManage, Name: name},
		s.Credentials(tenant, name):      {Tenant: tenant, Area: AreaCredentials, Name: name},
		s.Session(tenant, session, "x"):  {}, // foreign
		s.Session(tenant, session, "_x"): {},
	}
	for _, v := range append(Requests(), VerbEvent, VerbExec, VerbExecCancel) {
		out[s.Session(tenant, session, v)] = Address{Tenant: tenant, Session: session, Verb: v}
	}
	return out
}

// rebuild is the subject of an Address.
func rebuild(s Space, a Address) string {
	switch a.Area {
	case AreaExecRun:
		return s.ExecRun(a.Tenant, a.Name)
	case AreaExecCancel:
		return s.ExecCancel(a.Tenant, a.Name)
	case AreaHooksRun:
		return s.HookRun(a.Tenant, a.Name)
	case AreaApprovalsRequested:
		return s.ApprovalRequested(a.Tenant)
	case AreaApprovalsSettled:
		return s.ApprovalSettled(a.Tenant)
	case AreaApprovalsList:
		return s.ApprovalList(a.Tenant, a.Name)
	case AreaApprovalsDecide:
		return s.ApprovalDecide(a.Tenant, a.Name)
	case AreaPortal:
		return s.Portal(a.Tenant, a.Name)
	case AreaMCPList:
		return s.MCPList(a.Tenant)
	case AreaMCPManage:
		return s.MCPManage(a.Tenant, a.Name)
	case AreaCredentials:
		return s.Credentials(a.Tenant, a.Name)
	}
	if a.Verb == VerbResult {
		return s.Result(a.Tenant, a.Session, a.CallID)
	}
	return s.Session(a.Tenant, a.Session, a.Verb)
}

func TestEverySubjectThatIsBuiltParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "toolbridge.v1", "a", "x-1.y_2.Z"}).Draw(t, "prefix")
		s, err := NewSpace(prefix)
		if err != nil {
			t.Fatal(err)
		}
		token := rapid.StringMatching(`[A-Za-z0-9-][A-Za-z0-9_-]{0,63}`)
		name := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "name")
		toolset := rapid.StringN(1, 40, MaxToolset).Draw(t, "toolset")
		tenant, session := token.Draw(t, "tenant"), token.Draw(t, "session")
		for subject, want := range built(s, tenant, session, name, toolset) {
			got, err := s.Parse(subject)
			if want == (Address{}) {
				if !errors.Is(err, ErrForeign) {
					t.Fatalf("Parse(%q) = %+v, %v; it should be foreign", subject, got, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("Parse(%q): %v", subject, err)
			}
			if got != want {
				t.Fatalf("Parse(%q):\n%s", subject, cmp.Diff(want, got))
			}
		}
	})
}

func TestParseTellsForeignSubjectsFromBadTokens(t *testing.T) {
	long := strings.Repeat("a", 65)
	for name, c := range map[string]struct {
		subject string
		bad     string // kind of the bad token; "foreign"; "" for none
		want    Address
	}{
		"nothing":                     {"", "foreign", Address{}},
		"prefix only":                 {"toolbridge.v1", "foreign", Address{}},
		"prefix and dot":              {"toolbridge.v1.", "foreign", Address{}},
		"tenant only":                 {"toolbridge.v1.acme", "foreign", Address{}},
		"no verb":                     {"toolbridge.v1.acme.s1", "foreign", Address{}},
		"empty verb":                  {"toolbridge.v1.acme.s1.", "foreign", Address{}},
		"other prefix":                {"toolbridge.v2.acme.s1.bridge", "foreign", Address{}},
		"prefix as part of a token":   {"toolbridge.v10.acme.s1.bridge", "foreign", Address{}},
		"verb in capitals":            {"toolbridge.v1.acme.s1.Bridge", "foreign", Address{}},
		"verb with a tail":            {"toolbridge.v1.acme.s1.bridge.x", "foreign", Address{}},
		"connection alone":            {"toolbridge.v1.acme.s1.connection", "foreign", Address{}},
		"result without id":           {"toolbridge.v1.acme.s1.result", "foreign", Address{}},
		"result with two ids":         {"toolbridge.v1.acme.s1.result.a.b", "foreign", Address{}},
		"unknown area":                {"toolbridge.v1.acme._other.run.x", "foreign", Address{}},
		"unknown area, session verb":  {"toolbridge.v1.acme._other.bridge", "foreign", Address{}},
		"underscore alone":            {"toolbridge.v1.acme._.bridge", "foreign", Address{}},
		"area without verb":           {"toolbridge.v1.acme._exec.bridge", "foreign", Address{}},
		"requested with a tail":       {"toolbridge.v1.acme._approvals.requested.x", "foreign", Address{}},
		"decide without approver":     {"toolbridge.v1.acme._approvals.decide", "approver", Address{Tenant: "acme", Area: AreaApprovalsDecide}},
		"portal of a user":            {"toolbridge.v1.acme._portal.bridge", "", Address{Tenant: "acme", Area: AreaPortal, Name: "bridge"}},
		"portal with two tokens":      {"toolbridge.v1.acme._portal.a.b", "foreign", Address{}},
		"stream of calls":             {"toolbridge.v1._calls.s1.bridge", "foreign", Address{}},
		"stream of decisions":         {"toolbridge.v1._decisions.s1.call", "foreign", Address{}},
		"session of a single letter":  {"toolbridge.v1.a.b.call", "", Address{Tenant: "a", Session: "b", Verb: VerbCall}},
		"tenant with underscore":      {"toolbridge.v1._acme.s1.bridge", "tenant", Address{Tenant: "_acme", Session: "s1", Verb: VerbBridge}},
		"tenant empty":                {"toolbridge.v1..s1.bridge", "tenant", Address{Session: "s1", Verb: VerbBridge}},
		"tenant with umlaut":          {"toolbridge.v1.tenänt.s1.bridge", "tenant", Address{Tenant: "tenänt", Session: "s1", Verb: VerbBridge}},
		"tenant of 65":                {"toolbridge.v1." + long + ".s1.stop", "tenant", Address{Tenant: long, Session: "s1", Verb: VerbStop}},
		"session of 64":               {"toolbridge.v1.acme." + long[1:] + ".stop", "", Address{Tenant: "acme", Session: long[1:], Verb: VerbStop}},
		"session of 65":               {"toolbridge.v1.acme." + long + ".stop", "session", Address{Tenant: "acme", Session: long, Verb: VerbStop}},
		"session empty":               {"toolbridge.v1.acme..stop", "session", Address{Tenant: "acme", Verb: VerbStop}},
		"session with equals sign":    {"toolbridge.v1.acme.s=1.connection.answer", "session", Address{Tenant: "acme", Session: "s=1", Verb: VerbConnectionAnswer}},
		"session with dollar":         {"toolbridge.v1.acme.$KV.fetch", "session", Address{Tenant: "acme", Session: "$KV", Verb: VerbFetch}},
		"session wildcard":            {"toolbridge.v1.acme.*.fetch", "session", Address{Tenant: "acme", Session: "*", Verb: VerbFetch}},
		"session with line break":     {"toolbridge.v1.acme.s\n1.fetch", "session", Address{Tenant: "acme", Session: "s\n1", Verb: VerbFetch}},
		"call id with colon":          {"toolbridge.v1.acme.s1.result.a:b", "call id", Address{Tenant: "acme", Session: "s1", Verb: VerbResult, CallID: "a:b"}},
		"call id empty":               {"toolbridge.v1.acme.s1.result.", "call id", Address{Tenant: "acme", Session: "s1", Verb: VerbResult}},
		"approver with at sign":       {"toolbridge.v1.acme._approvals.list.a@b", "approver", Address{Tenant: "acme", Area: AreaApprovalsList, Name: "a@b"}},
		"user empty":                  {"toolbridge.v1.acme._portal.", "user", Address{Tenant: "acme", Area: AreaPortal}},
		"hook with space":             {"toolbridge.v1.acme._hooks.run.a b", "hook", Address{Tenant: "acme", Area: AreaHooksRun, Name: "a b"}},
		"toolset with dots":           {"toolbridge.v1.acme._exec.run.a=2Eb", "", Address{Tenant: "acme", Area: AreaExecRun, Name: "a.b"}},
		"toolset with lower-case hex": {"toolbridge.v1.acme._exec.run.a=2eb", "toolset", Address{Tenant: "acme", Area: AreaExecRun}},
		"toolset empty":               {"toolbridge.v1.acme._exec.cancel.", "toolset", Address{Tenant: "acme", Area: AreaExecCancel}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Space{}.Parse(c.subject)
			var token *ErrToken
			switch {
			case c.bad == "foreign":
				if !errors.Is(err, ErrForeign) {
					t.Fatalf("error is %v, want ErrForeign", err)
				}
			case c.bad == "" && err != nil:
				t.Fatal(err)
			case c.bad != "":
				if !errors.As(err, &token) || token.Kind != c.bad {
					t.Fatalf("error is %v, want an ErrToken about the %s", err, c.bad)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for subject := range built(Space{}, "acme", "s1", "c1", "mcp-github.com/x") {
		f.Add(subject)
	}
	f.Add("toolbridge.v1._calls.x.y")
	f.Add("toolbridge.v1.acme._exec.run.=3D")
	f.Fuzz(func(t *testing.T, subject string) {
		s := Space{}
		a, err := s.Parse(subject)
		var token *ErrToken
		switch {
		case errors.Is(err, ErrForeign):
			if a != (Address{}) {
				t.Fatalf("a foreign subject has the address %+v", a)
			}
		case errors.As(err, &token):
			if a == (Address{}) {
				t.Fatal("a bad token has no address")
			}
		case err != nil:
			t.Fatalf("error of another type: %v", err)
		default:
			if again := rebuild(s, a); again != subject {
				t.Fatalf("%q was rebuilt as %q", subject, again)
			}
			if (a.Session == "") == (a.Area == "") {
				t.Fatalf("%+v is neither a session's nor a tenant's", a)
			}
		}
	})
}

func TestPrefixIsCheckedAndSpelledOneWay(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"":                           true,
		"toolbridge.v1":              true,
		"acme":                       true,
		"a.b.c.d":                    true,
		"_INBOXES.x":                 true,
		"_INBOX":                     false,
		"_INBOX.x":                   false,
		"_R_.x":                      false,
		".a":                         false,
		"a.":                         false,
		"a..b":                       false,
		"a b":                        false,
		"a.*":                        false,
		">":                          false,
		"$KV.x":                      false,
		"$JS":                        false,
		"ä":                          false,
		strings.Repeat("a", 65):      false,
		strings.Repeat("a.", 64):     false,
		strings.Repeat("aa.", 50):    false,
		strings.Repeat("a.b.", 2000): false,
	} {
		s, err := NewSpace(prefix)
		if (err == nil) != ok {
			t.Errorf("NewSpace(%q): error %v, want ok %v", prefix, err, ok)
		}
		if err == nil && prefix != "" && s.Prefix() != prefix {
			t.Errorf("NewSpace(%q) has the prefix %q", prefix, s.Prefix())
		}
	}
	if s, _ := NewSpace(DefaultPrefix); s != (Space{}) {
		t.Error("the default prefix, spelled out, is another Space")
	}
}

func TestSubjectsOfTwoPrefixesAreForeignToEachOther(t *testing.T) {
	a, _ := NewSpace("a.b")
	b, _ := NewSpace("a.b.c")
	for subject := range built(b, "acme", "s1", "c1", "x") {
		if got, err := a.Parse(subject); err == nil {
			t.Errorf("%s parses under the shorter prefix as %+v", subject, got)
		}
	}
}

func TestStreamsTakeOnlyTheirOwnSubjects(t *testing.T) {
	s := Space{}
	for subject, want := range built(s, "acme", "s1", "c1", "mcp-x") {
		for _, stream := range s.Streams() {
			for _, pattern := range stream.Subjects {
				if covers(pattern, subject) != (stream.Name == StreamResults && want.Verb == VerbResult) {
					t.Errorf("stream %s with %s and subject %s", stream.Name, pattern, subject)
				}
			}
		}
	}
}

// covers is NATS's rule of wildcards.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i := range p {
		if p[i] == ">" {
			return len(s) > i
		}
		if i >= len(s) || p[i] != "*" && p[i] != s[i] {
			return false
		}
	}
	return len(p) == len(s)
}
