package subjects

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// read decodes an example.
func read[T any](t *testing.T, file string) T {
	t.Helper()
	var m T
	if err := Decode(example(t, file), &m); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return m
}

func hexSHA256(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// definitionDigest is the contract's rule for definition_sha256.
func definitionDigest(t *testing.T, name, description string, parameters json.RawMessage) string {
	t.Helper()
	v := jsontext.Value(`{"name":` + string(appendString(nil, name)) + `,"description":` + string(appendString(nil, description)) + `,"parameters":` + string(parameters) + `}`)
	if err := v.Compact(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(true)); err != nil {
		t.Fatal(err)
	}
	return hexSHA256(v)
}

func TestTheExamplesTellOneStory(t *testing.T) {
	type plain struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	tool := read[plain](t, "tool-definition.plain")
	digest := definitionDigest(t, tool.Name, tool.Description, tool.Parameters)

	call := read[BridgeRequest](t, "bridge-request.call")
	approval := read[Approval](t, "approval")
	exec := read[ExecRequest](t, "exec-request")
	audit := read[AuditRecord](t, "audit-record")
	decision := read[Decision](t, "decision")
	assembled := read[AssembleReply](t, "assemble-reply")

	for what, pair := range map[string][2]string{
		"digest of the definition, approval": {digest, approval.DefinitionSHA256},
		"digest of the definition, exec":     {digest, exec.DefinitionSHA256},
		"digest of the definition, audit":    {digest, audit.DefinitionSHA256},
		"digest of the arguments":            {hexSHA256([]byte(approval.ArgumentsJSON)), approval.ArgumentsSHA256},
		"digest of the arguments, decide":    {approval.ArgumentsSHA256, read[ApprovalDecideRequest](t, "approval-decide-request").ArgumentsSHA256},
		"digest of the arguments, audit":     {approval.ArgumentsSHA256, audit.ArgumentsSHA256},
		"call of the approval":               {call.ID, approval.CallID},
		"call stored":                        {call.ID, read[CallStored](t, "call-stored").ID},
		"call fetched":                       {call.ID, read[FetchRequest](t, "fetch-request").CallID},
		"call of the reply":                  {call.ID, read[BridgeReply](t, "bridge-reply.call").ID},
		"call of the execution":              {call.ID + ".0", exec.ExecutionID},
		"execution cancelled":                {exec.ExecutionID, read[ExecCancel](t, "exec-cancel").ExecutionID},
		"session":                            {approval.Session, exec.Session},
		"session of the hook":                {approval.Session, read[HookRequest](t, "hook-request.pre").Session},
		"user":                               {read[Grant](t, "grant").User, approval.User},
		"tool":                               {tool.Name, approval.Tool},
		"tool executed":                      {tool.Name, exec.Tool},
		"decision":                           {approval.ID, decision.ID},
		"decision of the audit":              {decision.At, audit.Decision.At},
		"approver":                           {decision.By, audit.By},
		"catalog of the call":                {assembled.Catalog, call.Catalog},
		"catalog of the search":              {assembled.Catalog, read[BridgeRequest](t, "bridge-request.search").Catalog},
		"catalog of the binding":             {assembled.Catalog, read[Binding](t, "binding").Catalog},
		"stopped call":                       {read[StopRequest](t, "stop-request").CallID, read[StopReply](t, "stop-reply").Stopped[0].CallID},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s and %s", what, pair[0], pair[1])
		}
	}
	if !strings.HasPrefix(string(exec.Arguments), "{") || compacted(t, exec.Arguments) != approval.ArgumentsJSON {
		t.Error("what is executed is not what was approved")
	}
	if read[Registration](t, "registration").DefinitionsSHA256 != hexSHA256([]byte(compacted(t, example(t, "tool-definitions")))) {
		t.Error("the registration is of other definitions")
	}
	if diff := cmp.Diff(read[BridgeReply](t, "bridge-reply.search").Result, jsonOf(example(t, "search-result")), sameJSON(t)); diff != "" {
		t.Error(diff)
	}
}

func jsonOf(text []byte) json.RawMessage { return bytes.TrimSpace(text) }

func compacted(t *testing.T, text []byte) string {
	t.Helper()
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func sameJSON(t *testing.T) cmp.Option {
	return cmp.Comparer(func(a, b json.RawMessage) bool { return compacted(t, a) == compacted(t, b) })
}
