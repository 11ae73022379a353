package catalog

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Forms of a listing.
const (
	FormFull   = "full"   // every tool with a short description
	FormNames  = "names"  // every tool's name
	FormMixed  = "mixed"  // some sources only by their count, the others with names or in full
	FormGroups = "groups" // every source only by its count
	FormNone   = "none"   // nothing fits, or there is nothing
)

// The listing's fixed wording. Its lengths decide what fits a budget.
const (
	listingHeader = "Deferred tools by source; names are exact, describe gives the parameters of each:"
	collapsedTail = " tools - names not listed; discover via tool_search)"
	// collapsedSpare is what a collapsed line counts beyond its length. With it
	// the forms are those of agents that write `tool_search` there, and a budget
	// that is tuned for them gives the same listing here.
	collapsedSpare = 2
)

// Unavailable is a source that was declared, but whose tools are hidden now.
type Unavailable struct {
	Label     string // the server's name, without "mcp-"
	ToolCount int    // 0 when it is not known
	Reason    string
}

// unavailableReasonChars bounds the reason of an unavailable source in a line.
const unavailableReasonChars = 120

// group is the tools of one source in the listing.
type group struct {
	label string
	tools []entry

	fullLines, nameLines string // rendered without a line break at the end
	fullChars, nameChars int
	summary              string
	summaryChars         int
	show                 int
}

// How a group is shown.
const (
	showNames = iota
	showFull
	showSummary
)

type entry struct{ name, description string }

// Listing is a text about the deferred tools that fits into a budget of tokens
// (a quarter of its characters, rounded up), and its form.
//
// Groups stand in the order of their labels. When not all fit in full, all are
// listed by name; when that does not fit either, groups shrink to one line with
// their count, the one whose names take most first; groups that are kept then
// return to their full form as far as the budget allows, the shortest first.
// Whatever is left out is counted: no list ends silently.
func Listing(deferred []*Definition, unavailable []Unavailable, budget int) (text, form string) {
	groups := groupByLabel(deferred)
	rows := unavailableRows(groups, unavailable)
	if len(groups) == 0 && len(rows) == 0 {
		return "", FormNone
	}
	fixed := utf8.RuneCountInString(listingHeader)
	for _, r := range rows {
		fixed += 1 + utf8.RuneCountInString(r)
	}
	form = chooseForm(groups, fixed, budget)
	if form == FormNone {
		return "", FormNone
	}
	lines := make([]string, 0, 1+len(groups)+len(rows))
	lines = append(lines, listingHeader)
	for i := range groups {
		switch g := &groups[i]; g.show {
		case showFull:
			lines = append(lines, g.fullLines)
		case showNames:
			lines = append(lines, g.nameLines)
		default:
			lines = append(lines, g.summary)
		}
	}
	return strings.Join(append(lines, rows...), "\n"), form
}

// chooseForm decides how each group is shown and names the form.
func chooseForm(groups []group, fixed, budget int) string {
	full, names := fixed, fixed
	for i := range groups {
		full += 1 + groups[i].fullChars
		names += 1 + groups[i].nameChars
	}
	if tokens(full) <= budget {
		for i := range groups {
			groups[i].show = showFull
		}
		return FormFull
	}
	if tokens(names) <= budget {
		return FormNames
	}
	order := make([]*group, len(groups))
	for i := range groups {
		order[i] = &groups[i]
	}
	slices.SortStableFunc(order, func(a, b *group) int { return b.nameChars - a.nameChars })
	chars := names
	for i, g := range order {
		g.show = showSummary
		chars += g.summaryChars - g.nameChars
		if tokens(chars) > budget {
			continue
		}
		kept := order[i+1:]
		if len(kept) == 0 {
			return FormGroups
		}
		slices.SortStableFunc(kept, func(a, b *group) int { return a.fullChars - b.fullChars })
		for _, k := range kept {
			if grown := chars + k.fullChars - k.nameChars; tokens(grown) <= budget {
				k.show, chars = showFull, grown
			}
		}
		return FormMixed
	}
	return FormNone
}

// groupByLabel sorts the deferred tools into groups and renders their forms.
func groupByLabel(deferred []*Definition) []group {
	byLabel := map[string]int{}
	var groups []group
	for _, d := range deferred {
		l := listingLabel(d.Label())
		i, ok := byLabel[l]
		if !ok {
			i = len(groups)
			byLabel[l] = i
			groups = append(groups, group{label: l})
		}
		groups[i].tools = append(groups[i].tools, entry{listingName(d.Name), ShortDescription(d.Description, ShortDescriptionChars)})
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.label, b.label) })
	for i := range groups {
		groups[i].render()
	}
	return groups
}

func (g *group) render() {
	slices.SortStableFunc(g.tools, func(a, b entry) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.description, b.description)
	})
	count := strconv.Itoa(len(g.tools))
	heading := g.label + " tools (" + count + "):"
	size := len(heading)
	for _, t := range g.tools {
		size += len(t.name) + len(t.description) + 5
	}
	var full, names strings.Builder
	full.Grow(size)
	names.Grow(size)
	full.WriteString(heading)
	names.WriteString(heading)
	for i, t := range g.tools {
		full.WriteString("\n- ")
		full.WriteString(t.name)
		if t.description != "" {
			full.WriteString(": ")
			full.WriteString(t.description)
		}
		if i == 0 {
			names.WriteByte('\n')
		} else {
			names.WriteString(", ")
		}
		names.WriteString(t.name)
	}
	g.fullLines, g.nameLines = full.String(), names.String()
	g.summary = g.label + " (" + count + collapsedTail
	g.fullChars = utf8.RuneCountInString(g.fullLines)
	g.nameChars = utf8.RuneCountInString(g.nameLines)
	g.summaryChars = utf8.RuneCountInString(g.summary) + collapsedSpare
}

// listingName is a name as the listing shows it: without spaces, so that it can
// neither be taken for two names nor begin a line like a heading. A name so
// changed still finds its tool, since "_" and space count alike there.
func listingName(name string) string {
	if !strings.Contains(name, " ") {
		return name
	}
	return strings.ReplaceAll(name, " ", "_")
}

// listingLabel is a label as the listing shows it. Spaces go where the label
// would read like a heading or a summary line of its own.
func listingLabel(label string) string {
	if strings.Contains(label, " tools") || strings.ContainsAny(label, "(:,") || strings.HasPrefix(label, "- ") {
		return strings.ReplaceAll(label, " ", "_")
	}
	return label
}

// unavailableRows are the lines of the sources that are declared, but hidden
// now: those that have no group of their own, in the order of their labels.
func unavailableRows(groups []group, unavailable []Unavailable) []string {
	var rows []string
	for _, u := range sortedUnavailable(unavailable) {
		l := listingLabel(u.Label)
		if slices.ContainsFunc(groups, func(g group) bool { return g.label == l }) {
			continue
		}
		row := l + " ("
		if u.ToolCount > 0 {
			row += strconv.Itoa(u.ToolCount) + " tools, "
		}
		rows = append(rows, row+"not available now: "+u.Reason+")")
	}
	return rows
}

// sortedUnavailable cleans the labels and reasons and sorts by label; of rows
// with one label the first stays.
func sortedUnavailable(unavailable []Unavailable) []Unavailable {
	out := make([]Unavailable, 0, len(unavailable))
	for _, u := range unavailable {
		u.Label, u.Reason = sourceLabel(u.Label), oneLine(u.Reason, unavailableReasonChars)
		if u.Reason == "" {
			u.Reason = "the server does not answer"
		}
		if !slices.ContainsFunc(out, func(o Unavailable) bool { return o.Label == u.Label }) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b Unavailable) int { return strings.Compare(a.Label, b.Label) })
	return out
}
