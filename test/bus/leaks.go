package bus

import "go.uber.org/goleak"

// Leaks are the goroutines that a test's TestMain does not hold against it.
//
// nats.go 1.55 starts one goroutine for each object that is put; when it is
// scheduled only after the put has ended it waits on a nil channel for ever. It
// is the library's, seldom, and holds nothing but itself.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
	}
}
