// An agent in Node: assembles, searches and calls over NATS, and prints what it got
// as one line of JSON. Usage: node agent.mjs NATS_URL SESSION
import { createRequire } from "node:module";
const require = createRequire(process.env.MODULES + "/");
const { connect } = require("@nats-io/transport-node");

const [servers, session] = process.argv.slice(2);
const nc = await connect({ servers });
const ask = async (verb, body) => {
  const m = await nc.request(`toolbridge.v1.default.${session}.${verb}`, JSON.stringify(body), { timeout: 60_000 });
  if (m.headers?.get("Toolbridge-Kind") !== "reply") throw new Error(`no reply on ${verb}`);
  return m.json();
};
const { catalog, deferred_count } = await ask("assemble", { toolsets: ["mcp-everything"], dialect: "anthropic", config: { enabled: true } });
const search = await ask("bridge", { id: "n1", name: "tool_search", arguments: { queries: ["add two numbers sum"] }, catalog });
const call = await ask("bridge", {
  id: "n2", name: "tool_call", catalog,
  arguments: JSON.stringify({ calls: [{ name: "mcp__everything__get-sum", arguments: { a: 19, b: 23 } }] }),
});
console.log(JSON.stringify({ catalog, deferred_count, search, call }));
await nc.drain();
