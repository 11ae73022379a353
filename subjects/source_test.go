package subjects

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// messages are the types of the contract by the name of their schema. That none
// is missing here is tested against the source of the package.
var messages = map[string]any{
	"account":                 Account{},
	"approval":                Approval{},
	"approval-decide-request": ApprovalDecideRequest{},
	"approval-list-reply":     ApprovalListReply{},
	"approval-list-request":   ApprovalListRequest{},
	"assemble-reply":          AssembleReply{},
	"assemble-request":        AssembleRequest{},
	"audit-record":            AuditRecord{},
	"binding":                 Binding{},
	"blob":                    Blob{},
	"bridge-reply":            BridgeReply{},
	"bridge-request":          BridgeRequest{},
	"call-failure":            CallFailure{},
	"call-results":            CallResults{},
	"call-slot":               CallSlot{},
	"call-stored":             CallStored{},
	"connection-answer":       ConnectionAnswer{},
	"connection-answer-reply": ConnectionAnswerReply{},
	"connection-target":       ConnectionTarget{},
	"connectors-notice":       ConnectorsNotice{},
	"credential-reply":        CredentialReply{},
	"credential-request":      CredentialRequest{},
	"dead-letter":             DeadLetter{},
	"decision":                Decision{},
	"describe-result":         DescribeResult{},
	"described-tool":          DescribedTool{},
	"error":                   Error{},
	"error-reply":             ErrorReply{},
	"event":                   Event{},
	"exec-cancel":             ExecCancel{},
	"exec-error":              ExecError{},
	"exec-reply":              ExecReply{},
	"exec-request":            ExecRequest{},
	"exec-working":            ExecWorking{},
	"fetch-pending":           FetchPending{},
	"fetch-request":           FetchRequest{},
	"found-tool":              FoundTool{},
	"grant":                   Grant{},
	"hook-answer":             HookAnswer{},
	"hook-request":            HookRequest{},
	"managed-mcp":             ManagedMCP{},
	"managed-tool":            ManagedTool{},
	"mcp-reply":               MCPReply{},
	"mcp-request":             MCPRequest{},
	"portal-reply":            PortalReply{},
	"portal-request":          PortalRequest{},
	"preflight":               Preflight{},
	"preflight-reply":         PreflightReply{},
	"preflight-request":       PreflightRequest{},
	"registration":            Registration{},
	"remembered":              Remembered{},
	"search-group":            SearchGroup{},
	"search-result":           SearchResult{},
	"slot-error":              SlotError{},
	"source":                  Source{},
	"stop-reply":              StopReply{},
	"stop-request":            StopRequest{},
	"stopped":                 Stopped{},
	"warning":                 Warning{},
}

// withoutType are the schemas of what the contract passes on as it came.
var withoutType = []string{"common", "tool-definition", "tool-definitions"}

// constant is one exported constant of the package.
type constant struct{ name, typ, value string }

// source is what the tests read of the package's own source.
type source struct {
	constants []constant
	structs   []string // exported struct types with json tags
}

func readSource(t *testing.T) source {
	t.Helper()
	var out source
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	set := gotoken.NewFileSet()
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					if decl.Tok == gotoken.CONST {
						out.constants = append(out.constants, constantsOf(s)...)
					}
				case *ast.TypeSpec:
					if st, ok := s.Type.(*ast.StructType); ok && s.Name.IsExported() && hasJSONTag(st) {
						out.structs = append(out.structs, s.Name.Name)
					}
				}
			}
		}
	}
	return out
}

func constantsOf(s *ast.ValueSpec) []constant {
	var out []constant
	for i, name := range s.Names {
		if !name.IsExported() || i >= len(s.Values) {
			continue
		}
		lit, ok := s.Values[i].(*ast.BasicLit)
		if !ok || lit.Kind != gotoken.STRING {
			continue
		}
		value, _ := strconv.Unquote(lit.Value)
		typ := ""
		if id, ok := s.Type.(*ast.Ident); ok {
			typ = id.Name
		}
		out = append(out, constant{name.Name, typ, value})
	}
	return out
}

func hasJSONTag(st *ast.StructType) bool {
	for _, f := range st.Fields.List {
		if f.Tag != nil && strings.Contains(f.Tag.Value, "json:") {
			return true
		}
	}
	return false
}

// values are those of the constants of one type, or without a type by prefix.
func (s source) values(typ, prefix string) []string {
	var out []string
	for _, c := range s.constants {
		if c.typ == typ && strings.HasPrefix(c.name, prefix) {
			out = append(out, c.value)
		}
	}
	slices.Sort(out)
	return out
}

func TestEveryMessageTypeHasASchemaAndEverySchemaAType(t *testing.T) {
	var typed []string
	for _, m := range messages {
		typed = append(typed, reflect.TypeOf(m).Name())
	}
	for _, name := range readSource(t).structs {
		if !slices.Contains(typed, name) {
			t.Errorf("the type %s has no schema", name)
		}
	}
	found := map[string]bool{}
	for _, name := range jsonFiles(t, Schemas()) {
		found[name] = true
		if _, ok := messages[name]; !ok && !slices.Contains(withoutType, name) {
			t.Errorf("the schema %s has no type", name)
		}
	}
	for name := range messages {
		if !found[name] {
			t.Errorf("the schema %s is missing", name)
		}
		if _, err := Schema(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Schema("../asyncapi"); err == nil {
		t.Error("a file that is no schema was read as one")
	}
}

func jsonFiles(t *testing.T, files fs.FS) []string {
	t.Helper()
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			t.Fatalf("%s is no JSON file", e.Name())
		}
		out = append(out, name)
	}
	return out
}
