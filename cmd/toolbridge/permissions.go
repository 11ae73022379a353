package main

import (
	"fmt"
	"io"
	"strings"

	"toolbridge/subjects"
)

// permissionsCommand prints what a NATS server's configuration must allow.
type permissionsCommand struct {
	Role       string   `arg:"" enum:"worker,executor,session,approver,hook,credentials,desktop,orchestrator,console,accounts" help:"Who connects: ${enum}. accounts is what the workers' account and that of a tenant export to each other."`
	Tenant     string   `env:"TOOLBRIDGE_TENANT" help:"Tenant; every role but worker has one."`
	Session    string   `env:"TOOLBRIDGE_SESSION" help:"Session of an agent, for the role session."`
	Name       string   `help:"Name of the executor, approver, hook or user of the desktop."`
	Toolset    []string `sep:"none" help:"Toolset that an executor may offer; may be repeated. None given: every one of the tenant."`
	Partitions int      `default:"1" help:"bus.partitions of the configuration, for the role worker."`
	Prefix     string   `env:"TOOLBRIDGE_PREFIX" placeholder:"SUBJECT" help:"Root of the subjects, where a deployment changed it. Default ${default_prefix}."`
	Account    string   `default:"TOOLBRIDGE" help:"With accounts: name of the workers' account."`
	To         string   `placeholder:"ACCOUNT" help:"With accounts: name of the tenant's account. Default: the tenant in capitals."`
	User       []string `sep:"none" help:"With accounts: user whose accounts page desktop back ends in the tenant's account may serve; may be repeated."`
	JSON       bool     `name:"json" help:"Print JSON instead of a piece of a NATS server's configuration."`
}

func (c *permissionsCommand) Run(p *program) error {
	space, err := subjects.NewSpace(c.Prefix)
	if err != nil {
		return usagef("--prefix: %w", err)
	}
	if c.Partitions < 1 || c.Partitions > 64 {
		return usagef("--partitions: 1 to 64 are possible")
	}
	if c.Role == "accounts" {
		return c.accounts(p, space)
	}
	rights, err := space.Permissions(subjects.Holder{
		Role: subjects.Role(c.Role), Tenant: c.Tenant, Session: c.Session, Name: c.Name, Toolsets: c.Toolset, Partitions: c.Partitions,
	})
	if err != nil {
		return usagef("%s: %w", c.Role, err)
	}
	if c.JSON {
		body, err := subjects.Encode(map[string]any{
			"publish": rights.Publish, "subscribe": rights.Subscribe, "responds": rights.Responds, "inbox": rights.Inbox,
		})
		if err != nil {
			return err
		}
		return printLine(p.stdout, body)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s. Its client must use the inbox prefix %s (--inbox-prefix, TOOLBRIDGE_INBOX_PREFIX).\n", c.describe(), rights.Inbox)
	b.WriteString("permissions: {\n")
	writeSubjects(&b, "publish", rights.Publish)
	writeSubjects(&b, "subscribe", rights.Subscribe)
	if rights.Responds {
		b.WriteString("  allow_responses: {max: -1, expires: \"24h\"} # executions send interim messages before their answer\n")
	}
	b.WriteString("}\n")
	_, err = io.WriteString(p.stdout, b.String())
	return err
}

func (c *permissionsCommand) describe() string {
	words := []string{strings.ToUpper(c.Role[:1]) + c.Role[1:]}
	for _, w := range []string{c.Name, c.Session} {
		if w != "" {
			words = append(words, w)
		}
	}
	if c.Tenant != "" && c.Role != string(subjects.RoleWorker) {
		words = append(words, "of tenant", c.Tenant)
	}
	return strings.Join(words, " ")
}

// writeSubjects prints a list of subjects, which hold only what stands in quotes
// as it is.
func writeSubjects(b *strings.Builder, key string, list []string) {
	if len(list) == 0 {
		fmt.Fprintf(b, "  %s: {deny: [\">\"]}\n", key)
		return
	}
	fmt.Fprintf(b, "  %s: [\n", key)
	for _, s := range list {
		fmt.Fprintf(b, "    %q\n", s)
	}
	b.WriteString("  ]\n")
}

// accounts prints what the two accounts of a deployment with one account a tenant
// share.
func (c *permissionsCommand) accounts(p *program, space subjects.Space) error {
	workers, own, err := space.Shares(c.Tenant, c.User...)
	if err != nil {
		return usagef("accounts: %w", err)
	}
	to := c.To
	if to == "" {
		to = strings.ToUpper(c.Tenant)
	}
	for flag, name := range map[string]string{"--account": c.Account, "--to": to} {
		if !subjects.ValidToken(name) {
			return usagef("%s: an account's name of letters, digits, _ and - is expected", flag)
		}
	}
	if to == c.Account {
		return usagef("--to: the tenant's account must be another than that of the workers")
	}
	if c.JSON {
		body, err := subjects.Encode(map[string]any{"workers": shareList(workers), "tenant": shareList(own)})
		if err != nil {
			return err
		}
		return printLine(p.stdout, body)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Tenant %s in the account %s, beside the workers in %s: merge these lists into the two accounts.\n", c.Tenant, to, c.Account)
	b.WriteString("accounts: {\n")
	writeShares(&b, c.Account, to, workers, own)
	writeShares(&b, to, c.Account, own, workers)
	b.WriteString("}\n")
	_, err = io.WriteString(p.stdout, b.String())
	return err
}

// shareList is a list of exports for programs.
func shareList(shares []subjects.Share) []map[string]any {
	list := make([]map[string]any, len(shares))
	for i, s := range shares {
		list[i] = map[string]any{"subject": s.Subject, "stream": s.Stream, "replies": s.Replies}
	}
	return list
}

// writeShares prints one account: what it exports to the other, and what it
// imports from it.
func writeShares(b *strings.Builder, account, other string, exports, imports []subjects.Share) {
	fmt.Fprintf(b, "  %s: {\n    exports: [\n", account)
	for _, s := range exports {
		switch {
		case s.Stream:
			fmt.Fprintf(b, "      {stream: %q, accounts: [%s]}\n", s.Subject, other)
		case s.Replies:
			fmt.Fprintf(b, "      {service: %q, response: stream, accounts: [%s]}\n", s.Subject, other)
		default:
			fmt.Fprintf(b, "      {service: %q, accounts: [%s]}\n", s.Subject, other)
		}
	}
	b.WriteString("    ]\n    imports: [\n")
	for _, s := range imports {
		kind := "service"
		if s.Stream {
			kind = "stream"
		}
		fmt.Fprintf(b, "      {%s: {account: %s, subject: %q}}\n", kind, other, s.Subject)
	}
	b.WriteString("    ]\n  }\n")
}
