package sim

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"

	"toolbridge/connectors"
)

// mint begins connections. Each request begins a new one, unless the app, or the
// account that it names, is connected already; nothing makes a second request for
// the same harmless.
func (s *Server) mint(v *visit) answer {
	var q connectors.MintRequest
	if err := json.Unmarshal(v.body, &q); err != nil {
		return problem(http.StatusBadRequest, "INVALID_REQUEST", "the body connects nothing: "+err.Error())
	}
	switch {
	case len(q.Connectors) == 0 || len(q.Connectors) > connectors.ListPage:
		return problem(http.StatusBadRequest, "INVALID_REQUEST", fmt.Sprintf("1 to %d connectors", connectors.ListPage))
	case (q.Alias != "" || q.ConnectionID != "") && len(q.Connectors) > 1:
		return problem(http.StatusBadRequest, "INVALID_REQUEST", "an alias or a connectionId goes with one connector")
	case q.Alias != "" && !aliasName.MatchString(q.Alias):
		return problem(http.StatusBadRequest, "ALIAS_INVALID", "an alias has small letters, digits and hyphens, at most 32")
	}
	reply := connectors.MintReply{}
	for _, name := range q.Connectors {
		reply.Results = append(reply.Results, s.mintOne(v, q, name))
	}
	return ok(reply)
}

func (s *Server) mintOne(v *visit, q connectors.MintRequest, name string) connectors.Minted {
	u := v.user
	m := connectors.Minted{Connector: name, Status: "failed"}
	if s.shelf.named[name] == nil {
		m.StatusReason = "there is no app " + name
		return m
	}
	for _, off := range u.DisabledApps {
		if off == name {
			m.StatusReason = name + " is switched off for you"
			return m
		}
	}
	var a *account // that the request is about
	switch {
	case q.ConnectionID != "":
		if a = u.account(q.ConnectionID); a == nil || a.Connector != name || a.Retired {
			m.StatusReason = "there is no such connection"
			return m
		}
	case q.Alias != "":
		a = u.named(name, q.Alias)
	case q.Reinitiate:
		if a = u.broken(name); a == nil {
			a = u.chosen(name)
		}
	default:
		if a = u.chosen(name); a == nil {
			a = u.broken(name)
		}
	}
	switch {
	case a != nil && a.usable() && !q.Reinitiate:
		m.Status, m.ConnectionID, m.Alias = "active", a.ConnectionID, a.alias()
		return m
	case a != nil && a.usable(): // it stays until the new one is made
		again := s.newAccount(u, name, a.alias())
		again.Label, again.Replaces = a.Label, a.ConnectionID
		a = again
	case a == nil, a.Status == StatusPending:
		a = s.newAccount(u, name, q.Alias)
	}
	a.Open, a.Status, a.ReturnTo = true, StatusPending, q.ReturnTo // until its link has been opened
	s.record.effect(Effect{
		Request: v.note.Seq, Kind: EffectMint, User: u.Name, Connector: name, Account: a.alias(), ConnectionID: a.ConnectionID,
	}, s.now())
	m.Status, m.ConnectionID, m.Alias, m.ConnectURL = "initiated", a.ConnectionID, a.alias(), s.link(v.Request, a)
	return m
}

// link is the page that connects an account.
func (s *Server) link(r *http.Request, a *account) string {
	origin := s.cfg.PublicURL
	if origin == "" {
		origin = "http://" + r.Host
	}
	return origin + "/connect/" + a.ConnectionID
}

// connect is that page. Opening it connects the account, as a user would at the
// end of it; ?outcome=failed and ?outcome=expired end it otherwise.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, a := s.owner(r.PathValue("id"))
	if a == nil || !a.Open {
		page(w, http.StatusGone, "This link is not valid, or has been used.", "")
		return
	}
	a.Open = false
	switch outcome := r.URL.Query().Get("outcome"); outcome {
	case StatusFailed, StatusExpired:
		s.setStatus(u, a, outcome)
		page(w, http.StatusOK, a.Connector+" is not connected: "+outcome+".", a.ReturnTo)
		return
	}
	if other := u.named(a.Connector, a.alias()); a.Alias != nil && other.usable() && other.ConnectionID != a.Replaces {
		s.setStatus(u, a, StatusFailed)
		page(w, http.StatusConflict, a.Connector+" is not connected: another account has the alias "+a.alias()+".", a.ReturnTo)
		return
	}
	s.setStatus(u, a, StatusActive)
	if old := u.account(a.Replaces); old != nil && a.Replaces != "" {
		a.Active = old.Active
		old.Retired, old.Active, old.Status = true, false, StatusInactive
		u.choose(a.Connector)
	}
	s.record.effect(Effect{Kind: EffectConnect, User: u.Name, Connector: a.Connector, Account: a.alias(), ConnectionID: a.ConnectionID}, s.now())
	page(w, http.StatusOK, fmt.Sprintf("%s is connected as %s.", a.Connector, a.Label), a.ReturnTo)
}

func page(w http.ResponseWriter, status int, text, returnTo string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	back := ""
	if returnTo != "" {
		back = "<p>Go back to " + html.EscapeString(returnTo) + ".</p>"
	}
	_, _ = fmt.Fprintf(w, "<!doctype html><title>Connect</title><p>%s</p>%s\n", html.EscapeString(text), back)
}

func (s *Server) owner(id string) (*user, *account) {
	for _, u := range s.users {
		if a := u.account(id); a != nil {
			return u, a
		}
	}
	return nil, nil
}

// list is a page of the apps, by name.
func (s *Server) list(v *visit) answer {
	limit, from := connectors.ListPage, 0
	query := v.URL.Query()
	for name, into := range map[string]*int{"limit": &limit, "cursor": &from} {
		if text := query.Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || name == "limit" && (n == 0 || n > 100) {
				return problem(http.StatusBadRequest, "INVALID_REQUEST", name+" is not valid")
			}
			*into = n
		}
	}
	apps := s.shelf.apps[min(from, len(s.shelf.apps)):]
	reply := connectors.ListReply{Items: []connectors.App{}}
	if len(apps) > limit {
		apps = apps[:limit]
		next := strconv.Itoa(from + limit)
		reply.NextCursor = &next
	}
	for _, a := range apps {
		reply.Items = append(reply.Items, v.user.app(a))
	}
	return ok(reply)
}

// app is an app as a user has it.
func (u *user) app(a *app) connectors.App {
	out := connectors.App{Connector: a.Connector, Enabled: true}
	for _, off := range u.DisabledApps {
		out.Enabled = out.Enabled && off != a.Connector
	}
	for _, t := range a.Tools {
		for _, off := range u.DisabledTools {
			if off == t.Slug {
				out.DisabledTools = append(out.DisabledTools, off)
			}
		}
	}
	switch use := u.chosen(a.Connector); {
	case use != nil:
		out.Connected, out.ConnectionStatus = true, StatusActive
	default:
		if b := u.broken(a.Connector); b != nil {
			out.ConnectionStatus = b.Status
			if b.Status != StatusPending {
				out.StatusReason = "the connection is " + b.Status
			}
		}
	}
	return out
}

func (s *Server) readAccount(v *visit) answer {
	a := v.user.account(v.PathValue("id"))
	if a == nil {
		return problem(http.StatusNotFound, "CONNECTION_NOT_FOUND", "there is no such connection")
	}
	return ok(a.Account)
}

// portalProblem is an error body as the portal has it.
func portalProblem(status int, code string) answer {
	return answer{status: status, body: encode(map[string]string{"error": code})}
}

func (s *Server) portalList(v *visit) answer {
	reply := connectors.AccountsReply{Accounts: []connectors.Account{}}
	for _, a := range v.user.accounts {
		reply.Accounts = append(reply.Accounts, a.Account)
	}
	return ok(reply)
}

func (s *Server) portalRename(v *visit) answer {
	var q connectors.RenameRequest
	a := v.user.account(v.PathValue("id"))
	switch {
	case json.Unmarshal(v.body, &q) != nil || !aliasName.MatchString(q.Alias):
		return portalProblem(http.StatusBadRequest, "alias_invalid")
	case a == nil:
		return portalProblem(http.StatusNotFound, "connection_not_found")
	case a.Retired:
		return portalProblem(http.StatusConflict, "connection_retired")
	}
	if other := v.user.named(a.Connector, q.Alias); other != nil && other != a {
		return portalProblem(http.StatusConflict, "alias_taken")
	}
	a.Alias, a.UpdatedAt = &q.Alias, s.now().UTC().Format("2006-01-02T15:04:05Z07:00")
	s.record.effect(Effect{
		Request: v.note.Seq, Kind: EffectRename, User: v.user.Name, Connector: a.Connector, Account: q.Alias, ConnectionID: a.ConnectionID,
	}, s.now())
	return ok(a.Account)
}

func (s *Server) portalDisconnect(v *visit) answer {
	u := v.user
	for i, a := range u.accounts {
		if a.ConnectionID != v.PathValue("id") {
			continue
		}
		u.accounts = append(u.accounts[:i:i], u.accounts[i+1:]...)
		u.choose(a.Connector)
		s.record.effect(Effect{
			Request: v.note.Seq, Kind: EffectDisconnect, User: u.Name, Connector: a.Connector, Account: a.alias(), ConnectionID: a.ConnectionID,
		}, s.now())
		return answer{status: http.StatusNoContent}
	}
	return portalProblem(http.StatusNotFound, "connection_not_found")
}
