package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"

	"toolbridge/connectors"
)

// How much a search answers.
const (
	maxTools   = 5 // of a group
	maxRelated = 3
)

// search ranks the tools by the words that they share with a use case. A word of
// the app's name or of the slug counts twice.
func (s *Server) search(v *visit) answer {
	var q connectors.SearchRequest
	if err := json.Unmarshal(v.body, &q); err != nil {
		return problem(http.StatusBadRequest, "INVALID_REQUEST", "the body is no search: "+err.Error())
	}
	if len(q.Queries) == 0 || len(q.Queries) > connectors.MaxUseCases {
		return problem(http.StatusBadRequest, "INVALID_REQUEST", fmt.Sprintf("1 to %d queries", connectors.MaxUseCases))
	}
	reply := connectors.SearchReply{Results: []connectors.SearchGroup{}, Schemas: map[string]connectors.ToolSchema{}}
	apps := map[string]bool{}
	for i, query := range q.Queries {
		g := connectors.SearchGroup{Index: i, UseCase: query.UseCase, Tools: []string{}}
		for n, t := range s.rank(v.user, query.UseCase) {
			if n < maxTools {
				g.Tools = append(g.Tools, t.Slug)
				if !slices.Contains(g.Connectors, t.app.Connector) {
					g.Connectors = append(g.Connectors, t.app.Connector)
				}
			} else {
				g.RelatedTools = append(g.RelatedTools, t.Slug)
			}
			reply.Schemas[t.Slug] = s.schema(v.user, t)
			apps[t.app.Connector] = true
		}
		if len(g.Tools) > 0 {
			g.Guidance = "Start with " + g.Tools[0] + "."
			g.PlanSteps = encode([]string{"Check the arguments of " + g.Tools[0] + ".", "Run it once."})
			g.Pitfalls = encode([]string{"Running it twice does it twice."})
		}
		reply.Results = append(reply.Results, g)
	}
	type connection struct {
		Connector string   `json:"connector"`
		Connected bool     `json:"connected"`
		Aliases   []string `json:"aliases,omitempty"`
	}
	connections, missing := []connection{}, []string{}
	for _, a := range s.shelf.apps {
		if !apps[a.Connector] {
			continue
		}
		aliases, _ := v.user.aliases(a.Connector)
		connected := v.user.chosen(a.Connector) != nil
		connections = append(connections, connection{a.Connector, connected, aliases})
		if !connected {
			missing = append(missing, a.Connector)
		}
	}
	reply.Connections = encode(connections)
	next := []string{}
	if len(missing) > 0 {
		next = append(next, "Connect "+strings.Join(missing, ", ")+".")
	}
	reply.NextSteps = encode(next)
	return ok(reply)
}

// rank are the tools for a use case, best first; equals by slug.
func (s *Server) rank(u *user, useCase string) []*tool {
	type scored struct {
		*tool
		score int
	}
	asked := wordsOf(useCase)
	var all []scored
	for _, t := range s.shelf.tools {
		if slices.Contains(u.DisabledApps, t.app.Connector) || slices.Contains(u.DisabledTools, t.Slug) {
			continue
		}
		name := wordsOf(t.app.Connector + " " + t.Slug)
		score := 0
		for w := range asked {
			if name[w] {
				score += 2
			} else if t.words[w] {
				score++
			}
		}
		if score > 0 {
			all = append(all, scored{t, score})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].score > all[j].score })
	var out []*tool
	for _, t := range all[:min(len(all), maxTools+maxRelated)] {
		out = append(out, t.tool)
	}
	return out
}

// schema is a tool as one user sees it: with connector_alias when the user has
// several accounts of the app.
func (s *Server) schema(u *user, t *tool) connectors.ToolSchema {
	out := connectors.ToolSchema{Connector: t.app.Connector, Tool: t.Slug, Description: t.Description, InputSchema: t.InputSchema}
	aliases, count := u.aliases(t.app.Connector)
	if count < 2 || len(aliases) == 0 {
		return out
	}
	var whole, properties map[string]json.RawMessage
	if json.Unmarshal(t.InputSchema, &whole) != nil || json.Unmarshal(whole["properties"], &properties) != nil {
		return out
	}
	text := "Which of the connected accounts to use."
	if a := u.chosen(t.app.Connector); a != nil {
		text += " Without it: " + cmp.Or(a.alias(), a.Label) + "."
	}
	properties["connector_alias"] = encode(map[string]any{"type": "string", "enum": aliases, "description": text})
	whole["properties"] = encode(properties)
	out.InputSchema = encode(whole)
	return out
}

// schemas answers tools by slug.
func (s *Server) schemas(v *visit) answer {
	var q connectors.SchemasRequest
	if err := json.Unmarshal(v.body, &q); err != nil {
		return problem(http.StatusBadRequest, "INVALID_REQUEST", "the body asks for no schemas: "+err.Error())
	}
	reply := connectors.SchemasReply{Schemas: map[string]connectors.ToolSchema{}, NotFound: []string{}}
	suggestions := map[string][]string{}
	for _, slug := range q.Tools {
		t := s.shelf.slugs[slug]
		if t == nil || slices.Contains(v.user.DisabledApps, t.app.Connector) || slices.Contains(v.user.DisabledTools, slug) {
			reply.NotFound = append(reply.NotFound, slug)
			var near []string
			for _, t := range s.rank(v.user, strings.ReplaceAll(slug, "_", " ")) {
				if len(near) < maxRelated {
					near = append(near, t.Slug)
				}
			}
			if near != nil {
				suggestions[slug] = near
			}
			continue
		}
		reply.Schemas[slug] = s.schema(v.user, t)
	}
	if len(suggestions) > 0 {
		reply.Suggestions = encode(suggestions)
	}
	return ok(reply)
}
