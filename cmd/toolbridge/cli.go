package main

import (
	"os"

	"github.com/alecthomas/kong"

	"toolbridge/subjects"
)

// commands is the grammar of the command line.
type commands struct {
	Version versionFlag `help:"Print the version and exit."`

	Dev    devCommand    `cmd:"" group:"run" help:"Run everything on this machine: NATS, a worker and MCP servers."`
	Worker workerCommand `cmd:"" group:"run" help:"Run a worker against a NATS server."`
	MCP    struct {
		Host  mcpHostCommand  `cmd:"" help:"Bring MCP servers onto the bus for one tenant."`
		Serve mcpServeCommand `cmd:"" help:"Offer a session's tools to an MCP client on standard input and output."`
	} `cmd:"" name:"mcp" group:"run" help:"MCP servers."`

	Assemble  assembleCommand  `cmd:"" group:"client" help:"Assemble tools: what a model would see."`
	Search    searchCommand    `cmd:"" group:"client" help:"Search the deferred tools."`
	Describe  describeCommand  `cmd:"" group:"client" help:"Show tools' descriptions and parameters."`
	Call      callCommand      `cmd:"" group:"client" help:"Call a tool."`
	Fetch     fetchCommand     `cmd:"" group:"client" help:"Get the result of a call, or a large result whole."`
	Stop      stopCommand      `cmd:"" group:"client" help:"Stop a call, or all calls of the session."`
	Preflight preflightCommand `cmd:"" group:"client" help:"Say whether tools could be called now."`
	Events    eventsCommand    `cmd:"" group:"client" help:"Follow what happens in the session."`

	Approvals struct {
		List   approvalsListCommand   `cmd:"" help:"Show what waits for a decision, and which choices are remembered."`
		Decide approvalsDecideCommand `cmd:"" help:"Decide on one call."`
		Forget approvalsForgetCommand `cmd:"" help:"Withdraw a remembered choice, so that people are asked again."`
		Watch  approvalsWatchCommand  `cmd:"" help:"Be asked for every decision as it comes up."`
	} `cmd:"" group:"decide" help:"Calls that need a person's word."`

	Config struct {
		Check configCheckCommand `cmd:"" help:"Check a configuration file without starting anything."`
	} `cmd:"" group:"other" help:"The configuration file."`
	Top         topCommand         `cmd:"" group:"other" help:"Watch sessions, calls, approvals, executors and workers live."`
	Doctor      doctorCommand      `cmd:"" group:"other" help:"Say what is wrong with a deployment, and what to do."`
	Permissions permissionsCommand `cmd:"" group:"other" help:"Print what a NATS server must allow whom."`
	Print       versionCommand     `cmd:"" name:"version" group:"other" help:"Print the version."`
	Completion  completionCommand  `cmd:"" group:"other" help:"Print a completion script for a shell."`
	Complete    completeCommand    `cmd:"" name:"__complete" hidden:""`
}

func newParser(p *program) (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("toolbridge"),
		kong.Description("Deferred tools for agents on NATS: search, describe, call."),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(os.Exit),
		kong.Bind(p),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run:"},
			{Key: "client", Title: "Ask (as a session):"},
			{Key: "decide", Title: "Decide (as an approver):"},
			{Key: "other", Title: "Other:"},
		}),
		kong.Vars{
			"default_nats":   defaultNATS,
			"default_prefix": subjects.DefaultPrefix,
			"search_help":    "1 to 7 queries, each in quotes; - reads them from standard input, one a line.",
			"describe_help":  "1 to 10 names; - reads them from standard input, one a line.",
		},
	)
}
