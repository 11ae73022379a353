package tracing

import (
	"strconv"
	"time"
)

// What GatewayRequest says of a request without an answer.
const (
	GatewayTimeout     = "timeout"
	GatewayRefused     = "refused" // by the breaker: not sent
	GatewayUnreachable = "unreachable"
	GatewayCancelled   = "cancelled"
)

// Legs of a search, for SearchDuration.
const (
	LegLocal   = "local"
	LegGateway = "gateway"
)

// States of the breaker, for BreakerTransitions and BreakerState.
const (
	BreakerClosed   = "closed"
	BreakerHalfOpen = "half_open"
	BreakerOpen     = "open"
)

// GatewayRequest counts one attempt at a route of the gateway. status is HTTP's; 0
// means that no answer came, and why says how that was.
func (m *Metrics) GatewayRequest(route string, status int, why string, took time.Duration) {
	if m == nil {
		return
	}
	code := why
	if status != 0 {
		code = strconv.Itoa(status)
	}
	m.Count(GatewayRequests, 1, route, code)
	m.Time(GatewayRequestDuration, took, route)
}

// GatewayRetry counts a request that is tried again.
func (m *Metrics) GatewayRetry(route string) { m.Count(GatewayRetries, 1, route) }

// BreakerChanged counts a change of the breaker's state.
func (m *Metrics) BreakerChanged(to string) { m.Count(BreakerTransitions, 1, to) }

// Breaker reads the breaker's state.
func (r Readings) Breaker(state string) {
	for _, s := range []string{BreakerClosed, BreakerHalfOpen, BreakerOpen} {
		value := int64(0)
		if s == state {
			value = 1
		}
		r.Gauge(BreakerState, value, s)
	}
}
