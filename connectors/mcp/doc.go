// Package mcp is the MCP host: it brings MCP servers onto the bus.
//
// A Host connects to servers over stdio and streamable HTTP, registers the tools
// of each as the toolset mcp-<server>, and runs the calls that workers send to
// it. What it guarantees:
//
//  1. Servers do not touch each other. One that hangs, crashes, floods or lies
//     costs its own toolset, never another's.
//  2. Schemas, arguments and results pass byte for byte, white space between
//     tokens aside: numbers digit for digit, members in their order, an absent
//     hint as absent. (The SDK decodes them into Go maps; the host reads along
//     below it.)
//  3. A call runs at most once. A request that is delivered again while it runs,
//     or within 15 minutes after, gets the first one's answer. (Bounded: the
//     last 16,384 calls and 32 MiB of answers of a server are kept; where an
//     answer was dropped the duplicate gets OUTCOME_UNKNOWN, never a second run.)
//  4. A request is started only before its start_by, with a tool and a
//     definition hash that are the host's own at that moment.
//  5. Every request whose reply subject is allowed is answered, with interim
//     messages while it runs; also when the tool panics, the server dies, or the
//     result is too large for the bus. Answers go to allowed reply subjects only.
//  6. CANCELLED and TIMEOUT are answered only when the server itself ended the
//     call after it was told to, or had not got it yet. MCP knows no confirmation
//     of a cancel: a server that stays silent leaves OUTCOME_UNKNOWN, and one that
//     still answers with a result gives the result.
//  7. The definitions in the registry change as one. Names are composed anew
//     whenever a server's tools change; two tools never share one (ToolName).
//  8. A connection that broke, or left an HTTP request without an answer, is not
//     used again. A crashed server is started again after a jittered, growing
//     pause; until then its toolset says unavailable, with the reason.
//  9. Stop withdraws the toolsets, lets running calls end, and leaves no process
//     of the servers' process groups behind.
//
// What it does not: it does not know whether a tool took effect when its server
// died; it does not serialise the calls of different sessions (a server without
// parallel support sees one call at a time of each batch; MaxConcurrent: 1 gives
// one at all); it advertises no roots, sampling or elicitation, since nobody is
// there to answer; it does not speak the retired HTTP+SSE transport of 2024.
//
// Secrets come from the host's environment only, by reference (ServerConfig);
// their values are masked in reasons, errors and logs. A stdio server inherits
// nothing but what programs need to run.
//
// Codes of errors: those of the contract, and MCP_PROTOCOL_ERROR,
// MCP_INVALID_RESULT and MCP_INPUT_REQUIRED. BUSY, TOO_LATE,
// DEFINITION_MISMATCH, EXECUTOR_UNAVAILABLE, BAD_REQUEST and INVALID_ARGUMENTS
// mean that the tool was not run.
package mcp
