package mcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A capture takes the answer to one request off the wire, byte for byte.
//
// The SDK decodes schemas, arguments and results into Go maps: numbers above
// 2^53 change, key order is lost, a false hint and an absent one look alike,
// and one content block of an unknown type costs the whole answer. So the
// transports hand what they read to the capture that travels in the request's
// context, and the SDK keeps what it is good at: the life of the session.
type capture struct {
	mu     sync.Mutex
	id     string // the request's JSON-RPC id as it stands on the wire
	sent   bool   // some of the request may have reached the server
	gone   bool   // the server said that it has no such session: nothing ran
	done   chan struct{}
	result jsontext.Value
	err    error // *rpcError or errTooLarge
}

func newCapture() *capture { return &capture{done: make(chan struct{})} }

type captureKey struct{}

func withCapture(ctx context.Context, c *capture) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

func captureFrom(ctx context.Context) *capture {
	c, _ := ctx.Value(captureKey{}).(*capture)
	return c
}

// errTooLarge says that the server's answer is above MaxMessage.
type errTooLarge struct{ limit int }

func (e errTooLarge) Error() string {
	return fmt.Sprintf("the server's answer is larger than %d bytes", e.limit)
}

// rpcError is a JSON-RPC error that the server answered.
type rpcError struct {
	Code    int64
	Message string
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (JSON-RPC %d)", e.Message, e.Code) }

func (c *capture) markSent(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id, c.sent = id, true
}

func (c *capture) markGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
}

// started reports whether the server may have begun to work on the request.
func (c *capture) started() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent && !c.gone
}

func (c *capture) requestID() (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, err := strconv.ParseInt(c.id, 10, 64); err == nil {
		return n, true
	}
	return nil, false
}

func (c *capture) settle(result jsontext.Value, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done: // the first answer stands
	default:
		c.result, c.err = result, err
		close(c.done)
	}
}

// answer is what was captured; ok is false while there is nothing.
func (c *capture) answer() (result jsontext.Value, ok bool, err error) {
	select {
	case <-c.done:
		return c.result, true, c.err
	default:
		return nil, false, nil
	}
}

// offer settles the capture when the message answers its request.
func (c *capture) offer(m wireMessage) {
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	if m.isResponse() && id != "" && m.id == id {
		c.settle(m.outcome())
	}
}

// wireMessage is the top level of a JSON-RPC message.
type wireMessage struct {
	id     string // as written; "" when absent or null
	method bool
	result jsontext.Value
	err    jsontext.Value
}

// parseWire reads the top level of a message. The values are copies.
func parseWire(data []byte) (wireMessage, error) {
	var m wireMessage
	err := members(data, func(name string, value jsontext.Value) error {
		switch name {
		case "id":
			if m.id = ""; value.Kind() != 'n' {
				m.id = string(value)
			}
		case "method":
			m.method = true
		case "result":
			m.result = value.Clone()
		case "error":
			if m.err = nil; value.Kind() != 'n' {
				m.err = value.Clone()
			}
		}
		return nil
	})
	return m, err
}

func (m wireMessage) isResponse() bool {
	return !m.method && m.id != "" && (m.result != nil || m.err != nil)
}

// outcome is the answer of a response.
func (m wireMessage) outcome() (jsontext.Value, error) {
	if m.err == nil {
		return m.result, nil
	}
	e := &rpcError{Message: "the server answered with an error that is not readable"}
	_ = members(m.err, func(name string, value jsontext.Value) error {
		switch name {
		case "code":
			e.Code, _ = strconv.ParseInt(string(value), 10, 64)
		case "message":
			if s, ok := text(value); ok && strings.TrimSpace(s) != "" {
				e.Message = s
			}
		}
		return nil
	})
	return nil, e
}

// asRPC is the server's JSON-RPC error within err, if there is one. Errors that
// the SDK makes up itself for a broken connection are none.
func asRPC(err error) *rpcError {
	var own *rpcError
	if errors.As(err, &own) {
		return own
	}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) && !madeUp(wire.Code) {
		return &rpcError{Code: wire.Code, Message: wire.Message}
	}
	return nil
}

// madeUp reports whether a code is one that the SDK uses for its own state:
// closing, or rejected by the transport.
func madeUp(code int64) bool { return code <= -32003 && code >= -32005 || code == -32001 }
