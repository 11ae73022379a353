package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Fault is something that goes wrong with requests. Of several that fit a request
// the first that is not used up hits it, and only that one.
type Fault struct {
	// Kind says what goes wrong. See the constants.
	Kind string `json:"kind"`
	// Route that it hits: search, schemas, execute, connections, list, account,
	// guest, portal_list, portal_rename, portal_disconnect. Empty: every route.
	Route string `json:"route,omitempty"`
	// User and Tool (a slug, in execute and schemas) narrow it further.
	User string `json:"user,omitempty"`
	Tool string `json:"tool,omitempty"`
	// Skip lets the first so many fitting requests pass.
	Skip int `json:"skip,omitempty"`
	// Count is how many it then hits. 0 means one, -1 all.
	Count int `json:"count,omitempty"`
	// Cycle begins again with Skip when Count is used up: flapping.
	Cycle bool `json:"cycle,omitempty"`
	// Effect carries the request out before it goes wrong, in the kinds that answer
	// nothing of it: status, rate_limited, html, hang, reset, dark, forbidden,
	// unauthorized. The other kinds spoil an answer, so that its effect has been.
	Effect bool `json:"effect,omitempty"`
	// Status is that of kinds status (default 503) and html (default 502).
	Status int `json:"status,omitempty"`
	// DelayMS is waited before anything else; in drip it is the pause between two
	// bytes (default 100).
	DelayMS int `json:"delay_ms,omitempty"`
	// RetryAfterS is the header of rate_limited (default 1); -1 leaves it out and
	// RetryAfterMS stands in the body.
	RetryAfterS  int `json:"retry_after_s,omitempty"`
	RetryAfterMS int `json:"retry_after_ms,omitempty"`
	// Code is that of unknown_code (default QUOTA_EXHAUSTED), and of the error body
	// of status, forbidden, unauthorized and dark.
	Code string `json:"code,omitempty"`
	// Bytes is the size of huge (default 64 MiB).
	Bytes int `json:"bytes,omitempty"`
}

// Kinds of faults.
const (
	Latency      = "latency"      // late by DelayMS, otherwise as it should be
	Status       = "status"       // an error status with an error body
	RateLimited  = "rate_limited" // 429
	HTML         = "html"         // an error page of a proxy
	Hang         = "hang"         // no answer until the client goes
	Reset        = "reset"        // the connection is reset
	Truncated    = "truncated"    // half of the body, then the connection ends
	WrongIndex   = "wrong_index"  // results in their places, with other indexes
	TooFew       = "too_few"      // the last result is missing
	TooMany      = "too_many"     // the last result comes twice
	NonObject    = "non_object"   // a text in place of each result
	UnknownCode  = "unknown_code" // execute: each result is an error with a code that no page lists; no effect
	Duplicate    = "duplicate"    // the request is delivered twice, and the second answer goes out
	Garbage      = "garbage"      // a body that is no JSON
	Huge         = "huge"         // a body of Bytes
	Drip         = "drip"         // a body that comes byte by byte
	ContentType  = "content_type" // the right body, called text/html
	Dark         = "dark"         // 404, as for somebody to whom the gateway is not open
	Forbidden    = "forbidden"    // 403
	Unauthorized = "unauthorized" // 401: the sign-in has expired
)

// kinds says of each kind whether it answers nothing of the request.
var kinds = map[string]bool{
	Latency: false, Status: true, RateLimited: true, HTML: true, Hang: true, Reset: true, Truncated: false, WrongIndex: false, TooFew: false,
	TooMany: false, NonObject: false, UnknownCode: true, Duplicate: false, Garbage: false, Huge: false, Drip: false, ContentType: false,
	Dark: true, Forbidden: true, Unauthorized: true,
}

// fault is one with its count.
type fault struct {
	Fault
	seen int // fitting requests that came to it
	hits int
}

func newFaults(list []Fault) ([]*fault, error) {
	var out []*fault
	for i, f := range list {
		if _, ok := kinds[f.Kind]; !ok {
			return nil, fmt.Errorf("fault %d: kind %q is none of %s", i, f.Kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		}
		if f.Route != "" && !slices.Contains(routeNames, f.Route) {
			return nil, fmt.Errorf("fault %d: route %q is none of %s", i, f.Route, strings.Join(routeNames, ", "))
		}
		if f.Skip < 0 || f.Count < -1 || f.DelayMS < 0 || f.Bytes < 0 {
			return nil, fmt.Errorf("fault %d: a negative number", i)
		}
		if f.Count == 0 {
			f.Count = 1
		}
		out = append(out, &fault{Fault: f})
	}
	return out, nil
}

// DecodeFaults reads one fault or an array of them.
func DecodeFaults(text []byte) ([]Fault, error) {
	var list []Fault
	text = []byte(strings.TrimSpace(string(text)))
	if len(text) > 0 && text[0] == '{' {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("reading the faults: %w", err)
	}
	if d.More() {
		return nil, errors.New("reading the faults: text after the end")
	}
	_, err := newFaults(list)
	return list, err
}

// Inject adds faults behind those that there are.
func (s *Server) Inject(list ...Fault) error {
	more, err := newFaults(list)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, more...)
	return nil
}

// ClearFaults ends all faults. What hangs goes on hanging until its client goes.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// strike finds the fault that hits a request, and counts. It is called under the
// lock, once for each request.
func (s *Server) strike(route, user string, tools []string) *Fault {
	for _, f := range s.faults {
		if f.Route != "" && f.Route != route || f.User != "" && f.User != user || f.Tool != "" && !slices.Contains(tools, f.Tool) {
			continue
		}
		n := f.seen
		if f.Cycle && f.Count > 0 {
			n %= f.Skip + f.Count
		}
		f.seen++
		if n < f.Skip || f.Count >= 0 && n >= f.Skip+f.Count {
			continue
		}
		f.hits++
		return &f.Fault
	}
	return nil
}

// spoil changes the results of an answer.
func spoil(kind string, body []byte) []byte {
	var whole map[string]json.RawMessage
	var results []json.RawMessage
	if json.Unmarshal(body, &whole) != nil || json.Unmarshal(whole["results"], &results) != nil {
		return body
	}
	switch kind {
	case WrongIndex:
		for i, r := range results {
			var one map[string]json.RawMessage
			if json.Unmarshal(r, &one) == nil {
				one["index"] = json.RawMessage(strconv.Itoa(len(results) - i + 6))
				results[i] = encode(one)
			}
		}
	case TooFew:
		if len(results) > 0 {
			results = results[:len(results)-1]
		}
	case TooMany:
		if len(results) > 0 {
			results = append(results, results[len(results)-1])
		}
	case NonObject:
		for i := range results {
			results[i] = json.RawMessage(`"x"`)
		}
	}
	if results == nil {
		results = []json.RawMessage{}
	}
	whole["results"] = encode(results)
	return encode(whole)
}

// refusal is the answer of a fault that answers nothing of the request.
func (f *Fault) refusal() answer {
	switch f.Kind {
	case RateLimited:
		a := answer{status: http.StatusTooManyRequests}
		ms := f.RetryAfterMS
		switch {
		case f.RetryAfterS >= 0:
			a.header = map[string]string{"Retry-After": strconv.Itoa(max(f.RetryAfterS, 1))}
			ms = 1000 * max(f.RetryAfterS, 1)
		case ms == 0:
			ms = 1000
		}
		a.body = encode(map[string]any{"code": "RATE_LIMITED", "message": "too many requests", "requestId": "req_fault", "retryAfterMs": ms})
		return a
	case HTML:
		return answer{
			status: or(f.Status, http.StatusBadGateway), header: map[string]string{"Content-Type": "text/html; charset=utf-8"},
			body: []byte("<!doctype html>\n<html><head><title>Bad gateway</title></head><body><h1>Bad gateway</h1></body></html>\n"),
		}
	case Dark:
		return problem(http.StatusNotFound, or(f.Code, "NOT_FOUND"), "no such route")
	case Forbidden:
		return problem(http.StatusForbidden, or(f.Code, "FORBIDDEN"), "this account may not use connectors")
	case Unauthorized:
		return problem(http.StatusUnauthorized, or(f.Code, "TOKEN_EXPIRED"), "the sign-in has expired")
	}
	status := or(f.Status, http.StatusServiceUnavailable)
	return problem(status, or(f.Code, "UNAVAILABLE"), "the fault script says so")
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
