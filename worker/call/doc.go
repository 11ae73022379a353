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
package call
