// Package hosted holds what connectors promise when the hosted gateway, or a worker
// in the middle of using it, fails: workers on a real bus against the simulator of
// the gateway, whose own record says what had an effect.
package hosted
