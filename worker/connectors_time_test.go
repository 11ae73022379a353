package worker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"toolbridge/connectors"
	"toolbridge/worker"
)

// roundTrip is a gateway in place of the network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func within(f roundTrip) func(*connectors.Config) {
	return func(c *connectors.Config) {
		c.Client.Transport = func(http.RoundTripper) http.RoundTripper { return f }
		c.Breaker.Disabled = true
	}
}

// How long a search waits for a gateway that says nothing: the configured time once
// every query has local matches, else its own time less a margin.
func TestASilentGatewayIsWaitedForNoLongerThanItMayBe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := fleetInBubble(t)
		silent := within(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		f.start(worker.Config{Dev: true, RequestTimeout: 10 * time.Second, Gateway: gatewayOf(t, f, "http://gateway.test", silent)})
		catalog := f.assembleIn("t", "s", mailTools(manageConnections))
		for i, c := range []struct {
			queries string
			within  time.Duration // of the deadline header; 0: none
			want    time.Duration
		}{
			{`["mail message"]`, 0, time.Second},
			{`["mail message","calendar event"]`, 0, time.Second},
			{`["mail message","calendar event"]`, 500 * time.Millisecond, 400 * time.Millisecond},
			{`["mail message","zeppelin"]`, 4 * time.Second, 3500 * time.Millisecond},
			{`["zeppelin"]`, 60 * time.Second, 9500 * time.Millisecond},
			{`["mcp__cal__create_event"]`, 0, 0},
		} {
			var headers []string
			begun := time.Now()
			if c.within > 0 {
				headers = []string{"Toolbridge-Deadline", strconv.FormatInt(begun.Add(c.within).UnixMilli(), 10)}
			}
			payload := f.bridgeIn("t", "s", catalog, "tool_search", fmt.Sprintf(`{"queries":%s,"limit":%d}`, c.queries, i+1), headers...)
			if took := time.Since(begun); took > c.want || took < c.want-5*time.Millisecond {
				t.Errorf("%s within %s took %s, want %s", c.queries, c.within, took, c.want)
			}
			if _, notice := withoutNotice(t, payload); (notice == nil) != (c.want == 0) {
				t.Errorf("%s: notice %v", c.queries, notice)
			}
		}
		begun := time.Now()
		payload := f.bridgeIn("t", "s", catalog, "tool_describe", `{"names":["connectors__gmail__SEND_EMAIL","mcp__cal__create_event"]}`,
			"Toolbridge-Deadline", strconv.FormatInt(begun.Add(3*time.Second).UnixMilli(), 10))
		if took := time.Since(begun); took > 2500*time.Millisecond || !strings.Contains(string(payload), `"mcp__cal__create_event":{"description"`) {
			t.Errorf("describe took %s: %s", took, payload)
		}
	})
}

// An answer that comes after the search has stopped waiting is there for the next
// one; one that comes in time is in the answer.
func TestALateAnswerIsThereForTheNextSearch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := fleetInBubble(t)
		late := 700 * time.Millisecond
		requests := 0
		slow := within(func(r *http.Request) (*http.Response, error) {
			requests++
			time.Sleep(late)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(gmailFound))}, nil
		})
		f.start(worker.Config{Dev: true, Gateway: gatewayOf(t, f, "http://gateway.test", slow)})
		catalog := f.assembleIn("t", "s", mailTools(manageConnections))
		find := func(query string) string {
			payload := f.bridgeIn("t", "s", catalog, "tool_search", fmt.Sprintf(`{"queries":[%q]}`, query))
			if !json.Valid(payload) {
				t.Fatalf("%s", payload)
			}
			return string(payload)
		}
		if got := find("message email"); !strings.Contains(got, "connectors__gmail__SEND_EMAIL") {
			t.Errorf("an answer in time is missing: %s", got)
		}
		late = 2 * time.Second
		if got := find("mail message"); !strings.Contains(got, "unreachable") {
			t.Errorf("%s", got)
		}
		time.Sleep(2 * time.Second)
		if got := find("mail message"); strings.Contains(got, "unreachable") || requests != 2 {
			t.Errorf("after %d requests: %s", requests, got)
		}
	})
}
