package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

type approvalsListCommand struct {
	approverFlags
}

func (c *approvalsListCommand) Run(ctx context.Context, p *program) error {
	a, stop, err := c.open(ctx, p)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	ctx, cancel := c.within(ctx, patience)
	defer cancel()
	body, err := a.Request(ctx, subjects.AreaApprovalsList, subjects.ApprovalListRequest{Session: c.Session})
	if err != nil {
		return c.fail(p, err)
	}
	if c.JSON {
		return printLine(p.stdout, body)
	}
	var r subjects.ApprovalListReply
	if err := subjects.Decode(body, &r); err != nil {
		return c.fail(p, err)
	}
	out := output.New(p.stdout, p.lookup)
	printApprovals(out, r, time.Now())
	return out.Err()
}

func printApprovals(out *output.Printer, r subjects.ApprovalListReply, now time.Time) {
	if len(r.Approvals) == 0 {
		out.Line(0, "Nothing waits for a decision.")
	}
	for i, a := range r.Approvals {
		if i > 0 {
			out.Blank()
		}
		printApproval(out, a, now)
	}
	if len(r.Remembered) > 0 {
		out.Blank()
		out.Heading("remembered choices")
		rows := make([][]string, 0, len(r.Remembered))
		for _, c := range r.Remembered {
			who := "session " + c.Session
			if c.Choice == subjects.ChoiceAlways {
				who = "user " + c.User
			}
			rows = append(rows, []string{c.ID, c.Tool, string(c.Choice), who, "by " + c.By + " at " + c.At})
		}
		out.Rows(2, rows)
	}
	if r.Omitted > 0 {
		out.Blank()
		out.Line(0, fmt.Sprintf("%s more had no room; narrow it with --session.", count(r.Omitted, "entry")))
	}
}

// printApproval shows all that an approver is to know: the arguments are the
// exact text that will be sent, laid out over lines.
func printApproval(out *output.Printer, a subjects.Approval, now time.Time) {
	out.Heading("approval " + a.ID)
	rows := [][]string{{"tool", a.Tool}, {"session", a.Session}}
	if a.User != "" {
		rows = append(rows, []string{"user", a.User})
	}
	rows = append(rows, []string{"call", fmt.Sprintf("%s, entry %d", a.CallID, a.Index)})
	if a.Executor != "" {
		rows = append(rows, []string{"executor", a.Executor})
	}
	if a.Reason != "" {
		rows = append(rows, []string{"reason", a.Reason})
	}
	if a.Rule != "" {
		rows = append(rows, []string{"rule", a.Rule})
	}
	rows = append(rows, []string{"asked", ago(a.RequestedAt, now)}, []string{"expires", ahead(a.ExpiresAt, now)})
	sum := sha256.Sum256([]byte(a.ArgumentsJSON))
	if !strings.EqualFold(hex.EncodeToString(sum[:]), a.ArgumentsSHA256) {
		rows = append(rows, []string{"warning", "the arguments below are not those of the record's digest: only a denial makes sense"})
	}
	out.Rows(2, append(rows, []string{"arguments", ""}))
	out.Exact(4, output.Indented([]byte(a.ArgumentsJSON)))
}

func ago(at string, now time.Time) string {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return at
	}
	return fmt.Sprintf("%s, %s ago", t.Local().Format(time.DateTime), now.Sub(t).Round(time.Second))
}

func ahead(at string, now time.Time) string {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return at
	}
	if left := t.Sub(now).Round(time.Second); left > 0 {
		return fmt.Sprintf("%s, in %s", t.Local().Format(time.DateTime), left)
	}
	return t.Local().Format(time.DateTime) + ", now"
}
