package worker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"toolbridge/subjects"
)

// request is one message on a session's subject, unpacked.
type request struct {
	subjects.Address
	body     []byte
	reply    string
	deadline time.Time // zero: none named
	accept   string    // encoding the requester takes for the reply, "" for none
	trace    [3]string // values of traceHeaders; with a tracer, those of the request's span
	observed
	place *place // among the requests in work
	sent  func() // called once the reply was handed over, when not nil
}

var traceHeaders = [3]string{subjects.HeaderTraceParent, subjects.HeaderTraceState, subjects.HeaderBaggage}

// maxTrace is the longest value of a trace header that is passed on: the bound
// that W3C sets for baggage, the longest of the three. A longer one is dropped, as
// it could make a reply larger than the server takes.
const maxTrace = 8 << 10

// newRequest is what an answer needs to know of a request that is not read yet.
func newRequest(addr subjects.Address, r micro.Request) *request {
	q := &request{Address: addr, reply: r.Reply(), observed: observed{began: time.Now(), operation: operationOf(addr)}}
	h := r.Headers()
	for i, name := range traceHeaders {
		if v := h.Get(name); len(v) <= maxTrace {
			q.trace[i] = v
		}
	}
	return q
}

// accepted is the first encoding of a list that we write, "" for none; one with a
// weight of 0 is not accepted.
func accepted(list string) string {
	for e := range strings.SplitSeq(list, ",") {
		e, weight, _ := strings.Cut(e, ";")
		if e = encodingName(e); e != subjects.EncodingZstd && e != subjects.EncodingGzip {
			continue
		}
		if q, ok := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q="); !ok || strings.Trim(q, "0.") != "" {
			return e
		}
	}
	return ""
}

// encodingName folds the name of an encoding: its case has no meaning, and
// identity is none.
func encodingName(s string) string {
	if s = strings.ToLower(strings.TrimSpace(s)); s == "identity" {
		return ""
	}
	return s
}

// readRequest unpacks what arrived. The error is one for the requester.
func (w *Worker) readRequest(addr subjects.Address, r micro.Request) (*request, error) {
	q := newRequest(addr, r)
	h := r.Headers()
	if text := strings.TrimSpace(h.Get(subjects.HeaderDeadline)); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 {
			return q, subjects.NewError(subjects.CodeBadRequest,
				fmt.Sprintf("header %s %.40q is not a time in unix milliseconds", subjects.HeaderDeadline, text))
		}
		q.deadline = time.UnixMilli(ms)
	}
	q.accept = accepted(h.Get(subjects.HeaderAcceptEncoding))
	body, err := w.unpack(encodingName(h.Get(subjects.HeaderContentEncoding)), r.Data())
	q.body = body
	return q, err
}

func (w *Worker) unpack(encoding string, data []byte) ([]byte, error) {
	limit := w.cfg.MaxRequest
	var body []byte
	var err error
	switch encoding {
	case "":
		body = data
		if int64(len(data)) > limit {
			err = errTooLarge
		}
	case subjects.EncodingZstd:
		body, err = w.packing.unzstd(data, limit)
	case subjects.EncodingGzip:
		body, err = gunzip(data, limit)
	default:
		return nil, subjects.NewError(subjects.CodeBadRequest,
			fmt.Sprintf("%s %.40q is not known: send zstd, gzip or no such header", subjects.HeaderContentEncoding, encoding))
	}
	switch {
	case errors.Is(err, errTooLarge):
		return nil, subjects.NewError(subjects.CodeTooLarge, fmt.Sprintf("the request has more than %d bytes unpacked", limit))
	case err != nil:
		return nil, subjects.NewError(subjects.CodeBadRequest, fmt.Sprintf("the request says %s %s but can not be unpacked: %v", subjects.HeaderContentEncoding, encoding, err))
	}
	return body, nil
}
