package subjects

import (
	"strconv"
	"strings"
)

// Stream is the name and the subjects of one JetStream stream of the contract.
type Stream struct {
	Name     string
	Subjects []string
}

// Names of the shared state. Streams and buckets are made by the worker at
// start, or checked when they exist.
const (
	StreamCalls     = "TOOLBRIDGE_CALLS" // followed by the partition
	StreamResults   = "TOOLBRIDGE_RESULTS"
	StreamDecisions = "TOOLBRIDGE_DECISIONS"
	StreamAudit     = "TOOLBRIDGE_AUDIT"
	StreamDead      = "TOOLBRIDGE_DEAD"

	ObjectsCatalogs = "toolbridge_catalogs"
	ObjectsBlobs    = "toolbridge_blobs"

	BucketBindings  = "toolbridge_bindings"
	BucketJournal   = "toolbridge_journal" // followed by the partition
	BucketApprovals = "toolbridge_approvals"
	BucketToolsets  = "toolbridge_toolsets"
	BucketRevisions = "toolbridge_revisions" // at which revision of BucketToolsets an executor's definitions last changed
	BucketGrants    = "toolbridge_grants"
	BucketBreakers  = "toolbridge_breakers"

	BucketConnections = "toolbridge_connections" // running and recent operations of manage_connections; only workers may read it
	BucketServers     = "toolbridge_servers"     // MCP servers that users had installed or enabled, by name
	BucketIdentities  = "toolbridge_identities"  // guest identities and their tokens; only workers may read it
)

// StreamPrefix is what the names of the contract's streams start with; buckets
// are streams of other names.
const StreamPrefix = "TOOLBRIDGE_"

// Streams are the streams of the contract with the only subjects they may take.
// A worker refuses to start on one with others. Work queues may be split into
// several streams whose names continue with a partition.
func (s Space) Streams() []Stream {
	p := s.Prefix() + "."
	return []Stream{
		{StreamCalls, []string{p + areaCalls + ".>", p + areaWake + ".>"}},
		{StreamResults, []string{s.Session("*", "*", VerbResult) + ".*"}},
		{StreamDecisions, []string{p + areaDecisions + ".>"}},
		{StreamAudit, []string{p + areaAudit + ".>"}},
		{StreamDead, []string{p + areaDead + ".>"}},
	}
}

// BindingKey is the key of a session's binding to a catalog: the hex of its
// hash, without "sha256:", which is no valid part of a key.
func BindingKey(tenant, session, hex string) string { return tenant + "." + session + "." + hex }

// GrantKey is the key of a session's grant.
func GrantKey(tenant, session string) string { return tenant + "." + session }

// ToolsetKey is the key of one executor's registration of a toolset.
func ToolsetKey(tenant, toolset, executor string) string {
	return tenant + "." + EncodeToolset(toolset) + "." + executor
}

// CallSubject carries an accepted call to its partition's queue. Only workers
// publish on the subjects of the streams.
func (s Space) CallSubject(partition int, tenant, session, callID string) string {
	return s.partitioned(areaCalls, partition, tenant, session, callID)
}

// WakeSubject asks whichever worker is free to look at a call again.
func (s Space) WakeSubject(partition int, tenant, session, callID string) string {
	return s.partitioned(areaWake, partition, tenant, session, callID)
}

func (s Space) partitioned(area string, partition int, tenant, session, callID string) string {
	return s.Prefix() + "." + area + "." + strconv.Itoa(partition) + "." + tenant + "." + session + "." + callID
}

// CallSubjects are the subjects of one partition's queue. Like those of the other
// streams they have a number of tokens that no result's subject has, so that no
// stream takes another's messages.
func (s Space) CallSubjects(partition int) []string {
	p := strconv.Itoa(partition)
	return []string{s.Prefix() + "." + areaCalls + "." + p + ".*.*.*", s.Prefix() + "." + areaWake + "." + p + ".*.*.*"}
}

// ParseQueued takes the subject of a call or wake-up apart.
func (s Space) ParseQueued(subject string) (tenant, session, callID string, ok bool) {
	rest, ok := strings.CutPrefix(subject, s.Prefix()+".")
	if !ok {
		return "", "", "", false
	}
	parts := strings.Split(rest, ".")
	if len(parts) != 5 || parts[0] != areaCalls && parts[0] != areaWake ||
		CheckToken("tenant", parts[2]) != nil || CheckToken("session", parts[3]) != nil || CheckToken("call id", parts[4]) != nil {
		return "", "", "", false
	}
	return parts[2], parts[3], parts[4], true
}

// DecisionSubject holds the one decision of an approval.
func (s Space) DecisionSubject(tenant, approvalID string) string {
	return s.Prefix() + "." + areaDecisions + "." + tenant + "." + approvalID
}

// AuditSubject takes the audit records of a session.
func (s Space) AuditSubject(tenant, session string) string {
	return s.Prefix() + "." + areaAudit + "." + tenant + "." + session
}

// DeadSubject takes the dead letters of a call.
func (s Space) DeadSubject(tenant, session, callID string) string {
	return s.Prefix() + "." + areaDead + ".call." + tenant + "." + session + "." + callID
}

// JournalKey is the key of a call's record in its partition's journal.
func JournalKey(tenant, session, callID string) string { return tenant + "." + session + "." + callID }
