// Package state is the shared state of the fleet on JetStream: the buckets and
// object stores that the bus contract names, created at start or checked when
// they exist.
//
// Guarantees:
//  1. Open never changes what exists. A bucket that would break a promise (no
//     expiry where entries must expire, history where there must be one value)
//     is refused with what to do; so is a TOOLBRIDGE_* stream that takes other
//     subjects than the contract's or lets a publisher's headers reschedule,
//     purge or count.
//  2. A blob is named by the SHA-256 of its bytes and put only when absent.
//     Two workers that put the same bytes at the same moment leave one readable
//     object: readers retry while the loser's chunks are purged.
//  3. GetFresh reads from the stream's leader, never from a replica that lags.
//
// Not promised: durability beyond what the server's sync interval and the
// configured replicas give.
package state
