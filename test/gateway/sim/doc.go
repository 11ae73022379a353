// Package sim is a gateway of hosted apps, and the portal of their accounts, for
// tests and for trying things out. It speaks the whole of the interface in
// package connectors: apps with tools, users with accounts, connections that are
// made by opening a link.
//
// It guarantees:
//   - One effect for all requests of a user that carry the same idempotency key,
//     and the same answer for all of them.
//   - An execution runs under the account that its connector_alias names, or under
//     the app's active account when it names none. An alias that nobody has is an
//     error.
//   - What it answers depends on what it was asked before, and on nothing else:
//     ids count up per user, and results are in a fixed order.
//   - It records every request, whatever became of it, and every effect.
//
// Faults are scripted: by route, user and tool, after so many requests and for so
// many of them. Nothing it holds outlives it.
package sim
