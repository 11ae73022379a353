// Package connectors reaches remote app accounts through a hosted HTTP gateway:
// tools are searched, described and called there, and accounts connected and
// repaired. It is used by workers; what they say on the bus is the bus contract's.
//
// Guarantees of the client, the breakers and the credentials:
//  1. A request is sent once; once more only after a 5xx or where no answer came,
//     only where that is harmless (reads, and what carries an idempotency key), and
//     with the same key. A connection is never started twice. net/http repeats
//     nothing behind it that could take effect.
//  2. A Failure says whether the request may have reached the gateway (Sent); false
//     only where that is certain.
//  3. A token goes to the configured origins only, for its own user, and is never in
//     an error, a log line or an answer. Redirects are not followed. Whose token can
//     not be had is sent nothing; nobody acts under another's.
//  4. Answers are bounded in size, unpacked, and in depth. Results belong to tools by
//     their place. Numbers pass digit for digit. What can not be read costs its own
//     item only; codes that are not known stay as they came.
//  5. The breaker of a tenant opens after so many failed entries in a row, on every
//     worker; after the cooldown one entry of the whole fleet is let through, and its
//     outcome closes the breaker everywhere or keeps it open for one more cooldown. A
//     worker that is lost while it probes holds the others up for five seconds after
//     its last sign of life.
//  6. Every goroutine ends with Gateway.Stop, or with its request.
//
// Not promised: one probe where workers can not reach the shared state: then each
// has its own. Nor that a token is not in a tool's own data, where the gateway puts
// it there in another spelling.
package connectors
