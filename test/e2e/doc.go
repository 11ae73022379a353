// Package e2e runs the built binary end to end: toolbridge dev and a fleet of
// workers, real MCP servers from the npm registry, and clients that share no code
// with Toolbridge: plain nats.go with literal JSON, the stock NATS command line, and
// a Node program. A test holds that nothing of the module is imported.
//
// The MCP servers are pinned in testdata/package.json and its lock file and are
// installed once into a cache folder of the user, or into TOOLBRIDGE_E2E_NPM. Where
// node or npm is missing, the tests that need them are skipped and say so; with
// TOOLBRIDGE_E2E=require they fail instead.
package e2e
