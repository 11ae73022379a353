package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"toolbridge/client"
	"toolbridge/subjects"
)

type fetchCommand struct {
	CallID string `arg:"" optional:"" name:"call_id" help:"Id of the call."`
	Wait   bool   `help:"Wait until the call is final."`
	Blob   string `placeholder:"NAME" help:"A large result by the name of its blob, in place of a call; needs --output."`
	Output string `type:"path" placeholder:"FILE" help:"Write the whole result to a file; - is standard output."`
	sessionFlags
}

func (c *fetchCommand) Run(ctx context.Context, p *program) error {
	switch {
	case c.Blob == "" && c.CallID == "":
		return usagef("name the call: fetch CALL_ID")
	case c.Blob != "" && (c.CallID != "" || c.Wait):
		return usagef("--blob stands in place of a call and is there already: leave CALL_ID and --wait out")
	case c.Blob != "" && c.Output == "":
		return usagef("--blob needs --output FILE")
	case c.JSON && c.Output == "-":
		return usagef("standard output can not take both the result and --json")
	}
	if c.CallID != "" {
		if err := subjects.CheckToken("call id", c.CallID); err != nil {
			return usageError{err}
		}
	}
	s, stop, err := c.open(ctx)
	if err != nil {
		return c.fail(p, err)
	}
	defer stop()
	if c.Blob != "" {
		return c.blob(ctx, p, s)
	}
	return c.call(ctx, p, s)
}

func (c *fetchCommand) call(ctx context.Context, p *program, s *client.Session) error {
	usual := patience
	if c.Wait {
		usual = 0
	}
	bounded, cancel := c.within(ctx, usual)
	defer cancel()
	if c.Wait {
		if _, err := s.Wait(bounded, c.CallID); err != nil {
			return c.fail(p, err)
		}
	}
	body, err := s.Request(bounded, subjects.VerbFetch, subjects.FetchRequest{CallID: c.CallID})
	if err != nil {
		return c.fail(p, err)
	}
	reply, err := client.Fetched(body)
	switch {
	case errors.Is(err, client.ErrPending):
		return c.pending(p, body)
	case err != nil:
		return c.fail(p, err)
	case c.Output == "":
		return c.reply(p, body, printResult)
	}
	if c.JSON {
		if err := printLine(p.stdout, body); err != nil {
			return err
		}
	}
	write := func(w io.Writer) error { return s.WriteResult(ctx, reply, w) }
	if err := writeTo(p, c.Output, write); err != nil {
		return c.fail(p, err)
	}
	if reply.IsError {
		return errReported
	}
	return nil
}

// pending says that there is no result yet. That is an answer, but no success
// when a file was to be written.
func (c *fetchCommand) pending(p *program, body json.RawMessage) error {
	if c.JSON {
		if err := printLine(p.stdout, body); err != nil {
			return err
		}
	} else {
		to := p.stdout
		if c.Output != "" {
			to = p.stderr
		}
		fmt.Fprintf(to, "pending: call %s has no result yet; --wait waits for it\n", c.CallID)
	}
	if c.Output != "" {
		return errReported
	}
	return nil
}

func (c *fetchCommand) blob(ctx context.Context, p *program, s *client.Session) error {
	ctx, cancel := c.within(ctx, 0)
	defer cancel()
	sum, got := sha256.New(), subjects.Blob{Name: c.Blob}
	err := writeTo(p, c.Output, func(w io.Writer) error {
		return s.FetchBlob(ctx, got, io.MultiWriter(w, sum, counter{&got.Size}))
	})
	if err != nil {
		return c.fail(p, err)
	}
	if !c.JSON {
		return nil
	}
	got.SHA256 = hex.EncodeToString(sum.Sum(nil))
	body, err := subjects.Encode(got)
	if err != nil {
		return err
	}
	return printLine(p.stdout, body)
}

type counter struct{ n *int64 }

func (c counter) Write(b []byte) (int, error) {
	*c.n += int64(len(b))
	return len(b), nil
}

// writeTo lets write fill a file, which appears only when it is whole; what is
// no plain file (a device, a pipe) is written as it comes.
func writeTo(p *program, path string, write func(io.Writer) error) (err error) {
	if path == "-" {
		return write(p.stdout)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".toolbridge-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // it may be gone
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
