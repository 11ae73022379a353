// Package faults kills, pauses and restarts real processes while calls run, and
// counts from outside what was executed.
//
// Four kinds of processes take part: one NATS server on a store that outlives it,
// workers, an executor that writes every start and every end to a file before it
// says a word, and the test, which is the agents and the murderer. A worker that
// is to die at a point of a call kills itself there with SIGKILL, so that nothing
// is cleaned up.
//
//	go test ./test/faults
//	TOOLBRIDGE_LONG=1 go test ./test/faults -v -timeout 15m
//
// The seed is printed; TOOLBRIDGE_FAULTS_SEED repeats it. The same seed draws the
// same calls and faults; the operating system still schedules as it likes.
package faults
