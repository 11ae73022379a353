package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"toolbridge/connectors"
)

// Codes of a result's error.
const (
	codeNotFound   = "TOOL_NOT_FOUND"
	codeNotAllowed = "TOOL_NOT_ALLOWED"
	codeConnection = "CONNECTION_REQUIRED"
	codeProvider   = "PROVIDER_ERROR"
)

// stored is what an idempotency key has led to.
type stored struct {
	body   []byte // of the request
	answer answer
}

// execute runs tools, one after the other. A key that was used before gets the
// answer that it got; a key with another body is refused.
func (s *Server) execute(v *visit) answer {
	if v.key == "" {
		return problem(http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED", "header "+connectors.HeaderIdempotencyKey+" is missing")
	}
	if before := v.user.keys[v.key]; before != nil {
		if !bytes.Equal(before.body, v.body) {
			return problem(http.StatusConflict, "IDEMPOTENCY_CONFLICT", "the key was used with another body")
		}
		return before.answer
	}
	var q connectors.ExecuteRequest
	if err := json.Unmarshal(v.body, &q); err != nil {
		return problem(http.StatusBadRequest, "INVALID_REQUEST", "the body runs no tools: "+err.Error())
	}
	if len(q.Tools) == 0 || len(q.Tools) > connectors.MaxExecute {
		return problem(http.StatusBadRequest, "INVALID_REQUEST", fmt.Sprintf("1 to %d tools", connectors.MaxExecute))
	}
	reply := connectors.ExecuteReply{}
	for i, c := range q.Tools {
		r := s.runTool(v, c, q.ReturnTo)
		r.Index, r.Connector, r.Tool = i, c.Connector, c.Tool
		reply.Results = append(reply.Results, r)
	}
	a := ok(reply)
	v.user.keys[v.key] = &stored{body: v.body, answer: a}
	return a
}

func failed(code, message, hint string) connectors.ToolResult {
	return connectors.ToolResult{Error: &connectors.ToolError{Code: code, Message: message, Hint: hint}}
}

// runTool runs one tool.
func (s *Server) runTool(v *visit, c connectors.ToolCall, returnTo string) connectors.ToolResult {
	u := v.user
	t := s.shelf.find(c.Connector, c.Tool)
	if t == nil {
		return failed(codeNotFound, fmt.Sprintf("%s has no tool %s", c.Connector, c.Tool), "Search for it.")
	}
	if slices.Contains(u.DisabledApps, c.Connector) || slices.Contains(u.DisabledTools, c.Tool) {
		return failed(codeNotAllowed, c.Tool+" is switched off for you", "")
	}
	arguments := map[string]json.RawMessage{}
	if len(c.Arguments) > 0 {
		if err := json.Unmarshal(c.Arguments, &arguments); err != nil || arguments == nil {
			return failed(codeProvider, "the arguments are no object", "")
		}
	}
	a, wrong := s.accountFor(v, c.Connector, arguments["connector_alias"], returnTo)
	if wrong != nil {
		return *wrong
	}
	delete(arguments, "connector_alias")
	bare := encode(arguments)
	if err := t.check(bare); err != nil {
		r := failed(codeProvider, "the arguments do not fit: "+err.Error(), "Describe the tool to see its parameters.")
		r.Account = a.alias()
		return r
	}
	s.record.effect(Effect{
		Request: v.note.Seq, Kind: EffectExecute, User: u.Name, Key: v.key, Connector: c.Connector, Tool: c.Tool,
		Arguments: bare, Account: a.alias(), ConnectionID: a.ConnectionID,
	}, s.now())
	return connectors.ToolResult{Data: t.answer(u.id(strings.ToLower(c.Connector)), arguments), Account: a.alias()}
}

// accountFor is the account that a tool runs under: the one that its alias names,
// else the app's active one, never another.
func (s *Server) accountFor(v *visit, connector string, raw json.RawMessage, returnTo string) (*account, *connectors.ToolResult) {
	u := v.user
	var alias string
	named := len(raw) > 0 && string(raw) != "null"
	a := u.chosen(connector)
	if named {
		if json.Unmarshal(raw, &alias) != nil || alias == "" {
			r := failed(codeProvider, "connector_alias is no text", "")
			return nil, &r
		}
		if a = u.named(connector, alias); a == nil && (u.chosen(connector) != nil || u.broken(connector) != nil) {
			aliases, _ := u.aliases(connector)
			r := failed(codeProvider, fmt.Sprintf("%s has no account %q", connector, alias), "Accounts: "+strings.Join(aliases, ", "))
			return nil, &r
		}
	}
	if a != nil && a.usable() {
		return a, nil
	}
	if a == nil && !named {
		a = u.broken(connector)
	}
	if a == nil {
		a = s.newAccount(u, connector, alias)
	}
	a.Open, a.ReturnTo = true, returnTo
	r := failed(codeConnection, connector+" is not connected", "Open the link to connect it, then try again.")
	r.Error.Connector, r.Error.ConnectURL, r.Error.ConnectionID = connector, s.link(v.Request, a), a.ConnectionID
	r.Account = a.alias()
	return nil, &r
}

// unknownCodes answers each tool of a request with an error of one code.
func unknownCodes(v *visit, code string) answer {
	var q connectors.ExecuteRequest
	_ = json.Unmarshal(v.body, &q)
	reply := connectors.ExecuteReply{Results: []connectors.ToolResult{}}
	for i, c := range q.Tools {
		r := failed(code, "a code that no page lists", "")
		r.Index, r.Connector, r.Tool = i, c.Connector, c.Tool
		reply.Results = append(reply.Results, r)
	}
	return ok(reply)
}
