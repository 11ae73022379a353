package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"toolbridge/client"
	"toolbridge/cmd/toolbridge/internal/output"
	"toolbridge/subjects"
)

// bridgeFlags are those of the verbs that use one bridge tool.
type bridgeFlags struct {
	sourceFlags
	sessionFlags
}

// use sends one bridge tool and prints its reply by show.
func (f *bridgeFlags) use(ctx context.Context, p *program, tool string, arguments any, show func(*output.Printer, json.RawMessage) error) error {
	from, err := f.source(p)
	if err != nil {
		return err
	}
	r, err := client.NewBridgeRequest(from, tool, arguments)
	if err != nil {
		return err
	}
	s, stop, err := f.open(ctx)
	if err != nil {
		return f.fail(p, err)
	}
	defer stop()
	ctx, cancel := f.within(ctx, patience)
	defer cancel()
	body, err := s.Request(ctx, subjects.VerbBridge, r)
	if err != nil {
		return f.fail(p, err)
	}
	return f.reply(p, body, show)
}

// reply prints a reply of the bridge: with --json as it came, else by show. One
// with is_error is a failure.
func (f sessionFlags) reply(p *program, body json.RawMessage, show func(*output.Printer, json.RawMessage) error) error {
	var reply subjects.BridgeReply
	if err := subjects.Decode(body, &reply); err != nil {
		return f.fail(p, fmt.Errorf("the worker's reply can not be read: %w", err))
	}
	if f.JSON {
		if err := printLine(p.stdout, body); err != nil {
			return err
		}
		if reply.IsError {
			return errReported
		}
		return nil
	}
	out := output.New(p.stdout, p.lookup)
	var failure subjects.CallFailure
	switch {
	case reply.Blob != nil:
		out.Block(reply.Preview)
		fmt.Fprintf(p.stderr, "toolbridge: the result has %d bytes; above is its beginning. The whole: toolbridge fetch --blob %s --output FILE%s\n",
			reply.Blob.Size, output.Clean(reply.Blob.Name), f.flags())
	case reply.IsError && subjects.Decode(reply.Result, &failure) == nil && failure.Error != nil:
		printSlotError(p, failure.Error)
	case reply.IsError:
		out.Block(output.Indented(reply.Result))
	default:
		if err := show(out, reply.Result); err != nil {
			return f.fail(p, err)
		}
	}
	if err := out.Err(); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	if reply.IsError {
		return errReported
	}
	return nil
}

func printSlotError(p *program, e *subjects.SlotError) {
	err := output.New(p.stderr, p.lookup)
	err.Line(0, fmt.Sprintf("toolbridge: %s: %s", e.Code, e.Message))
	if e.Hint != "" {
		err.Line(2, e.Hint)
	}
	if len(e.Parameters) > 0 {
		err.Line(2, "parameters of the tool:")
		printParameters(err, 4, e.Parameters)
	}
	if e.RetryAfterMS > 0 {
		err.Line(2, "Try again after "+(time.Duration(e.RetryAfterMS)*time.Millisecond).String()+".")
	}
	switch {
	case e.Code == subjects.CodeToolNotFound:
		err.Line(2, `Find tools with "toolbridge search".`)
	case e.Code == subjects.CodeApprovalDenied && e.Reason == "no_approver":
		err.Line(2, `Nobody was there to be asked: run "toolbridge approvals watch", then call again; or set approvals.wait in the configuration.`)
	}
}
