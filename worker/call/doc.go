// Package call takes one tool_call from its envelope to its result: it becomes
// individual executions, each with its own scope check, argument repair and
// validation, policy, dispatch and result under the tool's own name.
//
// Guarantees:
//  1. Results come back in the caller's order, one slot per entry; one entry's
//     failure never costs the others.
//  2. An entry whose tool is not parallel-safe starts only when the ordered
//     entry before it has ended.
//  3. What is sent is what the model said, after repair against the tool's own
//     schema; a call that can not be made whole is refused, never sent with
//     less.
//  4. A started execution is never called interrupted or timed out when it may
//     have taken effect: then the slot says OUTCOME_UNKNOWN.
//  5. Nothing is sent for an entry that needs an approval nobody can give.
//  6. A call that was accepted reaches exactly one final state, and its result
//     never changes. An entry is started at most once unless its tool is safe to
//     repeat.
//  7. What was executed is in the audit stream at least once, also when its worker
//     or the server was lost. Events are a courtesy.
//
// Who executes is the entry's place: executors on the bus, the gateway of connectors,
// or the worker itself; Route is all three. A request to the gateway carries a key
// that stands in the record before anything is sent, so what was on its way when a
// worker was lost, or had to leave, is sent again under that key. A stop does not
// cut such a request short: it keeps the next one from leaving.
//
// The journal is the record of a call, one value that only compare-and-set
// changes. A worker with a free slot runs what it accepts: it takes the call's
// lease, marks what starts, and stores the call in one write. What it has no slot
// for goes onto the partition's queue, and so does every wake-up; the queue only
// carries. A worker that is lost leaves a lease that ends. Then the queue's message
// comes again, or the sweeper sends one, and whoever takes it goes on by the record:
// what had not started runs, what had started runs again only where that is safe.
// The clocks of the workers need not agree for any of this to be right; where they
// differ by more than a lease, more outcomes are unknown.
package call
