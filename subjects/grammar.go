package subjects

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultPrefix is the root of every subject unless a deployment configures
// another.
const DefaultPrefix = "toolbridge.v1"

// QueueWorkers is the queue group of every worker endpoint, QueueExecutors that
// of the executors of one toolset, ServiceName the name of the micro service.
const (
	ServiceName    = "toolbridge"
	QueueWorkers   = "workers"
	QueueExecutors = "executors"
)

// Verb is what a session's subject asks for: its last tokens.
type Verb string

// The verbs of a session's own subjects, <prefix>.<tenant>.<session>.<verb>.
const (
	VerbAssemble         Verb = "assemble"
	VerbBridge           Verb = "bridge"
	VerbCall             Verb = "call"
	VerbFetch            Verb = "fetch"
	VerbPreflight        Verb = "preflight"
	VerbStop             Verb = "stop"
	VerbConnectionAnswer Verb = "connection.answer"
	VerbResult           Verb = "result" // followed by the call id
	VerbEvent            Verb = "event"
	VerbExec             Verb = "exec"
	VerbExecCancel       Verb = "exec.cancel"
)

// Requests are the verbs that a worker answers.
func Requests() []Verb {
	return []Verb{VerbAssemble, VerbBridge, VerbCall, VerbFetch, VerbPreflight, VerbStop, VerbConnectionAnswer}
}

// Tenant-wide subjects, <prefix>.<tenant>.<area>…; their first token starts
// with "_", which no session does.
const (
	areaExec      = "_exec"
	areaHooks     = "_hooks"
	areaApprovals = "_approvals"
	areaPortal    = "_portal"
	areaMCP       = "_mcp"

	areaCredentials = "_credentials"
)

// Worker-only roots below the prefix, the subjects of the streams.
const (
	areaCalls     = "_calls"
	areaWake      = "_wake"
	areaDecisions = "_decisions"
	areaAudit     = "_audit"
	areaDead      = "_dead"
)

// Space builds and parses the subjects under one prefix. The zero value uses
// DefaultPrefix; a Space is a small immutable value, safe to copy and share.
type Space struct{ prefix string }

// NewSpace returns the Space of a prefix: one or more dot-separated tokens of
// [A-Za-z0-9_-], 128 bytes in all, that does not begin where replies go; ""
// means DefaultPrefix. Two Spaces of one prefix are equal.
func NewSpace(prefix string) (Space, error) {
	if prefix == "" || prefix == DefaultPrefix {
		return Space{}, nil
	}
	if len(prefix) > 128 {
		return Space{}, fmt.Errorf("subject prefix is %d bytes long; at most 128", len(prefix))
	}
	for _, t := range strings.Split(prefix, ".") {
		if !ValidToken(t) {
			return Space{}, fmt.Errorf("subject prefix %q: token %q must be 1 to 64 characters of A-Z a-z 0-9 _ -", prefix, t)
		}
	}
	if root, _, _ := strings.Cut(prefix, "."); root == "_INBOX" || root == "_R_" {
		return Space{}, fmt.Errorf("subject prefix %q is reserved for replies", prefix)
	}
	return Space{prefix: prefix}, nil
}

// Prefix is the root of every subject of the space.
func (s Space) Prefix() string {
	if s.prefix == "" {
		return DefaultPrefix
	}
	return s.prefix
}

// Session builds the subject of a verb for one session. Like every builder it
// takes tokens as they are: check them before (CheckToken), or give "*" for a
// subject to subscribe to.
func (s Space) Session(tenant, session string, v Verb) string {
	return s.Prefix() + "." + tenant + "." + session + "." + string(v)
}

// AnySession is the wildcard subject that a worker subscribes for a verb.
func (s Space) AnySession(v Verb) string { return s.Session("*", "*", v) }

// Result is where the final reply of a call is published.
func (s Space) Result(tenant, session, callID string) string {
	return s.Session(tenant, session, VerbResult) + "." + callID
}

// ExecRun is where the executors of a toolset take work. toolset is the plain name, encoded here.
func (s Space) ExecRun(tenant, toolset string) string {
	return s.Prefix() + "." + tenant + "." + areaExec + ".run." + EncodeToolset(toolset)
}

// ExecCancel is where they hear of cancellations.
func (s Space) ExecCancel(tenant, toolset string) string {
	return s.Prefix() + "." + tenant + "." + areaExec + ".cancel." + EncodeToolset(toolset)
}

// HookRun is where the hook of that name is asked.
func (s Space) HookRun(tenant, hook string) string {
	return s.Prefix() + "." + tenant + "." + areaHooks + ".run." + hook
}

// ApprovalRequested and ApprovalSettled tell a tenant's approvers what is asked
// and how it ended.
func (s Space) ApprovalRequested(tenant string) string {
	return s.Prefix() + "." + tenant + "." + areaApprovals + ".requested"
}

// ApprovalSettled is where they hear how it ended.
func (s Space) ApprovalSettled(tenant string) string {
	return s.Prefix() + "." + tenant + "." + areaApprovals + ".settled"
}

// ApprovalList and ApprovalDecide are an approver's requests; the last token is
// who decides.
func (s Space) ApprovalList(tenant, approver string) string {
	return s.Prefix() + "." + tenant + "." + areaApprovals + ".list." + approver
}

// ApprovalDecide is an approver's decision.
func (s Space) ApprovalDecide(tenant, approver string) string {
	return s.Prefix() + "." + tenant + "." + areaApprovals + ".decide." + approver
}

// Portal is where a desktop back end manages one user's accounts.
func (s Space) Portal(tenant, user string) string {
	return s.Prefix() + "." + tenant + "." + areaPortal + "." + user
}

// MCPList is where every host of a tenant's MCP servers is asked what it has. Only
// workers publish there, and on MCPManage.
func (s Space) MCPList(tenant string) string {
	return s.Prefix() + "." + tenant + "." + areaMCP + ".list"
}

// MCPManage is where one host is asked to do something with a server.
func (s Space) MCPManage(tenant, executor string) string {
	return s.Prefix() + "." + tenant + "." + areaMCP + ".manage." + executor
}

// Credentials is where a worker asks for a user's token at the gateway. Only workers
// publish there.
func (s Space) Credentials(tenant, user string) string {
	return s.Prefix() + "." + tenant + "." + areaCredentials + "." + user
}

// Areas of tenant-wide subjects.
const (
	AreaExecRun            = "exec.run"
	AreaExecCancel         = "exec.cancel"
	AreaHooksRun           = "hooks.run"
	AreaApprovalsRequested = "approvals.requested"
	AreaApprovalsSettled   = "approvals.settled"
	AreaApprovalsList      = "approvals.list"
	AreaApprovalsDecide    = "approvals.decide"
	AreaPortal             = "portal"
	AreaMCPList            = "mcp.list"
	AreaMCPManage          = "mcp.manage"
	AreaCredentials        = "credentials"
)

// Address is a parsed subject of a session or of a tenant.
type Address struct {
	Tenant  string
	Session string // "" for tenant-wide subjects
	Verb    Verb   // of a session's subject, else ""
	CallID  string // of a result
	Area    string // of a tenant-wide subject, one of the Area constants, else ""
	Name    string // toolset (decoded), hook, approver, user or executor of a tenant-wide subject
}

// ErrForeign says that a subject is not one of this space at all: it has
// another prefix, or an unknown shape. Subjects of the space with a bad token
// give an *ErrToken.
var ErrForeign = errors.New("subject is none of the contract's")

// Parse takes a subject apart. It returns ErrForeign for subjects outside the
// grammar and for those of the worker's own streams, and the Address together
// with an *ErrToken when the shape is right but a token is not: such a request
// is answered with BAD_REQUEST.
//
// A subject whose second token starts with "_" is never a session's, whatever
// its last token says: its Address has an Area, or it is foreign.
func (s Space) Parse(subject string) (Address, error) {
	rest, ok := strings.CutPrefix(subject, s.Prefix()+".")
	if !ok {
		return Address{}, ErrForeign
	}
	tenant, rest, ok := strings.Cut(rest, ".")
	if !ok {
		return Address{}, ErrForeign
	}
	second, tail, ok := strings.Cut(rest, ".")
	if !ok {
		return Address{}, ErrForeign
	}
	switch tenant {
	case areaCalls, areaWake, areaDecisions, areaAudit, areaDead:
		return Address{}, ErrForeign
	}
	a := Address{Tenant: tenant}
	if strings.HasPrefix(second, "_") {
		return parseTenantWide(a, second, tail)
	}
	a.Session = second
	switch v := Verb(tail); v {
	case VerbAssemble, VerbBridge, VerbCall, VerbFetch, VerbPreflight, VerbStop, VerbConnectionAnswer, VerbEvent, VerbExec, VerbExecCancel:
		a.Verb = v
	default:
		id, ok := strings.CutPrefix(tail, string(VerbResult)+".")
		if !ok || strings.Contains(id, ".") {
			return Address{}, ErrForeign
		}
		a.Verb, a.CallID = VerbResult, id
	}
	if err := CheckToken("tenant", a.Tenant); err != nil {
		return a, err
	}
	if err := CheckToken("session", a.Session); err != nil {
		return a, err
	}
	if a.Verb == VerbResult {
		return a, CheckToken("call id", a.CallID)
	}
	return a, nil
}

func parseTenantWide(a Address, area, tail string) (Address, error) {
	kind := ""
	switch area {
	case areaPortal:
		a.Area, a.Name, kind = AreaPortal, tail, "user"
	case areaCredentials:
		a.Area, a.Name, kind = AreaCredentials, tail, "user"
	case areaExec, areaHooks, areaApprovals, areaMCP:
		verb, name, named := strings.Cut(tail, ".")
		a.Area, a.Name = strings.TrimPrefix(area, "_")+"."+verb, name
		switch a.Area {
		case AreaExecRun, AreaExecCancel:
			kind = "toolset"
		case AreaHooksRun:
			kind = "hook"
		case AreaApprovalsList, AreaApprovalsDecide:
			kind = "approver"
		case AreaMCPManage:
			kind = "executor"
		case AreaApprovalsRequested, AreaApprovalsSettled, AreaMCPList:
			if named {
				return Address{}, ErrForeign
			}
		default:
			return Address{}, ErrForeign
		}
	default:
		return Address{}, ErrForeign
	}
	if strings.Contains(a.Name, ".") {
		return Address{}, ErrForeign
	}
	if err := CheckToken("tenant", a.Tenant); err != nil {
		return a, err
	}
	switch kind {
	case "":
		return a, nil
	case "toolset":
		name, err := DecodeToolset(a.Name)
		a.Name = name
		return a, err
	}
	return a, CheckToken(kind, a.Name)
}
