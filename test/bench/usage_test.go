//go:build unix

package bench

import (
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// serveUsage answers bench.cpu.<process> with the CPU time that the process has
// used, in nanoseconds, and bench.heap.<process> with the bytes of heap and stacks
// that are in use after a collection.
func serveUsage(nc *nats.Conn, process string) error {
	answer := func(value func() int64) nats.MsgHandler {
		return func(m *nats.Msg) { _ = m.Respond(strconv.AppendInt(nil, value(), 10)) }
	}
	if _, err := nc.Subscribe("bench.cpu."+process, answer(cpu)); err != nil {
		return err
	}
	if _, err := nc.Subscribe("bench.heap."+process, answer(heap)); err != nil {
		return err
	}
	return nc.Flush()
}

// cpu is the CPU time of this process, in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// usage asks one of the processes.
func usage(b testing.TB, nc *nats.Conn, subject string) int64 {
	b.Helper()
	n, err := strconv.ParseInt(string(ask(b, nc, subject, nil)), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// spent is the CPU time that server, service and clients have used so far.
func spent(b testing.TB, nc *nats.Conn) (service, all time.Duration) {
	b.Helper()
	s := usage(b, nc, "bench.cpu.service")
	return time.Duration(s), time.Duration(s + usage(b, nc, "bench.cpu.server") + cpu())
}
