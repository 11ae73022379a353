package main

import (
	"os"
	"strings"
	"testing"
)

func TestWrongUsageExits2AndSaysWhy(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"tools.json": "[]", "object.json": "{}", "empty": ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"nonsense":                         "unexpected argument nonsense",
		"search":                           `expected "<query> ..."`,
		"describe":                         `expected "<name> ..."`,
		"call":                             `expected "<name>`,
		"call mcp__a__b":                   `expected "<json>"`,
		"call t {} --id a.b":               `--id: id "a.b" is not valid`,
		"fetch":                            "name the call",
		"fetch a.b":                        `call id "a.b" is not valid`,
		"fetch c1 --blob b":                "in place of a call",
		"fetch --blob b":                   "needs --output",
		"fetch --blob b --wait --output f": "in place of a call",
		"fetch c1 --json --output -":       "can not take both",
		"stop a.b":                         `call id "a.b" is not valid`,
		"stop c1 c2":                       "unexpected argument c2",
		"events --call a.b":                `--call: call id "a.b" is not valid`,
		"events x":                         "unexpected argument x",
		"approvals":                        `expected one of "list"`,
		"approvals decide":                 `expected "<id>`,
		"approvals decide a1":              `expected "<choice>"`,
		"approvals decide a1 maybe":        `must be one of "once","session","always","deny"`,
		"approvals decide a.b once":        `approval id "a.b" is not valid`,
		"approvals forget":                 `expected "<id>"`,
		"approvals list --approver a.b":    `--approver: approver "a.b" is not valid`,
		"approvals list --session a.b":     `--session: session "a.b" is not valid`,
		"approvals watch --tenant _x":      `--tenant: tenant "_x" is not valid`,
		"preflight":                        `expected "<name> ..."`,
		"search q --nope":                  "unknown flag --nope",
		"search q --limit x":               "--limit",
		"search q --limit -1":              "--limit",
		"search q --tools missing.json":    "missing.json",

		"search q --tools tools.json --catalog r": "--catalog and --tools can't be used together",
		"search q --toolset t --catalog r":        "can't be used together",
		"search q --creds missing":                "missing",
		"search q --timeout soon":                 "--timeout",
		"search q --timeout -1s":                  "--timeout",
		"search q --session a.b":                  `--session: session "a.b" is not valid`,
		"search q --tenant _x":                    `--tenant: tenant "_x" is not valid`,
		"search q --prefix a..b":                  "--prefix",
		"search q --tools object.json":            "object.json, not a JSON object",
		"search q --tools empty":                  "it is empty",
		"call t {\"a\":":                          "not valid JSON",
		"call t [1]":                              "must be a JSON object, not a JSON array",
		"call t -":                                "it is empty",
		"call t - --tools -":                      "standard input can not be both",
		"assemble empty":                          "it is empty",
		"assemble missing":                        "missing",
		"assemble object.json --toolset x":        "holds a whole request",
		"assemble tools.json --tools tools.json":  "named twice",
		"assemble --settings 5":                   "--settings",
		"assemble --surface toaster":              "--surface must be one of",
		"assemble --dialect cobol":                "--dialect must be one of",
		"assemble --context-length -1":            "--context-length",
		"completion tcsh":                         `must be one of "bash","zsh","fish"`,
		"config":                                  `expected "check"`,
		"config check":                            `expected "<file>"`,
		"mcp":                                     `expected one of "host", "serve"`,
		"mcp host":                                "--tenant",
		"mcp host --tenant a.b --mcp x=y":         `tenant "a.b" is not valid`,
		"mcp host --tenant t":                     "nothing to host",
		"dev --mcp nonsense":                      `--mcp: MCP server "nonsense"`,
		"dev --mcp a=x --mcp a=y":                 `"a" is named twice`,
		"dev --nats-port x":                       "--nats-port",
		"dev --nats-port 70000":                   "--nats-port",
		"dev --grace -1s":                         "--grace",
		"dev --log-level loud":                    "--log-level",
		"worker --log-format xml":                 "--log-format",
		"worker extra":                            "unexpected argument extra",
	} {
		t.Run(args, func(t *testing.T) {
			status, stdout, stderr := command(t, strings.Fields(args)...)
			if status != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("status %d, standard output %q, standard error %q; want 2 and %q", status, stdout, stderr, want)
			}
		})
	}
}
