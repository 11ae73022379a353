package subjects

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// asyncDoc is the document, as far as the tests look at it.
type asyncDoc struct {
	t    *testing.T
	root map[string]any
}

func loadAsyncAPI(t *testing.T) asyncDoc {
	t.Helper()
	var root map[string]any
	if err := yaml.UnmarshalWithOptions(AsyncAPI(), &root, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return asyncDoc{t, root}
}

// at walks down by names; it fails the test where there is nothing.
func (d asyncDoc) at(path ...string) map[string]any {
	d.t.Helper()
	node := d.root
	for _, p := range path {
		next, ok := node[p].(map[string]any)
		if !ok {
			d.t.Fatalf("there is no %s", strings.Join(path, "/"))
		}
		node = next
	}
	return node
}

// refs lists every $ref below v.
func refs(v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if s, ok := e.(string); ok && k == "$ref" {
				out = append(out, s)
			} else {
				out = append(out, refs(e)...)
			}
		}
	case []any:
		for _, e := range v {
			out = append(out, refs(e)...)
		}
	}
	slices.Sort(out)
	return out
}

func memberNames(m map[string]any) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func TestEveryReferenceOfTheAsyncAPIDocumentLeadsSomewhere(t *testing.T) {
	d := loadAsyncAPI(t)
	used := map[string]bool{}
	for _, ref := range refs(d.root) {
		used[ref] = true
		if file, ok := strings.CutPrefix(ref, "./schemas/"); ok {
			if _, err := Schema(strings.TrimSuffix(file, ".json")); err != nil {
				t.Error(err)
			}
			continue
		}
		pointer, ok := strings.CutPrefix(ref, "#/")
		if !ok {
			t.Errorf("$ref %s leads out of the folder", ref)
			continue
		}
		d.at(strings.Split(pointer, "/")...)
	}
	for _, kind := range []string{"messages", "parameters", "schemas"} {
		for name := range d.at("components", kind) {
			if ref := "#/components/" + kind + "/" + name; !used[ref] {
				t.Errorf("%s is used by nothing", ref)
			}
		}
	}
}

// addresses are the subjects that a Space builds, as a document writes them.
func addresses(t *testing.T) []string {
	t.Helper()
	const tenant, session = "{tenant}", "{session}"
	s := Space{}
	toolset := func(subject string) string { return strings.Replace(subject, "TOOLSET", "{toolset}", 1) }
	builders := map[string][]string{
		// Inside the streams' roots, which are documented whole: workers only.
		"CallSubject": nil, "WakeSubject": nil, "DecisionSubject": nil, "AuditSubject": nil, "DeadSubject": nil,
		"Prefix":            nil,
		"AnySession":        nil, // of Session
		"Session":           nil,
		"Result":            {s.Result(tenant, session, "{call_id}")},
		"ExecRun":           {toolset(s.ExecRun(tenant, "TOOLSET"))},
		"ExecCancel":        {toolset(s.ExecCancel(tenant, "TOOLSET"))},
		"HookRun":           {s.HookRun(tenant, "{hook}")},
		"ApprovalRequested": {s.ApprovalRequested(tenant)},
		"ApprovalSettled":   {s.ApprovalSettled(tenant)},
		"ApprovalList":      {s.ApprovalList(tenant, "{approver}")},
		"ApprovalDecide":    {s.ApprovalDecide(tenant, "{approver}")},
		"Portal":            {s.Portal(tenant, "{user}")},
		"MCPList":           {s.MCPList(tenant)},
		"MCPManage":         {s.MCPManage(tenant, "{executor}")},
		"Credentials":       {s.Credentials(tenant, "{user}")},
	}
	for _, v := range append(Requests(), VerbEvent, VerbExec, VerbExecCancel) {
		builders["Session"] = append(builders["Session"], s.Session(tenant, session, v))
	}
	var out []string
	typ := reflect.TypeFor[Space]()
	for i := range typ.NumMethod() {
		m := typ.Method(i)
		if m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.String {
			continue
		}
		built, known := builders[m.Name]
		if !known {
			t.Errorf("the subjects of Space.%s are compared with no channel", m.Name)
		}
		out = append(out, built...)
	}
	for _, stream := range s.Streams() {
		for _, subject := range stream.Subjects {
			if root, ok := strings.CutSuffix(subject, ">"); ok { // the others are built above
				out = append(out, root+"{tail}")
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestChannelsAreTheSubjectsOfTheGrammar(t *testing.T) {
	d := loadAsyncAPI(t)
	parameter := regexp.MustCompile(`{(\w+)}`)
	var documented []string
	for name, c := range d.at("channels") {
		channel := c.(map[string]any)
		address, ok := channel["address"].(string)
		if !ok {
			if name != "reply" {
				t.Errorf("the channel %s has no address", name)
			}
			continue
		}
		documented = append(documented, address)
		if channel["description"] == nil {
			t.Errorf("the channel %s has no description", name)
		}
		var inAddress []string
		for _, m := range parameter.FindAllStringSubmatch(address, -1) {
			inAddress = append(inAddress, m[1])
		}
		slices.Sort(inAddress)
		if diff := cmp.Diff(inAddress, memberNames(channel["parameters"].(map[string]any))); diff != "" {
			t.Errorf("%s: parameters of the address against the declared: %s", name, diff)
		}
	}
	slices.Sort(documented)
	if diff := cmp.Diff(addresses(t), documented); diff != "" {
		t.Errorf("subjects that are built against channels: %s", diff)
	}
}

func TestEveryMessageOfTheDocumentHasAPayloadAndHeaders(t *testing.T) {
	d := loadAsyncAPI(t)
	for name, m := range d.at("components", "messages") {
		message := m.(map[string]any)
		if message["title"] == nil || message["headers"] == nil {
			t.Errorf("%s: title and headers are needed", name)
		}
		payload, ok := message["payload"].(map[string]any)
		if !ok {
			if name != "blobChunk" && name != "seen" { // bytes; anything
				t.Errorf("%s has no payload", name)
			}
			continue
		}
		if payload["schemaFormat"] != "application/schema+json;version=2020-12" || message["contentType"] != "application/json" {
			t.Errorf("%s: schemaFormat %v, contentType %v", name, payload["schemaFormat"], message["contentType"])
		}
		ref := refs(payload)
		if len(ref) != 1 || !strings.HasPrefix(ref[0], "./schemas/") {
			t.Errorf("%s: payload refers to %v", name, ref)
		}
	}
}

func TestOperationsFitTheirChannels(t *testing.T) {
	d := loadAsyncAPI(t)
	served := map[string]bool{}
	for name, o := range d.at("operations") {
		operation := o.(map[string]any)
		channel := refs(operation["channel"])[0]
		served[channel] = true
		for _, ref := range refs(operation["messages"]) {
			if !strings.HasPrefix(ref, channel+"/messages/") {
				t.Errorf("%s: %s is no message of its channel", name, ref)
			}
		}
		if got, want := len(refs(operation["messages"])), len(d.at("channels", strings.TrimPrefix(channel, "#/channels/"), "messages")); got != want {
			t.Errorf("%s has %d messages, its channel %d", name, got, want)
		}
		if operation["summary"] == nil {
			t.Errorf("%s has no summary", name)
		}
		reply, replies := operation["reply"].(map[string]any)
		switch operation["action"] {
		case "receive":
			if !replies || !slices.Contains(refs(reply["messages"]), "#/channels/reply/messages/errorReply") {
				t.Errorf("%s: a request may fail, but errorReply is none of its replies", name)
			}
			queue := operation["bindings"].(map[string]any)["nats"].(map[string]any)["queue"]
			if queue != QueueWorkers {
				t.Errorf("%s: queue group %v", name, queue)
			}
		case "send":
		default:
			t.Errorf("%s: action %v", name, operation["action"])
		}
		if replies {
			for _, ref := range refs(reply["messages"]) {
				if !strings.HasPrefix(ref, "#/channels/reply/messages/") {
					t.Errorf("%s: %s is no message of the channel reply", name, ref)
				}
			}
		}
	}
	for _, v := range Requests() { // every endpoint of a worker is an operation
		found := false
		for ref := range served {
			address, _ := d.at("channels", strings.TrimPrefix(ref, "#/channels/"))["address"].(string)
			found = found || address == Space{}.Session("{tenant}", "{session}", v)
		}
		if !found {
			t.Errorf("%s has no operation", v)
		}
	}
	for name := range d.at("channels") {
		internal := slices.Contains([]string{"calls", "wake", "decisions", "reply"}, name)
		if served["#/channels/"+name] == internal {
			t.Errorf("channel %s: operation %v", name, !internal)
		}
	}
}

func TestHeadersOfTheDocumentAreTheConstants(t *testing.T) {
	d := loadAsyncAPI(t)
	src := readSource(t)
	headers, enums := map[string]any{}, map[string]map[string]any{}
	for _, s := range d.at("components", "schemas") {
		for header, p := range s.(map[string]any)["properties"].(map[string]any) {
			headers[header] = true
			list, _ := p.(map[string]any)["enum"].([]any)
			for _, e := range list {
				if enums[header] == nil {
					enums[header] = map[string]any{}
				}
				enums[header][e.(string)] = true
			}
		}
	}
	for _, c := range []struct {
		what string
		want []string
		got  []string
	}{
		{"headers", src.values("", "Header"), memberNames(headers)},
		{"kinds", src.values("", "Kind"), memberNames(enums[HeaderKind])},
		{"statuses", src.values("", "Status"), memberNames(enums[HeaderStatus])},
		{"encodings", src.values("", "Encoding"), memberNames(enums[HeaderContentEncoding])},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s, constants against the document: %s", c.what, diff)
		}
	}
	if d.at("info")["version"] == nil || d.root["asyncapi"] != "3.0.0" {
		t.Error("versions are missing")
	}
}
