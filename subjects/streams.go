package subjects

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
