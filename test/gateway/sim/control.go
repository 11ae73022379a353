package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"toolbridge/connectors"
)

// Paths of the control. They are hit by no fault and stand in no record.
const (
	ControlRecord   = "/_sim/record"   // GET the record, DELETE it
	ControlFaults   = "/_sim/faults"   // GET, POST more, PUT others, DELETE
	ControlUsers    = "/_sim/users"    // POST a User
	ControlAccounts = "/_sim/accounts" // GET ?user=, POST an account, PATCH …/{id} {"status"}
	ControlReset    = "/_sim/reset"    // POST: as at the start
)

// FaultState is a fault and how far it has come.
type FaultState struct {
	Fault
	Seen int `json:"seen"` // requests that fitted and were not another fault's
	Hits int `json:"hits"`
}

func (s *Server) controlRoutes(m *http.ServeMux) {
	m.HandleFunc("GET /connect/{id}", s.connect)
	m.HandleFunc("GET "+ControlRecord, func(w http.ResponseWriter, r *http.Request) {
		record := s.Record()
		query := r.URL.Query()
		if route := query.Get("route"); route != "" {
			record.Requests = record.Of(route)
		}
		if user := query.Get("user"); user != "" {
			record.Requests = slices.DeleteFunc(record.Requests, func(q Request) bool { return q.User != user })
			record.Effects = slices.DeleteFunc(record.Effects, func(e Effect) bool { return e.User != user })
		}
		ok(record).write(w)
	})
	m.HandleFunc("DELETE "+ControlRecord, s.control(func([]byte, *http.Request) (any, error) { s.ClearRecord(); return nil, nil }))
	m.HandleFunc("GET "+ControlFaults, s.control(func([]byte, *http.Request) (any, error) { return s.Faults(), nil }))
	m.HandleFunc("POST "+ControlFaults, s.control(func(body []byte, _ *http.Request) (any, error) {
		list, err := DecodeFaults(body)
		if err == nil {
			err = s.Inject(list...)
		}
		return s.Faults(), err
	}))
	m.HandleFunc("PUT "+ControlFaults, s.control(func(body []byte, _ *http.Request) (any, error) {
		list, err := DecodeFaults(body)
		if err == nil {
			s.ClearFaults()
			err = s.Inject(list...)
		}
		return s.Faults(), err
	}))
	m.HandleFunc("DELETE "+ControlFaults, s.control(func([]byte, *http.Request) (any, error) { s.ClearFaults(); return nil, nil }))
	m.HandleFunc("POST "+ControlUsers, s.control(func(body []byte, _ *http.Request) (any, error) {
		var u User
		if err := json.Unmarshal(body, &u); err != nil {
			return nil, fmt.Errorf("reading the user: %w", err)
		}
		return nil, s.AddUser(u)
	}))
	m.HandleFunc("GET "+ControlAccounts, s.control(func(_ []byte, r *http.Request) (any, error) {
		return connectors.AccountsReply{Accounts: s.Accounts(r.URL.Query().Get("user"))}, nil
	}))
	m.HandleFunc("POST "+ControlAccounts, s.control(func(body []byte, _ *http.Request) (any, error) {
		var q struct {
			User string `json:"user"`
			Connected
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, fmt.Errorf("reading the account: %w", err)
		}
		return s.AddAccount(q.User, q.Connected)
	}))
	m.HandleFunc("PATCH "+ControlAccounts+"/{id}", s.control(func(body []byte, r *http.Request) (any, error) {
		var q struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, fmt.Errorf("reading the status: %w", err)
		}
		return nil, s.SetStatus(r.PathValue("id"), q.Status)
	}))
	m.HandleFunc("POST "+ControlReset, s.control(func([]byte, *http.Request) (any, error) { return nil, s.Reset() }))
	m.HandleFunc("/_sim/", func(w http.ResponseWriter, _ *http.Request) {
		problem(http.StatusNotFound, "NOT_FOUND", "the control has no such path").write(w)
	})
}

// control serves one action: its value, or {} when it has none, or 400 and what
// was wrong.
func (s *Server) control(act func(body []byte, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var v any
		if err == nil {
			v, err = act(body, r)
		}
		switch {
		case err != nil:
			problem(http.StatusBadRequest, "INVALID_REQUEST", err.Error()).write(w)
		case v == nil:
			ok(struct{}{}).write(w)
		default:
			ok(v).write(w)
		}
	}
}

// Faults are the faults that there are, in their order, used up or not.
func (s *Server) Faults() []FaultState {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []FaultState{}
	for _, f := range s.faults {
		list = append(list, FaultState{f.Fault, f.seen, f.hits})
	}
	return list
}

// AddUser adds a user, or gives a known one another token, other switches and more
// accounts.
func (s *Server) AddUser(u User) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.addUser(u)
	return err
}

// AddAccount gives a user an account without connecting it.
func (s *Server) AddAccount(name string, c Connected) (connectors.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[name]
	if u == nil {
		return connectors.Account{}, fmt.Errorf("there is no user %q", name)
	}
	if err := s.checkAccount(c); err != nil {
		return connectors.Account{}, err
	}
	return s.addAccount(u, c).Account, nil
}

// Accounts are a user's accounts, oldest first; none when there is no such user.
func (s *Server) Accounts(name string) []connectors.Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []connectors.Account{}
	if u := s.users[name]; u != nil {
		for _, a := range u.accounts {
			list = append(list, a.Account)
		}
	}
	return list
}

// SetStatus changes the state of an account, as when its provider revokes it.
func (s *Server) SetStatus(connectionID, status string) error {
	if !slices.Contains(statuses, status) {
		return fmt.Errorf("status %q is none of %v", status, statuses)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, a := s.owner(connectionID)
	if a == nil {
		return errors.New("there is no such connection")
	}
	s.setStatus(u, a, status)
	return nil
}
