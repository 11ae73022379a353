package worker

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

// minPacked is the size from which packing a reply is worth it.
const minPacked = 4 << 10

// reply sends the body, or the error, to a requester. The reply subject was
// checked when the request came.
func (w *Worker) reply(q *request, body []byte, err error) {
	msg := &nats.Msg{Subject: q.reply, Header: w.header(subjects.KindReply, q.trace)}
	var failed *subjects.Error
	plain := body
	if err != nil {
		w.errors.Add(1)
		failed = asError(err)
		body = errorBody(msg.Header, failed)
	} else if q.accept != "" && len(body) >= minPacked {
		packed, packErr := w.packing.pack(q.accept, body)
		if packErr == nil && len(packed) < len(body) {
			body = packed
			msg.Header[subjects.HeaderContentEncoding] = []string{q.accept}
		}
	}
	if limit := w.nc.MaxPayload(); limit > 0 && int64(len(body)+headerSize(msg.Header)) > limit {
		delete(msg.Header, subjects.HeaderContentEncoding)
		failed = subjects.NewError(subjects.CodeTooLarge, fmt.Sprintf(
			"the reply has %d bytes, the server takes %d: send less, or %s: zstd, or raise the server's max_payload", len(body), limit, subjects.HeaderAcceptEncoding))
		q.limit = limitReply
		body = errorBody(msg.Header, failed)
	}
	msg.Data = body
	if err := w.nc.PublishMsg(msg); err != nil {
		w.log.WarnContext(q.context(w.base), "reply not sent", "tenant", q.Tenant, "session", q.Session, "verb", string(q.Verb), "error", err)
	}
	w.answered(q, plain, failed)
}

// headerSize is what a header takes on the wire, which max_payload counts too,
// rounded up.
func headerSize(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(": \r\n") + len(v)
		}
	}
	return n
}

func (w *Worker) header(kind string, trace [3]string) nats.Header {
	h := nats.Header{subjects.HeaderKind: {kind}}
	for i, v := range trace {
		if v != "" {
			h[traceHeaders[i]] = []string{v}
		}
	}
	return h
}

// errorBody writes the headers that micro uses and returns the JSON body.
func errorBody(h nats.Header, e *subjects.Error) []byte {
	h[subjects.HeaderErrorCode] = []string{strconv.Itoa(e.Code.Status())}
	h[subjects.HeaderError] = []string{headerText(e.Message)}
	body, encErr := subjects.Encode(subjects.ErrorReply{Error: e})
	if encErr != nil {
		body = []byte(`{"error":{"code":"INTERNAL","message":"the error could not be written","retryable":true}}`)
	}
	return body
}

// asError is the wire form of any error; what is not one already is INTERNAL
// and keeps its text, which names no other session.
func asError(err error) *subjects.Error {
	var e *subjects.Error
	if errors.As(err, &e) {
		return e
	}
	return subjects.NewError(subjects.CodeInternal, err.Error())
}

// headerText is a message as one header line of bounded length.
func headerText(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			r = ' '
		}
		if out = append(out, r); len(out) == 512 {
			break
		}
	}
	return string(out)
}
