package tracing

import "github.com/nats-io/nats.go"

// NATS reads the figures of a connection.
func (r Readings) NATS(nc *nats.Conn) {
	connected := int64(0)
	if nc.IsConnected() {
		connected = 1
	}
	r.Gauge(NATSConnected, connected)
	s := nc.Stats()
	r.Total(NATSReconnects, int64(s.Reconnects))
	r.Total(NATSMessages, int64(s.InMsgs), "in")
	r.Total(NATSMessages, int64(s.OutMsgs), "out")
	r.Total(NATSBytes, int64(s.InBytes), "in")
	r.Total(NATSBytes, int64(s.OutBytes), "out")
}
