//go:build unix

package bench

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// deployment is a server process and a service process.
type deployment struct{ url string }

func deploy(b testing.TB) *deployment {
	b.Helper()
	url, _ := start(b, "server")
	start(b, "service", urlVariable+"="+url)
	return &deployment{url}
}

func (d *deployment) connect(b testing.TB) *nats.Conn {
	b.Helper()
	nc, err := nats.Connect(d.url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	return nc
}

func ask(b testing.TB, nc *nats.Conn, subject string, body []byte) []byte {
	b.Helper()
	m, err := nc.Request(subject, body, 60*time.Second)
	if err != nil {
		b.Fatalf("%s: %v", subject, err)
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		b.Fatalf("%s: %s", subject, m.Data)
	}
	return m.Data
}

// assemble returns the reference of the catalog of a session's tools.
func assemble(b testing.TB, nc *nats.Conn, session, tools string) string {
	b.Helper()
	var reply struct{ Catalog string }
	if err := json.Unmarshal(ask(b, nc, "toolbridge.v1.bench."+session+".assemble", []byte(`{"tools":`+tools+`}`)), &reply); err != nil {
		b.Fatal(err)
	}
	return reply.Catalog
}

// exchange is one request and where it is sent, for the service and for the echo of
// the same sizes.
type exchange struct {
	subject, echo string
	body          []byte
}

// exchanges prepares searches by catalog reference, and stores their replies with
// the echo.
func exchanges(b testing.TB, nc *nats.Conn, tools int) []exchange {
	b.Helper()
	ref := assemble(b, nc, "s1", generated(tools, ""))
	var list []exchange
	for i, q := range queries() {
		e := exchange{
			subject: "toolbridge.v1.bench.s1.bridge", echo: fmt.Sprintf("bench.echo.%d", i),
			body: fmt.Appendf(nil, `{"id":"c%d","name":"tool_search","arguments":{"queries":[%q]},"catalog":%q}`, i, q, ref),
		}
		reply := ask(b, nc, e.subject, e.body)
		if i == 0 {
			b.Logf("request %d bytes, reply %d bytes: %.120s…", len(e.body), len(reply), reply)
		}
		ask(b, nc, fmt.Sprintf("bench.set.%d", i), reply)
		list = append(list, e)
	}
	return list
}

// round sends every exchange `times` times from each connection and adds the round
// trips to f.
func round(b *testing.B, f *figures, conns []*nats.Conn, list []exchange, times int, echo bool) {
	service, all := spent(b, conns[0])
	begin := time.Now()
	var wg sync.WaitGroup
	for c, nc := range conns {
		wg.Go(func() {
			trips := make([]time.Duration, 0, times*len(list))
			for i := range times * len(list) {
				e := &list[(i+c)%len(list)]
				subject := e.subject
				if echo {
					subject = e.echo
				}
				sent := time.Now()
				m, err := nc.Request(subject, e.body, 60*time.Second)
				if err != nil || m.Header.Get("Nats-Service-Error-Code") != "" {
					b.Errorf("%s: %v", subject, err)
					return
				}
				trips = append(trips, time.Since(sent))
			}
			f.add(trips)
		})
	}
	wg.Wait()
	f.wall += time.Since(begin)
	service2, all2 := spent(b, conns[0])
	f.service, f.all = f.service+service2-service, f.all+all2-all
}

// beside measures searches and echoes in alternating rounds.
func beside(b *testing.B, clients, tools, times int) (search, echo *figures) {
	d := deploy(b)
	list := exchanges(b, d.connect(b), tools)
	conns := make([]*nats.Conn, clients)
	for i := range conns {
		conns[i] = d.connect(b)
	}
	search, echo = &figures{}, &figures{}
	round(b, &figures{}, conns, list, times, true)
	round(b, &figures{}, conns, list, times, false)
	for i := 0; b.Loop(); i++ {
		first, second := search, echo
		if i%2 == 1 {
			first, second = echo, search
		}
		round(b, first, conns, list, times, first == echo)
		round(b, second, conns, list, times, second == echo)
	}
	search.report(b, "search")
	echo.report(b, "echo")
	b.ReportMetric(float64(echo.cost())/float64(search.cost()), "cpu-ratio")
	b.ReportMetric(0, "ns/op") // of a round: says nothing
	return search, echo
}

// BenchmarkSearchOneClient: the p50 of a tool_search by catalog reference is to be
// at most 1.25 times that of a bare micro echo of the same sizes.
func BenchmarkSearchOneClient(b *testing.B) {
	search, echo := beside(b, 1, 500, 20)
	b.ReportMetric(float64(search.at(0.5))/float64(echo.at(0.5)), "p50-ratio")
}

// BenchmarkSearch64Clients: the rate with 64 clients, each on a connection of its
// own, is to be at least 0.7 times that of the echo.
func BenchmarkSearch64Clients(b *testing.B) {
	search, echo := beside(b, 64, 500, 4)
	b.ReportMetric(search.rate()/echo.rate(), "rate-ratio")
}
