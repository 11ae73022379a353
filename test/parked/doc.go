// Package parked holds what is promised of calls that wait for people, at the
// numbers it is promised for: what a parked call costs its worker in memory and
// other calls in time, and that every one of them is settled by what was decided
// on it, whichever process was killed meanwhile.
//
//	TOOLBRIDGE_LONG=1 go test ./test/parked -run Parked -v -count 1 -timeout 30m
//
// The NATS server and each worker are processes of their own: the test binary
// starts itself again in the roles "bus" and "worker". Executor, callers and
// approvers are the test. Without TOOLBRIDGE_LONG a few hundred calls are parked,
// and the figures, which say little on a busy machine, are bounded loosely.
//
// That one decision stands when several come at once, when it comes after a stop
// or a second before the approval expires, is held by tests of package worker.
package parked
