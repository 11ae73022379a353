package check

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the collector packs what it sends
)

// sink is where the collector sends traces: it keeps which services took part in
// each.
type sink struct {
	collectortrace.UnimplementedTraceServiceServer
	address string

	mu     sync.Mutex
	spans  int
	traces map[string]map[string]int // trace id, service, spans
}

func newSink(t *testing.T) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{address: l.Addr().String(), traces: map[string]map[string]int{}}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return s
}

// Export takes spans.
func (s *sink) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				id := hex.EncodeToString(span.GetTraceId())
				if s.traces[id] == nil {
					s.traces[id] = map[string]int{}
				}
				s.traces[id][service]++
				s.spans++
			}
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

// check wants the trace that the load began, with both services in it.
func (s *sink) check(t *testing.T) {
	t.Helper()
	var services map[string]int
	for range 100 {
		s.mu.Lock()
		services = map[string]int{}
		for name, n := range s.traces[traceID] {
			services[name] = n
		}
		s.mu.Unlock()
		if services["toolbridge-worker"] > 0 && services["toolbridge-mcp-host"] > 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Errorf("the trace %s has spans of %v; %d spans of %d traces came in all", traceID, services, s.spans, len(s.traces))
}
