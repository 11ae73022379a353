package connectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// This file reads the bodies of answers. What stands at the top must have its
// shape, or the answer is malformed; below it, each item stands for itself, and one
// that can not be read costs no other.

const (
	maxDepth        = 1000 // levels of a result's data, or of a schema
	maxMessageChars = 600
	maxCodeChars    = 128
	maxRetryAfter   = 24 * time.Hour
)

var errShape = errors.New("the answer has not the shape that was expected")

// eachMember calls visit for every member of one JSON object; of a name that stands
// twice, the first. It reports whether raw is an object.
func eachMember(raw []byte, visit func(name string, value json.RawMessage)) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return false
	}
	seen := map[string]bool{}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		name := tok.String()
		value, err := dec.ReadValue()
		if err != nil {
			return false
		}
		if !seen[name] {
			seen[name] = true
			end := int(dec.InputOffset())
			visit(name, json.RawMessage(raw[end-len(value):end:end])) // raw's own bytes, which stay
		}
	}
	tok, err := dec.ReadToken()
	return err == nil && tok.Kind() == '}'
}

// text is a JSON string's text; "" for every other value.
func text(raw json.RawMessage) string {
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	s, err := jsontext.AppendUnquote(nil, raw)
	if err != nil && len(s) == 0 { // a lone surrogate is replaced, and named
		return ""
	}
	return strings.ToValidUTF8(string(s), "\uFFFD")
}

// texts are the strings of a JSON array; other elements are left out.
func texts(raw json.RawMessage) []string {
	var items []json.RawMessage
	if subjects.Decode(raw, &items) != nil {
		return nil
	}
	var out []string
	for _, i := range items {
		if len(i) > 0 && i[0] == '"' {
			out = append(out, text(i))
		}
	}
	return out
}

func isTrue(raw json.RawMessage) bool { return string(raw) == "true" }

// object is raw when it is a JSON object of bearable depth, else nil.
func object(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' || tooDeep(raw) {
		return nil
	}
	return raw
}

// tooDeep reports whether a valid JSON value nests deeper than maxDepth.
func tooDeep(raw []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted:
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// readSearch reads the answer of RouteSearch. A group that is none stays as an
// empty one: groups belong to queries by their place.
func readSearch(body []byte) (*SearchReply, error) {
	var top struct {
		Results     []json.RawMessage `json:"results"`
		Schemas     json.RawMessage   `json:"schemas"`
		Connections json.RawMessage   `json:"connections"`
		NextSteps   json.RawMessage   `json:"nextSteps"`
	}
	if err := subjects.Decode(body, &top); err != nil {
		return nil, err
	}
	schemas, err := readSchemaMap(top.Schemas)
	if err != nil {
		return nil, err
	}
	reply := &SearchReply{Results: make([]SearchGroup, 0, len(top.Results)), Schemas: schemas, Connections: top.Connections, NextSteps: top.NextSteps}
	for i, raw := range top.Results {
		g := SearchGroup{Index: i}
		eachMember(raw, func(name string, v json.RawMessage) {
			switch name {
			case "index":
				if n, err := strconv.Atoi(string(v)); err == nil {
					g.Index = n
				}
			case "useCase":
				g.UseCase = text(v)
			case "tools":
				g.Tools = texts(v)
			case "relatedTools":
				g.RelatedTools = texts(v)
			case "connectors":
				g.Connectors = texts(v)
			case "guidance":
				g.Guidance = text(v)
			case "planSteps":
				g.PlanSteps = v
			case "pitfalls":
				g.Pitfalls = v
			case "error":
				g.Error = v
			}
		})
		reply.Results = append(reply.Results, g)
	}
	return reply, nil
}

// readSchemas reads the answer of RouteSchemas.
func readSchemas(body []byte) (*SchemasReply, error) {
	var top struct {
		Schemas     json.RawMessage `json:"schemas"`
		NotFound    json.RawMessage `json:"notFound"`
		Suggestions json.RawMessage `json:"suggestions"`
	}
	if err := subjects.Decode(body, &top); err != nil {
		return nil, err
	}
	schemas, err := readSchemaMap(top.Schemas)
	if err != nil {
		return nil, err
	}
	return &SchemasReply{Schemas: schemas, NotFound: texts(top.NotFound), Suggestions: top.Suggestions}, nil
}

// readSchemaMap reads tools by slug; what is no tool is left out.
func readSchemaMap(raw json.RawMessage) (map[string]ToolSchema, error) {
	out := map[string]ToolSchema{}
	if !subjects.Present(raw) {
		return out, nil
	}
	if !eachMember(raw, func(slug string, v json.RawMessage) {
		s := ToolSchema{Tool: slug}
		if eachMember(v, func(name string, v json.RawMessage) {
			switch name {
			case "connector":
				s.Connector = text(v)
			case "tool":
				if t := text(v); t != "" {
					s.Tool = t
				}
			case "description":
				s.Description = text(v)
			case "inputSchema":
				s.InputSchema = object(v)
			}
		}) {
			out[slug] = s
		}
	}) {
		return nil, errShape
	}
	return out, nil
}

// readExecute reads the answer of RouteExecute into n slots, by place. What is
// missing or can not be read is Malformed.
func readExecute(body []byte, n int) ([]Result, error) {
	var top struct {
		Results []json.RawMessage `json:"results"`
	}
	if err := subjects.Decode(body, &top); err != nil {
		return nil, err
	}
	out := make([]Result, n)
	for i := range out {
		if i < len(top.Results) {
			out[i] = readResult(top.Results[i])
		} else {
			out[i].Malformed = true
		}
	}
	return out, nil
}

func readResult(raw json.RawMessage) Result {
	var slot struct {
		Data    json.RawMessage `json:"data"`
		Error   json.RawMessage `json:"error"`
		Account json.RawMessage `json:"account"`
	}
	if subjects.Decode(raw, &slot) != nil { // no object, or a member twice
		return Result{Malformed: true}
	}
	r := Result{Account: text(slot.Account)}
	switch {
	case subjects.Present(slot.Error):
		r.Err = readToolError(slot.Error)
	case len(slot.Data) > 0 && !tooDeep(slot.Data):
		r.Data = slot.Data
	default:
		return Result{Malformed: true, Account: r.Account}
	}
	return r
}

// readToolError reads a slot's error. One without a code has PROVIDER_ERROR.
func readToolError(raw json.RawMessage) *ToolError {
	e := &ToolError{}
	if !eachMember(raw, func(name string, v json.RawMessage) {
		switch name {
		case "code":
			e.Code = oneLine(text(v), maxCodeChars)
		case "message":
			e.Message = text(v)
		case "hint":
			e.Hint = text(v)
		case "connector":
			e.Connector = text(v)
		case "connectUrl":
			e.ConnectURL = text(v)
		case "connectionId":
			e.ConnectionID = text(v)
		case "retryAfterMs":
			e.RetryAfterMS = readMillis(v).Milliseconds()
		}
	}) {
		e.Message = text(raw)
	}
	if e.Code == "" {
		e.Code = string(subjects.CodeProviderError)
	}
	return e
}

// readMint reads the answer of RouteConnections.
func readMint(body []byte) (*MintReply, error) {
	var top struct {
		Results []json.RawMessage `json:"results"`
	}
	if err := subjects.Decode(body, &top); err != nil {
		return nil, err
	}
	reply := &MintReply{Results: make([]Minted, len(top.Results))}
	for i, raw := range top.Results {
		m := &reply.Results[i]
		eachMember(raw, func(name string, v json.RawMessage) {
			switch name {
			case "connector":
				m.Connector = text(v)
			case "status":
				m.Status = text(v)
			case "statusReason":
				m.StatusReason = text(v)
			case "connectUrl":
				m.ConnectURL = text(v)
			case "connectionId":
				m.ConnectionID = text(v)
			case "alias":
				m.Alias = text(v)
			}
		})
	}
	return reply, nil
}

// readPage reads a page of RouteConnectors; items without a connector are left out.
func readPage(body []byte) (items []App, next string, err error) {
	var top struct {
		Items      []json.RawMessage `json:"items"`
		NextCursor json.RawMessage   `json:"nextCursor"`
	}
	if err := subjects.Decode(body, &top); err != nil {
		return nil, "", err
	}
	for _, raw := range top.Items {
		var a App
		eachMember(raw, func(name string, v json.RawMessage) {
			switch name {
			case "connector":
				a.Connector = text(v)
			case "connected":
				a.Connected = isTrue(v)
			case "enabled":
				a.Enabled = isTrue(v)
			case "connectionStatus":
				a.ConnectionStatus = text(v)
			case "statusReason":
				a.StatusReason = text(v)
			case "disabledTools":
				a.DisabledTools = texts(v)
			}
		})
		if a.Connector != "" {
			items = append(items, a)
		}
	}
	return items, text(top.NextCursor), nil
}

// readAccount reads one account; ok is false for what has no connection id.
func readAccount(raw []byte) (a Account, ok bool) {
	eachMember(raw, func(name string, v json.RawMessage) {
		switch name {
		case "connectionId":
			a.ConnectionID = text(v)
		case "connector":
			a.Connector = text(v)
		case "status":
			a.Status = text(v)
		case "label":
			a.Label = text(v)
		case "alias":
			if alias := text(v); alias != "" {
				a.Alias = &alias
			}
		case "active":
			a.Active = isTrue(v)
		case "disabled":
			a.Disabled = isTrue(v)
		case "retired":
			a.Retired = isTrue(v)
		case "createdAt":
			a.CreatedAt = text(v)
		case "updatedAt":
			a.UpdatedAt = text(v)
		}
	})
	return a, a.ConnectionID != ""
}

// readAccounts reads the answer of RoutePortalAccounts; what is no account is left
// out.
func readAccounts(body []byte) ([]Account, error) {
	var top struct {
		Accounts []json.RawMessage `json:"accounts"`
	}
	if err := subjects.Decode(body, &top); err != nil {
		return nil, err
	}
	out := make([]Account, 0, len(top.Accounts))
	for _, raw := range top.Accounts {
		if a, ok := readAccount(raw); ok {
			out = append(out, a)
		}
	}
	return out, nil
}

// refusal is what a body of an answer that is no success says.
type refusal struct {
	code, message, requestID string
	retryAfter               time.Duration
	timed                    bool // retryAfter was named
}

// readRefusal reads such a body in its three forms: {"error":{"code","message"}},
// {"error":"code"}, and {"code","message","requestId","retryAfterMs"}. Anything else
// says nothing.
func readRefusal(body []byte) refusal {
	var r refusal
	var nested json.RawMessage
	read := func(name string, v json.RawMessage) {
		switch name {
		case "code":
			if r.code == "" {
				r.code = oneLine(text(v), maxCodeChars)
			}
		case "message":
			if r.message == "" {
				r.message = oneLine(text(v), maxMessageChars)
			}
		case "requestId":
			if r.requestID == "" {
				r.requestID = oneLine(text(v), maxCodeChars)
			}
		case "retryAfterMs":
			if d := readMillis(v); !r.timed && d >= 0 {
				r.retryAfter, r.timed = d, true
			}
		}
	}
	var outer []func()
	eachMember(body, func(name string, v json.RawMessage) {
		if name == "error" {
			nested = v
			return
		}
		outer = append(outer, func() { read(name, v) })
	})
	switch {
	case len(nested) > 0 && nested[0] == '"':
		if s := oneLine(text(nested), maxMessageChars); strings.ContainsRune(s, ' ') {
			r.message = s
		} else {
			r.code = oneLine(s, maxCodeChars)
		}
	case len(nested) > 0:
		eachMember(nested, read)
	}
	for _, f := range outer {
		f()
	}
	return r
}

// readMillis is a JSON number of milliseconds, at most maxRetryAfter; less than 0
// for what is none.
func readMillis(raw json.RawMessage) time.Duration {
	ms, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !(ms >= 0) {
		return -1
	}
	if ms >= float64(maxRetryAfter.Milliseconds()) {
		return maxRetryAfter
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// oneLine makes a text fit for a message: white space and control characters
// become one space, and it is cut to so many characters.
func oneLine(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}), " ")
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most-1]) + "…"
	}
	return s
}
