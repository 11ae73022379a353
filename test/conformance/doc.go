// Package conformance checks a deployment against the bus contract: the shapes of
// all replies (by the JSON Schemas of package subjects), codes, headers, kinds, and
// the promises that a session can see from outside. It speaks plain NATS.
//
// By default it starts a server and a worker of its own. Against a deployment that
// runs already:
//
//	go test ./test/conformance -nats nats://127.0.0.1:4222
//
// or with TOOLBRIDGE_NATS; -creds and -tenant where it needs them. Only session
// subjects are used: sessions of random names publish their own tools and execute
// them, nothing else is read or written.
package conformance
