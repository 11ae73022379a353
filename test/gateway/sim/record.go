package sim

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Request is one that the simulator received.
type Request struct {
	Seq    int    `json:"seq"`             // from 1
	Route  string `json:"route"`           // name, as in Fault.Route
	Method string `json:"method"`          //
	Path   string `json:"path"`            // with the query
	User   string `json:"user,omitempty"`  // whose token it carried
	Key    string `json:"key,omitempty"`   // idempotency key
	Body   string `json:"body,omitempty"`  // its first 64 KiB
	Fault  string `json:"fault,omitempty"` // kind of the fault that hit it
	// Duplicate: a second delivery of the request before, made by a fault.
	Duplicate bool      `json:"duplicate,omitempty"`
	At        time.Time `json:"at"`
	Done      time.Time `json:"done,omitzero"` // zero while it is under way
	// Answered is the status that was sent; 0 none, or not yet.
	Answered int `json:"answered"`
	// InFlight are the requests of its route under way when it came, with itself;
	// InFlightUser those of the same user among them.
	InFlight     int `json:"in_flight"`
	InFlightUser int `json:"in_flight_user"`
}

// Effect is something that happened in an app or to an account.
type Effect struct {
	Seq     int    `json:"seq"`     // from 1
	Request int    `json:"request"` // its number; 0: not by a request of the interface
	Kind    string `json:"kind"`    // execute, mint, connect, rename, disconnect, guest
	User    string `json:"user"`
	Key     string `json:"key,omitempty"`
	// Connector, Tool, Arguments (without connector_alias) and Account (the
	// alias) say what ran; ConnectionID under which connection.
	Connector    string          `json:"connector,omitempty"`
	Tool         string          `json:"tool,omitempty"`
	Arguments    json.RawMessage `json:"arguments,omitempty"`
	Account      string          `json:"account,omitempty"`
	ConnectionID string          `json:"connection_id,omitempty"`
	At           time.Time       `json:"at"`
}

// Kinds of effects.
const (
	EffectExecute    = "execute"
	EffectMint       = "mint"
	EffectConnect    = "connect"
	EffectRename     = "rename"
	EffectDisconnect = "disconnect"
	EffectGuest      = "guest"
)

// Record is what was received and what came of it.
type Record struct {
	Requests []Request `json:"requests"`
	Effects  []Effect  `json:"effects"`
	// MaxInFlight is the most requests that were under way at once, by route, and
	// under "" of all routes.
	MaxInFlight map[string]int `json:"max_in_flight"`
	InFlight    int            `json:"in_flight"` // now
	// Dropped are the requests that no longer stand here, because there were too many.
	Dropped int `json:"dropped,omitempty"`
}

const keptBody = 64 << 10

// record is the record while it is written, under the server's lock.
type record struct {
	keep    int
	seq     int
	dropped int
	list    []*Request
	effects []Effect
	all     int
	routes  map[string]int
	users   map[[2]string]int
	most    map[string]int
}

func (r *record) reset(keep int) {
	// Requests under way go on being counted.
	if r.routes == nil {
		r.routes, r.users = map[string]int{}, map[[2]string]int{}
	}
	r.keep, r.seq, r.dropped, r.list, r.effects, r.most = keep, 0, 0, nil, nil, map[string]int{}
}

// begin notes a request.
func (r *record) begin(q Request) *Request {
	r.seq++
	q.Seq = r.seq
	if len(q.Body) > keptBody {
		q.Body = q.Body[:keptBody]
	}
	r.all++
	r.routes[q.Route]++
	r.users[[2]string{q.Route, q.User}]++
	q.InFlight, q.InFlightUser = r.routes[q.Route], r.users[[2]string{q.Route, q.User}]
	r.most[q.Route] = max(r.most[q.Route], q.InFlight)
	r.most[""] = max(r.most[""], r.all)
	if len(r.list) >= r.keep {
		half := len(r.list) / 2
		r.dropped += half
		r.list = slices.Clone(r.list[half:])
	}
	r.list = append(r.list, &q)
	return &q
}

func (r *record) end(q *Request, status int, at time.Time) {
	q.Answered, q.Done = status, at
	r.all--
	r.routes[q.Route]--
	k := [2]string{q.Route, q.User}
	if r.users[k]--; r.users[k] == 0 {
		delete(r.users, k)
	}
}

func (r *record) effect(e Effect, at time.Time) {
	e.Seq, e.At = len(r.effects)+1, at
	r.effects = append(r.effects, e)
}

// Record is a copy of all that was received so far.
func (s *Server) Record() Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Record{
		Requests: make([]Request, len(s.record.list)), Effects: slices.Clone(s.record.effects),
		MaxInFlight: maps.Clone(s.record.most), InFlight: s.record.all, Dropped: s.record.dropped,
	}
	for i, q := range s.record.list {
		out.Requests[i] = *q
	}
	if out.Effects == nil {
		out.Effects = []Effect{}
	}
	return out
}

// ClearRecord forgets what was received. Requests under way go on being counted.
func (s *Server) ClearRecord() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.reset(s.cfg.KeepRequests)
}

// Of are the requests of a route, in the order in which they came.
func (r Record) Of(route string) []Request {
	return slices.DeleteFunc(slices.Clone(r.Requests), func(q Request) bool { return q.Route != route })
}

// EffectsOf are the effects of a kind, in their order.
func (r Record) EffectsOf(kind string) []Effect {
	return slices.DeleteFunc(slices.Clone(r.Effects), func(e Effect) bool { return e.Kind != kind })
}
