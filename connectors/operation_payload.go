package connectors

import (
	"encoding/json"
	"fmt"
	"strings"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// payload is what the model gets of an operation.
type payload struct {
	OpID       string          `json:"op_id"`
	Seq        uint64          `json:"seq"`
	Status     string          `json:"status"` // initiated, settled
	SettledBy  *string         `json:"settled_by"`
	SettledAt  *string         `json:"settled_at"`
	DeadlineAt *string         `json:"deadline_at"`
	Targets    []payloadTarget `json:"targets"`
	Note       string          `json:"note"`
}

type payloadTarget struct {
	Name       string                    `json:"name"`
	State      subjects.ConnectionStatus `json:"state"`
	Alias      string                    `json:"alias,omitempty"`
	MCP        bool                      `json:"mcp,omitempty"`
	ConnectURL string                    `json:"connect_url,omitempty"`
	Detail     string                    `json:"detail,omitempty"`
	Tools      []string                  `json:"tools,omitempty"`
	Listing    string                    `json:"listing,omitempty"`
}

// listingTokens bounds the listing of a server's tools in a result.
const listingTokens = 1500

// payload is the result of an operation that is settled, or that had no card.
func (o *operation) payload() (json.RawMessage, error) {
	p := payload{OpID: o.ID, Seq: o.Seq, Status: "settled", Targets: make([]payloadTarget, len(o.Targets))}
	for i := range o.Targets {
		t := &o.Targets[i]
		p.Targets[i] = payloadTarget{Name: t.Name, State: t.State, Alias: t.Alias, MCP: t.MCP, Detail: t.Detail}
		if !o.Card {
			p.Targets[i].ConnectURL = t.URL
		}
		if t.MCP && t.State == subjects.ConnectionConnected {
			p.Targets[i].Tools, p.Targets[i].Listing = listing(t)
		}
		if t.State == subjects.ConnectionInitiated || t.State == subjects.ConnectionPending {
			p.Status = "initiated"
		}
	}
	p.SettledBy, p.DeadlineAt = optional(o.By), optional(o.Deadline)
	if p.Status == "settled" {
		p.SettledAt = optional(o.Settled)
	}
	p.Note = o.note()
	return subjects.Encode(p)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// listing is a connected server's tools, by name and as a short text.
func listing(t *target) (names []string, text string) {
	defs := make([]*catalog.Definition, len(t.Tools))
	for i, tool := range t.Tools {
		names = append(names, tool.Name)
		defs[i] = &catalog.Definition{Name: tool.Name, Description: tool.Description, Toolset: "mcp-" + t.Name}
	}
	text, _ = catalog.Listing(defs, nil, listingTokens)
	return names, text
}

// note says in words what the states mean for the model.
func (o *operation) note() string {
	names := map[subjects.ConnectionStatus][]string{}
	for i := range o.Targets {
		names[o.Targets[i].State] = append(names[o.Targets[i].State], o.Targets[i].Name)
	}
	var parts []string
	say := func(s subjects.ConnectionStatus, format string) {
		if list := names[s]; len(list) > 0 {
			parts = append(parts, fmt.Sprintf(format, strings.Join(list, ", ")))
		}
	}
	say(subjects.ConnectionConnected, "Connected: %s.")
	say(subjects.ConnectionInitiated, "Waiting for the user: %s. Give the user each connect_url; it is opened in a browser. Do not start it again; when the user says that it is done, check with action status.")
	say(subjects.ConnectionPending, "Not started: %s. The gateway said nothing about it; check status before starting it again.")
	say(subjects.ConnectionFailed, "Failed: %s. See detail.")
	say(subjects.ConnectionSkipped, "The user skipped: %s. Go on without, and do not ask again unless the user does.")
	switch o.By {
	case settledDeadline:
		say(subjects.ConnectionNotConnected, "Not connected when the time was up: %s. Go on without, and ask the user before you start it again.")
	case settledInterrupt:
		say(subjects.ConnectionNotConnected, "Interrupted before it was connected: %s.")
	default:
		say(subjects.ConnectionNotConnected, "The user went on without connecting: %s. Do not ask again unless the user does.")
	}
	if slicesHasMCP(o.Targets) && len(names[subjects.ConnectionConnected]) > 0 {
		parts = append(parts, "The tools of a server belong to the session from its next assembly on.")
	}
	return strings.Join(parts, " ")
}

func slicesHasMCP(list []target) bool {
	for i := range list {
		if list[i].MCP {
			return true
		}
	}
	return false
}
