package main

import (
	"context"
	"log/slog"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"toolbridge/connectors/mcp"
)

// mcpServeCommand is what an MCP client starts.
type mcpServeCommand struct {
	Toolset       []string `sep:"none" placeholder:"GLOB" help:"Toolset of the registry to offer; may be repeated. Default: every one that the session may see."`
	ContextLength int64    `placeholder:"TOKENS" help:"Context length of the client's model, for the size of the listing."`
	LogLevel      string   `enum:"debug,info,warn,error" default:"warn" env:"TOOLBRIDGE_LOG_LEVEL" placeholder:"LEVEL" help:"Least level of the log on standard error: ${enum}."`
	sessionFlags
}

// Help is shown by --help.
func (mcpServeCommand) Help() string {
	return "Speaks MCP on standard input and output. Name it as a server's command in an MCP client's configuration."
}

// Run serves until the client hangs up.
func (c *mcpServeCommand) Run(ctx context.Context, p *program) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return usagef("--log-level: %w", err)
	}
	s, stop, err := c.open(ctx)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	err = mcp.Serve(ctx, s, mcp.ServeConfig{
		Toolsets: c.Toolset, ContextLength: c.ContextLength, Version: buildInfo().Version,
		Logger: slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: level})),
	}, &sdk.StdioTransport{})
	if err != nil {
		return c.fail(p, err)
	}
	return nil
}
