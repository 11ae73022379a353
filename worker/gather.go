package worker

import (
	"context"
	"fmt"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// gathering collects the definitions of one assembly: the session's own first,
// then the registry's, each name once.
type gathering struct {
	keep        func(*catalog.Definition) bool
	names       map[string]bool
	defs        []catalog.Definition
	runs        []run
	unavailable []catalog.Unavailable
	hidden      []string // the toolsets behind unavailable
	warnings    []subjects.Warning

	connectors bool   // are available to this session
	asked      bool   // manage_connections is among defs
	surface    string // of the session
}

// add takes the definitions of one source that are wanted, in scope and new.
// Duplicates of definitions out of scope are no duplicates: nothing tells that
// they exist.
func (g *gathering) add(defs []catalog.Definition, r run) {
	r.Count = 0
	for i := range defs {
		d := &defs[i]
		if !g.keep(d) {
			continue
		}
		if d.Name == catalog.ManageConnections {
			if d = g.manage(d); d == nil {
				continue
			}
		}
		if g.names[d.Name] {
			g.warn(subjects.WarnNameDuplicate, d.Name, "left out: another source defines this name, and the first definition stands")
			continue
		}
		g.names[d.Name] = true
		g.defs = append(g.defs, *d)
		r.Count++
	}
	if r.Count > 0 {
		g.runs = append(g.runs, r)
	}
}

func (g *gathering) warn(code subjects.WarningCode, tool, message string) {
	g.warnings = append(g.warnings, subjects.Warning{Code: code, Tool: tool, Message: message})
}

// fromRegistry adds the toolsets that a request names and returns the highest
// revision at which one of those used last changed. What does not exist and what
// the session may not see give the same warning.
func (w *Worker) fromRegistry(ctx context.Context, tenant string, r *subjects.AssembleRequest, s *scope, g *gathering) (uint64, error) {
	if len(r.Toolsets) == 0 {
		return 0, nil
	}
	found, missing := w.registry.matching(tenant, r.Toolsets)
	revision := uint64(0)
	for _, t := range found {
		if !toolsetWanted(r, t.Name) {
			continue
		}
		seen, err := w.addToolset(ctx, t, s, g)
		if err != nil {
			return 0, err
		}
		if seen {
			revision = max(revision, t.Revision)
			continue
		}
		if named(r.Toolsets, t.Name) {
			missing = append(missing, t.Name)
		}
	}
	for _, name := range missing {
		if toolsetWanted(r, name) {
			g.warn(subjects.WarnToolsetUnavailable, name, "left out: no live executor offers this toolset to this session")
		}
	}
	return revision, nil
}

func named(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// addToolset adds one live toolset; seen is false when nothing of it is in the
// session's scope.
func (w *Worker) addToolset(ctx context.Context, t toolset, s *scope, g *gathering) (seen bool, err error) {
	if t.State != subjects.StateReady {
		if !s.allows(&catalog.Definition{Name: "", Toolset: t.Name, Registry: true}) {
			return false, nil
		}
		reason := t.Reason
		if reason == "" {
			reason = t.State
		}
		g.hidden = append(g.hidden, t.Name)
		g.unavailable = append(g.unavailable, catalog.Unavailable{Label: label(t.Name), ToolCount: t.ToolCount, Reason: reason})
		return true, nil
	}
	set, err := w.registry.load(ctx, t)
	if err != nil {
		if !lost(err) {
			return false, unavailable(fmt.Sprintf("reading the definitions of toolset %q", t.Name), err)
		}
		w.log.Error("the definitions of a toolset can not be read", "toolset", t.Name, "error", err)
		if s.allows(&catalog.Definition{Toolset: t.Name, Registry: true}) {
			g.warn(subjects.WarnToolsetUnavailable, t.Name, "left out: its definitions can not be read; its executor must register again")
			return true, nil
		}
		return false, nil
	}
	before := len(g.defs)
	g.add(set.definitions, run{Toolset: t.Name, SHA256: t.SHA256, Trusted: t.Trusted})
	if len(g.defs) == before {
		return false, nil
	}
	for _, warning := range set.warnings {
		if s.allows(&catalog.Definition{Name: warning.Tool, Toolset: t.Name, Registry: true}) {
			g.warnings = append(g.warnings, warning)
		}
	}
	if t.Rivals > 0 {
		g.warn(subjects.WarnExecutorsDisagree, t.Name, fmt.Sprintf("%d live executors offer other definitions; the oldest stand", t.Rivals))
	}
	return true, nil
}

// label is how a toolset is named to a model.
func label(toolset string) string {
	if len(toolset) > 4 && toolset[:4] == "mcp-" {
		return toolset[4:]
	}
	return toolset
}
