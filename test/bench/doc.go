// Package bench measures Toolbridge over a real bus, each figure beside the bare
// operation it stands on, in the same run and in alternating small rounds, so that
// a busy machine slows both. Absolute figures drift from machine to machine; the
// ratios are the claim.
//
//	go test ./test/bench -bench . -run '^$'
//
// Server, service and clients are three processes on the loopback: the test binary
// starts itself again in the roles "server" and "service", and "gateway" where
// hosted tools are called. Everything measured is generated; nothing is read from
// disk.
//
// TOOLBRIDGE_BENCH_CPUPROFILE=FILE writes a CPU profile of the service process.
package bench
