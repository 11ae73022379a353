package conformance

import (
	"strings"
	"testing"
)

func TestRequestsThatCanNotBeServedAreRefusedWithTheirCode(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	absent := "sha256:" + strings.Repeat("0", 64)
	for _, c := range []struct{ what, verb, body, code string }{
		{"no JSON", "assemble", `nonsense`, "BAD_REQUEST"},
		{"an empty body", "assemble", ``, "BAD_REQUEST"},
		{"a list", "assemble", `[]`, "BAD_REQUEST"},
		{"neither tools nor toolsets", "assemble", `{}`, "BAD_REQUEST"},
		{"tools that are no list", "assemble", `{"tools":{}}`, "BAD_REQUEST"},
		{"an unknown surface", "assemble", `{"tools":[],"surface":"fridge"}`, "BAD_REQUEST"},
		{"an unknown dialect", "assemble", `{"tools":[],"dialect":"cobol"}`, "BAD_REQUEST"},
		{"a member twice", "assemble", `{"tools":[],"tools":[]}`, "BAD_REQUEST"},
		{"bytes that are no UTF-8 in a member", "assemble", "{\"tools\":[],\"surface\":\"\xff\"}", "BAD_REQUEST"},
		{"text after the body", "assemble", `{"tools":[]} {}`, "BAD_REQUEST"},
		{"a pin that is gone", "assemble", `{"tools":[],"registry_revision":999999999}`, "UNKNOWN_CATALOG"},
		{"no id", "bridge", `{"name":"tool_search","arguments":{},"catalog":"` + ref + `"}`, "BAD_REQUEST"},
		{"an id that is no token", "bridge", `{"id":"a.b","name":"tool_search","arguments":{},"catalog":"` + ref + `"}`, "BAD_REQUEST"},
		{"an id that is too long", "bridge", `{"id":"` + strings.Repeat("x", 65) + `","name":"tool_search","arguments":{},"catalog":"` + ref + `"}`, "BAD_REQUEST"},
		{"no name", "bridge", `{"id":"c1","arguments":{},"catalog":"` + ref + `"}`, "BAD_REQUEST"},
		{"no catalog and no tools", "bridge", `{"id":"c1","name":"tool_search","arguments":{}}`, "BAD_REQUEST"},
		{"a catalog that nobody assembled", "bridge", `{"id":"c1","name":"tool_search","arguments":{"queries":["x"]},"catalog":"` + absent + `"}`, "UNKNOWN_CATALOG"},
		{"a catalog that is no hash", "bridge", `{"id":"c1","name":"tool_search","arguments":{"queries":["x"]},"catalog":"latest"}`, "UNKNOWN_CATALOG"},
		{"preflight without a catalog", "preflight", `{"names":["x"]}`, "BAD_REQUEST"},
		{"preflight without names", "preflight", `{"names":[],"catalog":"` + ref + `"}`, "BAD_REQUEST"},
		{"preflight of a catalog that nobody assembled", "preflight", `{"names":["x"],"catalog":"` + absent + `"}`, "UNKNOWN_CATALOG"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := &session{t: t, nc: s.nc, name: s.name}
			s.refused(s.subject(c.verb), c.body, c.code)
		})
	}
}

func TestSubjectsWithABrokenTokenAreRefusedNotIgnored(t *testing.T) {
	s := newSession(t)
	for _, subject := range []string{
		*prefix + "." + *tenant + ".a$b.assemble", *prefix + "." + *tenant + "." + strings.Repeat("x", 65) + ".bridge",
		*prefix + ".tenänt." + s.name + ".preflight", *prefix + "._tenant." + s.name + ".assemble",
	} {
		s.refused(subject, usual(), "BAD_REQUEST")
	}
}

func TestASessionUsesOnlyCatalogsThatItAssembled(t *testing.T) {
	owner, other := newSession(t), newSession(t)
	_, ref := owner.assemble(usual())
	for range 5 { // whichever worker answers
		other.refused(other.subject("bridge"), `{"id":"c1","name":"tool_search","arguments":{"queries":["email"]},"catalog":"`+ref+`"}`, "UNKNOWN_CATALOG")
		other.refused(other.subject("bridge"), `{"id":"c1","name":"tool_call","arguments":`+call(entry("get_forecast", `{}`))+`,"catalog":"`+ref+`"}`, "UNKNOWN_CATALOG")
		other.refused(other.subject("preflight"), `{"names":["get_forecast"],"catalog":"`+ref+`"}`, "UNKNOWN_CATALOG")
	}
	if v := owner.bridge(ref, "tool_search", `{"queries":["email"]}`); v["is_error"] != false {
		t.Errorf("the owner: %s", encode(v))
	}
}

func TestPreflightTellsWhatIsCallable(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	v := s.ask("preflight", `{"names":["mcp__mail__send_message","terminal","nope"],"catalog":"`+ref+`"}`)
	if at(v, "tools", "terminal", "callable") != true || at(v, "tools", "nope", "callable") != false || at(v, "tools", "nope", "code") != "TOOL_NOT_FOUND" {
		t.Errorf("preflight = %s", encode(v))
	}
	if at(v, "tools", "mcp__mail__send_message") == nil || len(v["tools"].(map[string]any)) != 3 {
		t.Errorf("preflight = %s", encode(v))
	}
}
