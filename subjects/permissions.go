package subjects

import (
	"slices"
	"strconv"
)

// Role is who connects to the bus, for the permissions that it needs.
type Role string

// Roles. Each may do what the contract makes it do, and nothing else.
const (
	RoleWorker       Role = "worker"       // serves everything, and owns the shared state
	RoleExecutor     Role = "executor"     // brings toolsets of one tenant onto the bus: the MCP host
	RoleSession      Role = "session"      // an agent: asks, hears results and events, runs its own tools
	RoleApprover     Role = "approver"     // one person, or a program that decides for people
	RoleHook         Role = "hook"         // answers one configured hook
	RoleCredentials  Role = "credentials"  // tells workers the users' tokens at the gateway
	RoleDesktop      Role = "desktop"      // a desktop back end: the accounts of one user
	RoleOrchestrator Role = "orchestrator" // writes a tenant's grants, and stops its sessions
	RoleConsole      Role = "console"      // watches a tenant
)

// Roles are all of them, in the order in which people meet them.
func Roles() []Role {
	return []Role{RoleWorker, RoleExecutor, RoleSession, RoleApprover, RoleHook, RoleCredentials, RoleDesktop, RoleOrchestrator, RoleConsole}
}

// Holder is whose permissions are meant. Which fields count, the role says: every
// one but a worker has a Tenant, a session its Session; Name is the executor's, the
// approver's, the hook's or the user's. An executor without Toolsets may offer
// every toolset of its tenant.
type Holder struct {
	Role     Role
	Tenant   string
	Session  string
	Name     string
	Toolsets []string
	// Partitions is how many queues and journals the deployment has; 0 means 1.
	Partitions int
}

// Permissions are the subjects that a connection may publish on and subscribe to.
type Permissions struct {
	Publish   []string
	Subscribe []string
	// Responds says that it may publish on the reply subjects of the requests that
	// reach it, more than once: executions send interim messages.
	Responds bool
	// Inbox is the beginning of this holder's own reply subjects, without the last
	// dot. Its client must be told (nats.CustomInboxPrefix): on a common one, each
	// could read the answers that others get.
	Inbox string
}

// Permissions says what a holder needs. It returns an *ErrToken for a role that
// there is not, and for tokens that break the grammar.
func (s Space) Permissions(h Holder) (Permissions, error) {
	inbox := "_INBOX." + string(h.Role)
	for _, token := range []struct {
		kind, value string
		of          []Role
	}{
		{"tenant", h.Tenant, slices.DeleteFunc(Roles(), func(r Role) bool { return r == RoleWorker })},
		{"session", h.Session, []Role{RoleSession}},
		{"name", h.Name, []Role{RoleExecutor, RoleApprover, RoleHook, RoleDesktop}},
	} {
		if !slices.Contains(token.of, h.Role) {
			continue
		}
		if err := CheckToken(token.kind, token.value); err != nil {
			return Permissions{}, err
		}
		inbox += "." + token.value
	}
	p := Permissions{Inbox: inbox, Subscribe: []string{inbox + ".>"}}
	switch h.Role {
	case RoleWorker:
		s.permitWorker(h, &p)
	case RoleExecutor:
		s.permitExecutor(h, &p)
	case RoleSession:
		for _, v := range Requests() {
			p.Publish = append(p.Publish, s.Session(h.Tenant, h.Session, v))
		}
		p.Subscribe = append(p.Subscribe, s.Result(h.Tenant, h.Session, "*"), s.Session(h.Tenant, h.Session, VerbEvent),
			s.Session(h.Tenant, h.Session, VerbExec), s.Session(h.Tenant, h.Session, VerbExecCancel))
		p.Responds = true
	case RoleApprover:
		p.Publish = []string{s.ApprovalList(h.Tenant, h.Name), s.ApprovalDecide(h.Tenant, h.Name)}
		p.Subscribe = append(p.Subscribe, s.ApprovalRequested(h.Tenant), s.ApprovalSettled(h.Tenant))
		p.Responds = true
	case RoleHook:
		p.Subscribe = append(p.Subscribe, s.HookRun(h.Tenant, h.Name))
		p.Responds = true
	case RoleCredentials:
		p.Subscribe = append(p.Subscribe, s.Credentials(h.Tenant, "*"))
		p.Responds = true
	case RoleDesktop:
		p.Publish = []string{s.Portal(h.Tenant, h.Name)}
	case RoleOrchestrator:
		grants := "$KV." + BucketGrants + "." + h.Tenant + ".>"
		p.Publish = append([]string{grants, s.Session(h.Tenant, "*", VerbStop)}, readRights("KV_"+BucketGrants, grants)...)
	case RoleConsole:
		// Not requested: who subscribes to it counts as somebody who decides.
		p.Subscribe = append(p.Subscribe, s.Session(h.Tenant, "*", VerbEvent), s.Result(h.Tenant, "*", "*"), s.ApprovalSettled(h.Tenant))
	default:
		return Permissions{}, &ErrToken{Kind: "role", Value: string(h.Role), Problem: "there is no such role"}
	}
	return p, nil
}

// readRights is what a client publishes to read single messages of a stream.
func readRights(stream, subject string) []string {
	return []string{
		"$JS.API.STREAM.INFO." + stream,
		"$JS.API.DIRECT.GET." + stream + "." + subject,
		"$JS.API.STREAM.MSG.GET." + stream,
	}
}

func (s Space) permitWorker(h Holder, p *Permissions) {
	p.Publish = []string{s.Prefix() + ".>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>"}
	for _, b := range Buckets(h.Partitions) {
		p.Publish = append(p.Publish, "$KV."+b+".>")
	}
	for _, o := range []string{ObjectsCatalogs, ObjectsBlobs} {
		p.Publish = append(p.Publish, "$O."+o+".>")
	}
	for _, r := range ReplyPrefixes() {
		p.Publish = append(p.Publish, r+">")
	}
	p.Subscribe = append(p.Subscribe, s.Prefix()+".>", "$SRV.>")
}

func (s Space) permitExecutor(h Holder, p *Permissions) {
	toolsets := "$KV." + BucketToolsets + "." + h.Tenant + "."
	if len(h.Toolsets) == 0 {
		p.Publish = append(p.Publish, toolsets+">")
		p.Subscribe = append(p.Subscribe, s.Prefix()+"."+h.Tenant+"."+areaExec+".run.*", s.Prefix()+"."+h.Tenant+"."+areaExec+".cancel.*")
	}
	for _, t := range h.Toolsets {
		p.Publish = append(p.Publish, toolsets+EncodeToolset(t)+".*")
		p.Subscribe = append(p.Subscribe, s.ExecRun(h.Tenant, t), s.ExecCancel(h.Tenant, t))
	}
	p.Subscribe = append(p.Subscribe, s.MCPList(h.Tenant), s.MCPManage(h.Tenant, "*"))
	chosen := "$KV." + BucketServers + "." + h.Tenant + ".>"
	p.Publish = append(p.Publish, chosen)
	p.Publish = append(p.Publish, readRights("KV_"+BucketServers, chosen)...)
	blobs := "OBJ_" + ObjectsBlobs
	p.Publish = append(p.Publish, "$O."+ObjectsBlobs+".>", "$JS.FC.>")
	p.Publish = append(p.Publish, readRights("KV_"+BucketToolsets, toolsets+">")...)
	p.Publish = append(p.Publish, readRights(blobs, ">")...)
	p.Publish = append(p.Publish, "$JS.API.CONSUMER.CREATE."+blobs+".>", "$JS.API.CONSUMER.DELETE."+blobs+".>", "$JS.API.STREAM.PURGE."+blobs)
	p.Responds = true
}

// Buckets are the names of the contract's KV buckets, with one journal for each of
// a deployment's partitions; 0 means 1.
func Buckets(partitions int) []string {
	list := []string{BucketBindings, BucketApprovals, BucketToolsets, BucketRevisions, BucketGrants, BucketBreakers, BucketConnections, BucketServers, BucketIdentities}
	for i := range max(1, partitions) {
		list = append(list, BucketJournal+"_"+strconv.Itoa(i))
	}
	return list
}

// Share is one export of one account that another imports, where each tenant has
// a NATS account of its own.
type Share struct {
	Subject string
	Stream  bool // published one way; else requests and their replies
	// Replies says that one request may get several messages: executions send
	// interim ones.
	Replies bool
}

// Shares says what crosses between the workers' account and that of a tenant:
// what the workers export to it, and what it exports to them. Every subject
// carries the tenant's token, so that no tenant reaches another one. The portal is
// shared for each of some users by name: for all of them its subject would overlap
// with that of executions, which a server takes for a cycle.
func (s Space) Shares(tenant string, users ...string) (workers, own []Share, err error) {
	if err := CheckToken("tenant", tenant); err != nil {
		return nil, nil, err
	}
	for _, u := range users {
		if err := CheckToken("user", u); err != nil {
			return nil, nil, err
		}
		if u == string(VerbExec) {
			return nil, nil, &ErrToken{Kind: "user", Value: u, Problem: "its portal would have the subject of executions"}
		}
		workers = append(workers, Share{Subject: s.Portal(tenant, u)})
	}
	for _, v := range Requests() {
		workers = append(workers, Share{Subject: s.Session(tenant, "*", v)})
	}
	workers = append(workers,
		Share{Subject: s.ApprovalList(tenant, "*")}, Share{Subject: s.ApprovalDecide(tenant, "*")},
		Share{Subject: s.Result(tenant, "*", "*"), Stream: true},
		Share{Subject: s.Session(tenant, "*", VerbEvent), Stream: true},
		Share{Subject: s.Session(tenant, "*", VerbExecCancel), Stream: true},
		Share{Subject: s.ApprovalSettled(tenant), Stream: true},
		Share{Subject: s.Prefix() + "." + tenant + "." + areaExec + ".cancel.*", Stream: true},
	)
	own = []Share{
		{Subject: s.Session(tenant, "*", VerbExec), Replies: true},
		{Subject: s.Prefix() + "." + tenant + "." + areaExec + ".run.*", Replies: true},
		{Subject: s.HookRun(tenant, "*")},
		{Subject: s.ApprovalRequested(tenant)},
		{Subject: s.MCPList(tenant), Replies: true},
		{Subject: s.MCPManage(tenant, "*")},
	}
	return workers, own, nil
}
