// Package subjects is the bus contract of Toolbridge, version 1, and the only
// place that spells a subject, a header, an error code or a bucket.
//
// It holds the subject grammar (build and parse), the message types that agents,
// executors, approvers and workers exchange, the codes of errors and warnings,
// the names of the shared JetStream state, and, as embedded files, one JSON
// Schema and completed examples for every message and an AsyncAPI 3 document.
//
// It does no I/O, keeps no state and imports nothing else of Toolbridge.
//
// JSON that the contract does not look into (tool definitions, arguments,
// results) travels as raw bytes: key order and numbers come out as they went in.
package subjects
