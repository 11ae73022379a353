// Package worker is the micro service "toolbridge": it answers what agent
// sessions ask on the bus. Any worker serves any session; a worker holds only
// caches of the shared state and can be thrown away.
//
// Guarantees:
//  1. One function (scope) decides what a session may see, for assembly,
//     listing, search, describe, preflight and call alike, before anything is
//     counted or ranked. A definition out of scope has no trace in any answer.
//  2. A session reaches only catalogs that it assembled itself. A catalog is
//     named by a hash over tenant, definitions and settings and never changes;
//     equal requests give equal bytes on every worker.
//  3. Answers go only to replies that begin with a configured prefix (by default
//     _INBOX. and _R_.). Any other request is dropped before it is read.
//  4. A request is bounded in size (also when unpacked), in time, and in how
//     many run at once; what is above is answered with TOO_LARGE,
//     DEADLINE_EXCEEDED or BUSY, never queued without end.
//  5. Stop lets running requests finish within its context, then leaves.
//
// Not promised: a grant that was changed is seen by tool_search only when the
// bucket's watch brought it (well under a millisecond as a rule), or when another
// request of the session read it on the same worker; every other request reads it
// fresh. A session's first grant counts at once for tool_search, too.
package worker
