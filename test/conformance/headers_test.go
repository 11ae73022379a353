package conformance

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

func TestRequestsAndRepliesMayBePacked(t *testing.T) {
	s := newSession(t)
	body := request(strings.Replace(terminal, "Run a shell command.", strings.Repeat("Run a long command. ", 1000), 1), mail)
	plain := s.send(s.subject("assemble"), body).Data
	for _, encoding := range []string{"zstd", "gzip"} {
		t.Run(encoding, func(t *testing.T) {
			s := &session{t: t, nc: s.nc, name: s.name}
			m := s.send(s.subject("assemble"), string(pack(t, encoding, body)), "Content-Encoding", encoding)
			if !bytes.Equal(m.Data, plain) || m.Header.Get("Content-Encoding") != "" {
				t.Errorf("a packed request is answered otherwise: %.200s", m.Data)
			}
			m = s.send(s.subject("assemble"), body, "Accept-Encoding", encoding)
			if got := m.Header.Get("Content-Encoding"); got != encoding || len(m.Data) >= len(plain) {
				t.Fatalf("a reply of %d bytes has Content-Encoding %q", len(m.Data), got)
			}
			if !bytes.Equal(unpack(t, encoding, m.Data), plain) {
				t.Error("the packed reply holds other bytes")
			}
			s.refused(s.subject("assemble"), body, "BAD_REQUEST", "Content-Encoding", encoding)
			if !testing.Short() { // 80 MB take their time under the race detector
				s.refused(s.subject("assemble"), string(pack(t, encoding, strings.Repeat(" ", 80<<20))), "TOO_LARGE", "Content-Encoding", encoding)
			}
		})
	}
	s.refused(s.subject("assemble"), body, "BAD_REQUEST", "Content-Encoding", "br")
}

func TestDeadlinesBoundTheReply(t *testing.T) {
	s := newSession(t)
	_, ref := s.assemble(usual())
	search := `{"id":"c1","name":"tool_search","arguments":{"queries":["email"]},"catalog":"` + ref + `"}`
	for verb, body := range map[string]string{"assemble": usual(), "bridge": search, "preflight": `{"names":["x"],"catalog":"` + ref + `"}`} {
		s.refused(s.subject(verb), body, "DEADLINE_EXCEEDED", "Toolbridge-Deadline", later(-time.Second))
		s.refused(s.subject(verb), body, "BAD_REQUEST", "Toolbridge-Deadline", "tomorrow")
		s.ask(verb, body, "Toolbridge-Deadline", later(time.Minute))
	}
}

func TestTraceContextComesBack(t *testing.T) {
	s := newSession(t)
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	m := s.send(s.subject("assemble"), usual(), "traceparent", "00-"+id+"-00f067aa0ba902b7-01", "tracestate", "vendor=1")
	if got := m.Header["traceparent"]; len(got) != 1 || !strings.Contains(got[0], id) {
		t.Errorf("traceparent of the reply: %q", got)
	}
}

func pack(t *testing.T, encoding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	if encoding == "zstd" {
		w, err = zstd.NewWriter(&b)
	} else {
		w, err = gzip.NewWriterLevel(&b, gzip.BestSpeed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t *testing.T, encoding string, data []byte) []byte {
	t.Helper()
	var r io.Reader
	switch encoding {
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	default:
		g, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		r = g
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
