// Package client speaks the bus contract for agents and executors in Go. It
// needs core NATS only: no JetStream, no stream, no bucket.
//
// An agent's session assembles its tools, searches, describes and calls:
//
//	c, err := client.Dial(ctx, client.Config{URL: "nats://127.0.0.1:4222"})
//	s, err := c.Session("default", "s1")
//	assembly, err := s.Assemble(ctx, subjects.AssembleRequest{Toolsets: []string{"mcp-github"}})
//	reply, err := s.Call(ctx, client.Catalog(assembly.Catalog), "mcp__github__create_issue", args)
//
// Call waits for the result. CallDurable returns once the call is stored, and
// Wait or Fetch give its result, for 24 hours; Stop ends a call, and Events
// tells what happens meanwhile. People who decide on calls are an Approver.
//
// A session whose own definitions can be called executes them with Serve.
//
// # Errors
//
// A request that could not be served is a *subjects.Error (errors.As), whose
// code says why and whether to retry. When nobody listens, errors.Is finds
// nats.ErrNoResponders; when the context ended, its error. What the model did
// wrong in a call is none of these: the reply says IsError and its result is
// for the model to read. Search and Describe, which return typed results, give
// a *ResultError then.
//
// # Guarantees
//
//  1. A message whose Toolbridge-Kind does not fit what was subscribed is
//     dropped: a request goes on waiting, an executor does nothing.
//  2. A request ends at its context's deadline; without one, after the
//     client's own time limit. The worker is told the deadline.
//  3. Serve runs an execution id once, however often it arrives; repeats get
//     the first answer.
//  4. JSON that the client does not look into (definitions, arguments, results)
//     is handed on byte for byte.
//  5. A blob that did not come whole is an error, never a shorter result.
//  6. A watching Approver is there for the worker although nobody reads its
//     feed; it decides nothing by itself.
//  7. A Client, a Session, an Approver and a Server are safe for concurrent use.
package client
