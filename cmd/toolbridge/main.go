// Command toolbridge is the whole of Toolbridge in one binary: the workers, the
// MCP host, a development server with everything in it, and the client verbs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	exitFailed = 1 // the request failed
	exitUsage  = 2 // wrong usage
)

func main() {
	os.Exit(run(os.Args[1:], &program{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookup: os.LookupEnv,
	}))
}

// program is what the commands know of the process they run in.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookup         func(string) (string, bool)
	model          *kong.Application // the command line's own description
	level          *slog.LevelVar    // of a daemon's log
}

// usageError is a mistake on the command line that the parser can not see.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errReported is a failure that was printed already.
var errReported = errors.New("the request failed")

// errWarned is an examination that found only warnings, which were printed.
var errWarned = errors.New("there are warnings")

// run parses the arguments and runs a command; it returns the exit status.
func run(args []string, p *program) int {
	parser, err := newParser(p)
	if err != nil {
		fmt.Fprintln(p.stderr, "toolbridge:", err)
		return exitFailed
	}
	p.model = parser.Model
	ctx, stop := signalled(p.stderr)
	defer stop()
	parsed, err := parser.Parse(args)
	if err == nil {
		err = traced(ctx, parsed.Command(), p, func(ctx context.Context) error {
			parsed.BindTo(ctx, (*context.Context)(nil))
			return parsed.Run(p)
		})
	}
	var parse *kong.ParseError
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &parse):
		fmt.Fprintf(p.stderr, "toolbridge: %s\n", err)
		if command := commandOf(parse.Context); command != "" {
			fmt.Fprintf(p.stderr, "Run \"toolbridge %s --help\" for its usage.\n", command)
		} else {
			fmt.Fprintln(p.stderr, "Run \"toolbridge --help\" for the commands.")
		}
		return exitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(p.stderr, "toolbridge: %s\n", err)
		return exitUsage
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, errWarned):
		return exitWarned
	}
	fmt.Fprintf(p.stderr, "toolbridge: %s\n", err)
	return exitFailed
}

func commandOf(c *kong.Context) string {
	if c == nil || c.Selected() == nil {
		return ""
	}
	return c.Selected().Path()
}

// signalled is a context that the first SIGINT or SIGTERM ends; the second ends
// the process.
func signalled(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		select {
		case <-signals:
			fmt.Fprintln(stderr, "toolbridge: stopped at the second signal, without finishing")
			os.Exit(130)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	}
}
