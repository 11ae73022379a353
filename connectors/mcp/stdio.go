package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// stdioConn speaks newline-delimited JSON-RPC with a process. Unlike the SDK's
// own it survives what real servers print to standard output besides (banners,
// logs, warnings of a package manager), bounds every line, and gives the bytes
// of answers to captures.
type stdioConn struct {
	proc  *process
	lines *bufio.Reader
	max   int
	log   *slog.Logger

	writing chan struct{} // holds one token: the right to write

	mu      sync.Mutex
	pending map[string]*capture // by JSON-RPC id
	garbage int

	closing   chan struct{}
	closeOnce sync.Once
}

// stdioTransport starts the process when the SDK connects.
type stdioTransport struct{ conn *stdioConn }

func (t stdioTransport) Connect(context.Context) (sdk.Connection, error) { return t.conn, nil }

func newStdioConn(p *process, maxLine int, log *slog.Logger) *stdioConn {
	c := &stdioConn{
		proc: p, lines: bufio.NewReaderSize(p.stdout, 64<<10), max: maxLine, log: log,
		writing: make(chan struct{}, 1), pending: make(map[string]*capture), closing: make(chan struct{}),
	}
	c.writing <- struct{}{}
	return c
}

func (c *stdioConn) SessionID() string { return "" }

// Read returns the next message. Lines that are none are skipped.
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		line, tooLong, err := c.readLine()
		if err != nil {
			return nil, c.readError(err)
		}
		if tooLong {
			if msg := c.oversized(line); msg != nil {
				return msg, nil
			}
			continue
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		msg, err := c.decode(validUTF8(line))
		if err != nil {
			c.skipped(line, err)
			continue
		}
		return msg, nil
	}
}

// readLine returns the next line. Of a line above the limit it returns the
// beginning and the end, which may hold the id.
func (c *stdioConn) readLine() (line []byte, tooLong bool, err error) {
	const keep = 1 << 10
	for {
		part, err := c.lines.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > c.max && len(line) > 4*keep {
			tooLong = true
			line = append(line[:keep], line[len(line)-keep:]...)
		}
		switch {
		case err == nil:
			return line, tooLong, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0:
			return line, tooLong, nil // the last line needs no end; the next read says EOF
		default:
			return nil, false, err
		}
	}
}

// decode makes the SDK's message of a line. The result of a captured request
// goes to its capture; the SDK gets an empty one.
func (c *stdioConn) decode(line []byte) (jsonrpc.Message, error) {
	m, err := parseWire(line)
	if err != nil {
		return nil, err
	}
	if !m.isResponse() {
		return jsonrpc.DecodeMessage(line)
	}
	c.mu.Lock()
	waiting, ok := c.pending[m.id]
	delete(c.pending, m.id)
	c.mu.Unlock()
	if !ok {
		return jsonrpc.DecodeMessage(line)
	}
	waiting.settle(m.outcome())
	return emptyResponse(m.id)
}

// emptyResponse ends a call for the SDK. It decodes as any result.
func emptyResponse(id string) (jsonrpc.Message, error) {
	return jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`))
}

// idInLine finds the id of an answer in the beginning or the end of its line.
var idInLine = regexp.MustCompile(`"id"\s*:\s*(\d{1,18})\s*[,}]`)

func (c *stdioConn) oversized(ends []byte) jsonrpc.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, found := range idInLine.FindAllSubmatch(ends, -1) {
		id := string(found[1])
		if waiting, ok := c.pending[id]; ok {
			delete(c.pending, id)
			waiting.settle(nil, errTooLarge{c.max})
			msg, _ := emptyResponse(id)
			return msg
		}
	}
	c.log.Warn("MCP server sent a line above the limit; it is dropped", "limit", c.max)
	return nil
}

// skipped logs the first lines that are no messages, and then every 1,000th.
func (c *stdioConn) skipped(line []byte, err error) {
	c.garbage++ // only Read, one at a time, comes here
	if c.garbage <= 5 || c.garbage%1000 == 0 {
		c.log.Warn("MCP server printed something other than JSON-RPC to standard output; skipped",
			"line", strconv.Quote(cut(string(line), 200)), "error", cut(err.Error(), 200), "count", c.garbage)
	}
}

func (c *stdioConn) readError(err error) error {
	select {
	case <-c.closing:
		return io.EOF
	default:
	}
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return io.EOF
	}
	return fmt.Errorf("reading standard output: %w", err)
}

// Write sends one message as one line. When ctx ends before the server took
// any of it, nothing was sent and the connection stays whole; when it took a
// part, the connection is broken and is closed.
func (c *stdioConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encoding message: %w", err)
	}
	data = append(data, '\n')
	select {
	case <-c.writing:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return io.ErrClosedPipe
	}
	defer func() { c.writing <- struct{}{} }()

	c.expect(ctx, msg)
	if ctx.Done() != nil {
		interrupted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(interrupted)
			_ = c.proc.stdin.SetWriteDeadline(time.Unix(1, 0))
		})
		defer func() {
			if !stop() {
				<-interrupted
				_ = c.proc.stdin.SetWriteDeadline(time.Time{})
			}
		}()
	}
	n, err := c.proc.stdin.Write(data)
	if err == nil {
		return nil
	}
	if n > 0 {
		_ = c.Close()
		return fmt.Errorf("writing to the server's standard input: %w", err)
	}
	c.forget(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("writing to the server's standard input: %w", err)
}

// expect registers the capture of a request that is about to be sent.
func (c *stdioConn) expect(ctx context.Context, msg jsonrpc.Message) {
	req, ok := msg.(*jsonrpc.Request)
	waiting := captureFrom(ctx)
	if !ok || waiting == nil || !req.IsCall() {
		return
	}
	id := fmt.Sprint(req.ID.Raw())
	waiting.markSent(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[id] = waiting
}

// forget undoes expect after nothing was sent, or nobody waits any more.
func (c *stdioConn) forget(ctx context.Context) {
	waiting := captureFrom(ctx)
	if waiting == nil {
		return
	}
	waiting.markGone()
	c.drop(waiting)
}

func (c *stdioConn) drop(waiting *capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.pending {
		if w == waiting {
			delete(c.pending, id)
		}
	}
}

// Close ends the server's input and stops reading; it does not wait for the
// process, which its owner stops.
func (c *stdioConn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closing)
		c.proc.closeStdin()
		_ = c.proc.stdout.SetReadDeadline(time.Unix(1, 0))
	})
	return nil
}
