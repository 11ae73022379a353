package main

import (
	"bufio"
	"io"
	"os"

	"golang.org/x/term"
)

// lines reads a person's answers. From a terminal it reads all the time, so that
// what was typed before a question is not its answer; from a pipe it hands a line
// over only when asked, since what a program wrote there waits its turn.
type lines struct {
	C        <-chan string // closed at the end of the input
	Terminal bool
	ask      chan struct{}
}

// maxLine bounds one answer in bytes.
const maxLine = 16 << 10

// readLines reads until the input ends. Reading can not be broken off: the
// goroutine that reads standard input ends with it, or with the process.
func readLines(from io.Reader, done <-chan struct{}) *lines {
	out := make(chan string)
	l := &lines{C: out, ask: make(chan struct{}, 1)}
	if f, ok := from.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		l.Terminal = true
		close(l.ask)
	}
	go func() {
		defer close(out)
		s := bufio.NewScanner(from)
		s.Buffer(make([]byte, 0, 4096), maxLine)
		for s.Scan() {
			select {
			case <-l.ask:
			case <-done:
				return
			}
			select {
			case out <- s.Text():
			case <-done:
				return
			}
		}
	}()
	return l
}

// Ask says that a line is wanted.
func (l *lines) Ask() {
	if !l.Terminal {
		l.ask <- struct{}{}
	}
}
