package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"toolbridge/subjects"
)

func TestADurableCallIsStoredUnderANewID(t *testing.T) {
	connect := bus(t, nil)
	got := make(chan subjects.BridgeRequest, 1)
	worker(t, connect(), subjects.VerbCall, func(m *nats.Msg) *nats.Msg {
		var r subjects.BridgeRequest
		if err := subjects.Decode(m.Data, &r); err != nil {
			t.Error(err)
		}
		got <- r
		return body(`{"id":"` + r.ID + `","stored":true}`)
	})
	s := session(t, connect(), Config{})
	id, err := s.CallDurable(within(t, 5*time.Second), Catalog("sha256:ab"), "t", json.RawMessage(`{"n": 1.00}`))
	if err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.ID != id || r.Name != "tool_call" || string(r.Arguments) != `{"calls":[{"name":"t","arguments":{"n": 1.00}}]}` {
		t.Errorf("request %+v, id %s", r, id)
	}
}

func TestWhatIsNotStoredIsAnError(t *testing.T) {
	for name, tt := range map[string]struct {
		reply string
		is    func(error) bool
	}{
		"refused envelope": {`{"id":"c1","name":"tool_call","is_error":true,"result":{"error":{"code":"INVALID_ARGUMENTS","message":"m"}}}`, func(err error) bool {
			var e *ResultError
			return errors.As(err, &e) && e.Slot.Code == subjects.CodeInvalidArguments
		}},
		"request error": {`{"error":{"code":"ID_REUSED","message":"m","retryable":false}}`, func(err error) bool {
			return errors.Is(err, &subjects.Error{Code: subjects.CodeIDReused})
		}},
		"another id":  {`{"id":"c2","stored":true}`, func(err error) bool { return err != nil }},
		"not stored":  {`{"id":"c1","stored":false}`, func(err error) bool { return err != nil }},
		"no readable": {`[]`, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			connect := bus(t, nil)
			worker(t, connect(), subjects.VerbCall, func(*nats.Msg) *nats.Msg { return body(tt.reply) })
			s := session(t, connect(), Config{})
			err := s.Store(within(t, 5*time.Second), subjects.BridgeRequest{ID: "c1", Name: "tool_call", Arguments: json.RawMessage(`{}`)})
			if !tt.is(err) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

const finalReply = `{"id":"c1","name":"tool_call","is_error":false,"result":{ "n": 1.00 }}`

func TestFetchTellsAPendingCallFromAFinalOne(t *testing.T) {
	connect := bus(t, nil)
	answers := make(chan string, 3)
	worker(t, connect(), subjects.VerbFetch, func(m *nats.Msg) *nats.Msg {
		if string(m.Data) != `{"call_id":"c1"}` {
			t.Errorf("request %s", m.Data)
		}
		return body(<-answers)
	})
	s := session(t, connect(), Config{})
	answers <- `{"pending":true}`
	if _, err := s.Fetch(within(t, 5*time.Second), "c1"); !errors.Is(err, ErrPending) {
		t.Errorf("err = %v", err)
	}
	answers <- finalReply
	reply, err := s.Fetch(within(t, 5*time.Second), "c1")
	if err != nil || string(reply.Result) != `{ "n": 1.00 }` {
		t.Errorf("%+v, %v", reply, err)
	}
	answers <- `{"error":{"code":"UNKNOWN_CALL","message":"m","retryable":false}}`
	if _, err := s.Fetch(within(t, 5*time.Second), "c1"); !errors.Is(err, &subjects.Error{Code: subjects.CodeUnknownCall}) {
		t.Errorf("err = %v", err)
	}
}

func TestWaitReturnsThePublishedResult(t *testing.T) {
	connect := bus(t, nil)
	nc := connect()
	worker(t, nc, subjects.VerbFetch, func(*nats.Msg) *nats.Msg {
		// Messages of other kinds on the subject of the result are dropped.
		for kind, data := range map[string]string{"reply": `{"id":"c1","result":"forged"}`, "": `{"id":"c1","result":"bare"}`} {
			_ = nc.PublishMsg(&nats.Msg{Subject: "toolbridge.v1.acme.s1.result.c1", Data: []byte(data), Header: nats.Header{"Toolbridge-Kind": {kind}}})
		}
		_ = nc.PublishMsg(&nats.Msg{Subject: "toolbridge.v1.acme.s1.result.c1", Data: []byte(finalReply), Header: nats.Header{"Toolbridge-Kind": {"result"}}})
		return body(`{"pending":true}`)
	})
	s := session(t, connect(), Config{})
	reply, err := s.Wait(within(t, 5*time.Second), "c1")
	if err != nil || string(reply.Result) != `{ "n": 1.00 }` {
		t.Errorf("%+v, %v", reply, err)
	}
}

func TestWaitEndsWithItsContextAndWithTheClient(t *testing.T) {
	connect := bus(t, nil)
	asked := make(chan struct{}, 2)
	worker(t, connect(), subjects.VerbFetch, func(*nats.Msg) *nats.Msg {
		asked <- struct{}{}
		return body(`{"pending":true}`)
	})
	s := session(t, connect(), Config{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asked; cancel() }()
	if _, err := s.Wait(ctx, "c1"); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	go func() { <-asked; _ = s.client.Close() }()
	if _, err := s.Wait(context.Background(), "c1"); !errors.Is(err, ErrClosed) {
		t.Errorf("err = %v", err)
	}
	if _, err := s.Wait(context.Background(), "*"); err == nil {
		t.Error("a wildcard was taken for an id")
	}
}

func TestStopOfNoIDIsNeverAStopOfAll(t *testing.T) {
	connect := bus(t, nil)
	got := make(chan string, 1)
	worker(t, connect(), subjects.VerbStop, func(m *nats.Msg) *nats.Msg {
		got <- string(m.Data)
		return body(`{"stopped":[{"call_id":"c1","interrupted":[1],"in_flight":[0]}]}`)
	})
	s := session(t, connect(), Config{})
	if _, err := s.Stop(within(t, 5*time.Second), ""); err == nil {
		t.Fatal("an empty id was sent")
	}
	stopped, err := s.Stop(within(t, 5*time.Second), "c1")
	want := subjects.Stopped{CallID: "c1", Interrupted: []int{1}, InFlight: []int{0}}
	if diff := cmp.Diff(want, stopped); err != nil || diff != "" || <-got != `{"call_id":"c1"}` {
		t.Errorf("%v %s", err, diff)
	}
	list, err := s.StopAll(within(t, 5*time.Second))
	if diff := cmp.Diff([]subjects.Stopped{want}, list); err != nil || diff != "" || <-got != `{}` {
		t.Errorf("%v %s", err, diff)
	}
}

// blobWorker answers fetches of a blob in chunks, packed where that is asked for.
func blobWorker(t *testing.T, connect func(...nats.Option) *nats.Conn, content []byte, chunk int) {
	t.Helper()
	worker(t, connect(), subjects.VerbFetch, func(m *nats.Msg) *nats.Msg {
		var r subjects.FetchRequest
		if err := subjects.Decode(m.Data, &r); err != nil {
			t.Error(err)
		}
		part := content[r.Offset:]
		part = part[:min(chunk, len(part))]
		if len(part) > 1000 {
			packed, err := pack(part)
			if err != nil {
				t.Error(err)
			}
			return &nats.Msg{Data: packed, Header: nats.Header{"Content-Encoding": {"zstd"}}}
		}
		return &nats.Msg{Data: part}
	})
}

func blobOf(content []byte) subjects.Blob {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	return subjects.Blob{Name: name, Size: int64(len(content)), SHA256: name}
}

func TestBlobsComeInChunksByteForByte(t *testing.T) {
	for name, content := range map[string]string{
		"long":                      strings.Repeat("0123456789abcdef", 1000),
		"one chunk":                 "short",
		"what looks like an error":  `{"error":{"code":"BUSY","message":"this is the tool's own result"}}`,
		"a chunk boundary":          strings.Repeat("x", 4000),
		"chunks that look like one": strings.Repeat(`{"error":{"code":"INTERNAL","message":"m"}}`+strings.Repeat(" ", 2000-43), 3),
	} {
		t.Run(name, func(t *testing.T) {
			connect := bus(t, nil)
			blobWorker(t, connect, []byte(content), 2000)
			s := session(t, connect(), Config{})
			blob := blobOf([]byte(content))
			var b bytes.Buffer
			if err := s.FetchBlob(within(t, 5*time.Second), blob, &b); err != nil || b.String() != content {
				t.Errorf("%v, %d bytes", err, b.Len())
			}
			b.Reset()
			if err := s.FetchBlob(within(t, 5*time.Second), subjects.Blob{Name: blob.Name}, &b); err != nil || b.String() != content {
				t.Errorf("by its name: %v, %d bytes", err, b.Len())
			}
			b.Reset()
			if err := s.WriteResult(within(t, 5*time.Second), &subjects.BridgeReply{Blob: &blob}, &b); err != nil || b.String() != content {
				t.Errorf("of a reply: %v, %d bytes", err, b.Len())
			}
		})
	}
}

func TestABlobThatDidNotComeWholeIsAnError(t *testing.T) {
	content := []byte(strings.Repeat("0123456789", 50))
	whole := blobOf(content)
	other := whole
	other.SHA256 = strings.Repeat("0", 64)
	longer, shorter, unnamed := whole, whole, whole
	longer.Size++
	shorter.Size--
	unnamed.Name, unnamed.SHA256 = "a", ""
	for name, blob := range map[string]subjects.Blob{"another hash": other, "cut off": longer, "more than told": shorter, "no hash": unnamed} {
		t.Run(name, func(t *testing.T) {
			connect := bus(t, nil)
			blobWorker(t, connect, content, 200)
			s := session(t, connect(), Config{})
			var b bytes.Buffer
			if err := s.FetchBlob(within(t, 5*time.Second), blob, &b); err == nil {
				t.Error("no error")
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		connect := bus(t, nil)
		worker(t, connect(), subjects.VerbFetch, func(*nats.Msg) *nats.Msg {
			return &nats.Msg{Data: []byte(`{"error":{"code":"UNKNOWN_CALL","message":"m"}}`), Header: nats.Header{"Nats-Service-Error-Code": {"404"}, "Nats-Service-Error": {"m"}}}
		})
		s := session(t, connect(), Config{})
		if err := s.FetchBlob(within(t, 5*time.Second), whole, &bytes.Buffer{}); !errors.Is(err, &subjects.Error{Code: subjects.CodeUnknownCall}) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		s := session(t, bus(t, nil)(), Config{})
		if err := s.FetchBlob(within(t, 5*time.Second), whole, &bytes.Buffer{}); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("err = %v", err)
		}
	})
}

// A worker that dies with the question is not waited for until the end.
func TestWaitAsksAgainWhenAReplyDoesNotCome(t *testing.T) {
	connect := bus(t, nil)
	asked := 0
	worker(t, connect(), subjects.VerbFetch, func(*nats.Msg) *nats.Msg {
		if asked++; asked == 1 {
			return nil
		}
		return &nats.Msg{Data: []byte(`{"id":"c1","name":"tool_call","is_error":false,"result":1}`)}
	})
	reply, err := session(t, connect(), Config{}).Wait(within(t, time.Minute), "c1")
	if err != nil || string(reply.Result) != "1" {
		t.Errorf("reply %v, %v", reply, err)
	}
}
