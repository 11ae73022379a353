package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// drainTime is how long what a dead server wrote is still read. A process of
// its own that it left behind may hold the pipe open longer.
const drainTime = 500 * time.Millisecond

// process is a server's program in a process group of its own, so that what it
// started (npx starts node) ends with it.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File // written by us
	stdout *os.File // read by us
	stderr *stderrLog

	stdinOnce sync.Once
	exited    chan struct{} // closed when the program has ended and been waited for
	err       error         // of Wait; valid after exited
	owner     sync.WaitGroup
}

// startProcess starts a server's command. The caller must call stop; the end of
// kill kills it.
func startProcess(kill context.Context, s ServerConfig, environ, secrets []string, log *slog.Logger) (*process, error) {
	cmd := exec.CommandContext(kill, s.Command[0], s.Command[1:]...)
	cmd.Cancel = func() error {
		killGroup(cmd)
		return nil
	}
	cmd.Env = environ
	cmd.Dir = s.Dir
	ownGroup(cmd)
	var opened []*os.File
	fail := func(err error) (*process, error) {
		for _, f := range opened {
			_ = f.Close()
		}
		return nil, fmt.Errorf("starting %q: %w", s.Command[0], err)
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			opened = append(opened, r, w)
		}
		return r, w, err
	}
	inR, inW, err := pipe()
	if err != nil {
		return fail(err)
	}
	outR, outW, err := pipe()
	if err != nil {
		return fail(err)
	}
	errR, errW, err := pipe()
	if err != nil {
		return fail(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	for _, f := range []*os.File{inR, outW, errW} { // the child's ends
		_ = f.Close()
	}
	p := &process{
		cmd: cmd, stdin: inW, stdout: outR, exited: make(chan struct{}),
		stderr: &stderrLog{pipe: errR, secrets: secrets, log: log, ended: make(chan struct{})},
	}
	p.owner.Go(p.stderr.run)
	p.owner.Go(func() {
		p.err = cmd.Wait()
		killGroup(cmd) // what the program left behind in its group
		close(p.exited)
		// A reader still gets what is in the pipe; then it must see the end.
		_ = outR.SetReadDeadline(time.Now().Add(drainTime))
		_ = errR.SetReadDeadline(time.Now().Add(drainTime))
	})
	return p, nil
}

func (p *process) closeStdin() { p.stdinOnce.Do(func() { _ = p.stdin.Close() }) }

// stop ends the program: the end of its input, SIGTERM to its group after
// grace, SIGKILL after grace again or when ctx ends. It returns when the
// program is gone and nothing of p runs any more.
func (p *process) stop(ctx context.Context, grace time.Duration) {
	p.closeStdin()
	wait := func() bool {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-p.exited:
			return true
		case <-t.C:
		case <-ctx.Done():
		}
		return false
	}
	if !wait() {
		terminateGroup(p.cmd)
		if !wait() {
			killGroup(p.cmd)
			<-p.exited
		}
	}
	p.owner.Wait()
	_ = p.stdout.Close()
}

// reason says how the program ended, with the last line of its standard error.
// It waits a moment for a program that has only just closed its output.
func (p *process) reason() string {
	t := time.NewTimer(drainTime)
	defer t.Stop()
	why := "closed its standard output"
	select {
	case <-p.exited:
		why = "exited"
		var exit *exec.ExitError
		switch {
		case p.err == nil:
			why = "exited with status 0"
		case errors.As(p.err, &exit):
			why = "ended: " + exit.String()
		}
		select {
		case <-p.stderr.ended: // its last words have been read
		case <-t.C:
		}
	case <-t.C:
	}
	if last := p.stderr.lastLine(); last != "" {
		why += "; its last words: " + last
	}
	return why
}

// stderrLog reads a server's standard error: every line, cut, to the log at
// debug level, a bounded number of them a minute, and the last one for the
// reason of a crash.
type stderrLog struct {
	pipe    *os.File
	secrets []string
	log     *slog.Logger
	ended   chan struct{} // closed when all of it has been read

	mu   sync.Mutex
	last string
}

const (
	stderrLine      = 2 << 10 // bytes of a line that are logged
	stderrReason    = 300     // bytes of the last line that a reason repeats
	stderrPerMinute = 600
)

func (l *stderrLog) run() {
	defer close(l.ended)
	defer l.pipe.Close()
	r := bufio.NewReaderSize(l.pipe, stderrLine)
	minute, lines := time.Now(), 0
	for {
		part, err := r.ReadSlice('\n')
		line := strings.TrimSpace(string(validUTF8(part)))
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = r.ReadSlice('\n')
		}
		if line != "" {
			line = mask(line, l.secrets)
			l.mu.Lock()
			l.last = cut(oneLine(line), stderrReason)
			l.mu.Unlock()
			if now := time.Now(); now.Sub(minute) > time.Minute {
				minute, lines = now, 0
			}
			if lines++; lines <= stderrPerMinute {
				l.log.Debug("MCP server's standard error", "line", line)
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *stderrLog) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// oneLine replaces control characters, so that a server's words can stand in a
// reason that others print.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}
