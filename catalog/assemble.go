package catalog

// Input is what one assembly, and the Catalog of the same content, is made from:
// the definitions that the session may see, narrowed by the caller and without
// duplicates, and the settings.
type Input struct {
	Definitions   []Definition
	Config        Config
	ContextLength int64 // tokens; 0 or less: unknown
	// Dialect of the bridges, and of the registry's definitions that are shown.
	// "": that of the session's first definition, else OpenAI.
	Dialect Dialect
	// Connectors says that connectors are available to this session. Without
	// them manage_connections is left out.
	Connectors bool
	// ConnectOnly says that the session reaches what is connected, but connects
	// nothing itself, as a side agent: its manage_connections is not shown.
	ConnectOnly bool
	// Unavailable are the sources that were asked for, but whose tools are hidden
	// now; the listing and empty search results name them.
	Unavailable []Unavailable
}

// Tiers of an assembly.
const (
	TierInactive = 0 // every tool is shown, no bridges
	TierListed   = 1 // tool_search carries names of deferred tools
	TierSearch   = 2 // deferred tools are found by searching only
)

// Assembly is what the session's model gets.
type Assembly struct {
	Activated   bool
	Tier        int
	ListingForm string // full, names, mixed, groups, none

	DeferredCount       int
	DeferredTokens      int // estimate: a quarter of the characters of compact JSON
	ListingTokens       int
	ListingBudgetTokens int
	// ThresholdTokens is the listing's budget; where deferral is off, the share of
	// the context without the upper bound; 0 when nothing is deferrable.
	ThresholdTokens int

	// Tools are the visible definitions in the order of the input, each as it came
	// save Toolbridge's own fields, then tool_search, tool_describe and tool_call
	// where the bridges are active.
	Tools    [][]byte
	Listing  string
	Warnings []Warning
}

// Assemble replaces a session's deferrable tools by the bridge tools. Equal input
// gives equal bytes.
//
// With nothing to defer the tools stay as they are, unless connectors are granted
// or a source is unavailable: then the bridges are added, so that the model can
// reach the ones and knows of the others. With deferral off nothing changes, and
// only the counts are reported.
func Assemble(in Input) Assembly {
	in.Config = in.Config.effective()
	to := in.dialect()
	visible, deferred, granted, warnings := in.split()
	a := Assembly{ListingForm: FormNone, DeferredCount: len(deferred), Warnings: warnings}
	chars := 0
	for _, d := range deferred {
		chars += d.charsIn(to)
	}
	a.DeferredTokens = tokens(chars)
	budget := in.Config.ListingBudget(in.ContextLength)
	a.ListingBudgetTokens = budget

	switch {
	case in.Config.Enabled == Off:
		if len(deferred) > 0 {
			a.ThresholdTokens = in.Config.contextShare(in.ContextLength)
		}
		a.Tools = make([][]byte, 0, len(in.Definitions))
		for i := range in.Definitions {
			if d := &in.Definitions[i]; !IsBridge(d.Name) && (d.Name != ManageConnections || in.Connectors && !in.ConnectOnly) {
				a.Tools = append(a.Tools, d.shownIn(to))
			}
		}
		return a
	case len(deferred) == 0 && !granted && len(in.Unavailable) == 0:
		a.Tools = appendShown(make([][]byte, 0, len(visible)), visible, to)
		return a
	}

	a.Activated, a.Tier = true, TierSearch
	if len(deferred) > 0 {
		a.ThresholdTokens = budget
	}
	if in.Config.Listing != Off {
		a.Listing, a.ListingForm = Listing(deferred, in.Unavailable, budget)
		a.ListingTokens = textTokens(a.Listing)
	}
	switch a.ListingForm {
	case FormFull, FormNames, FormMixed:
		a.Tier = TierListed
	}
	a.Tools = appendShown(make([][]byte, 0, len(visible)+3), visible, to)
	for _, b := range bridges(to, searchText(len(deferred), in.connectionText(granted), a.ListingForm, a.Listing)) {
		a.Tools = append(a.Tools, b)
	}
	return a
}

// dialect is what the bridges are written in.
func (in Input) dialect() Dialect {
	if in.Dialect.Valid() {
		return in.Dialect
	}
	for i := range in.Definitions {
		if d := &in.Definitions[i]; !d.Registry && d.Dialect.Valid() {
			return d.Dialect
		}
	}
	return OpenAI
}

// shownIn is a visible definition as the model gets it: the session's own as it
// came, the registry's in the session's dialect.
func (d *Definition) shownIn(to Dialect) []byte {
	if d.Registry {
		return d.Render(to)
	}
	return d.Visible()
}

// charsIn is the length of shownIn as compact JSON.
func (d *Definition) charsIn(to Dialect) int {
	if d.chars > 0 && (!d.Registry || to == d.Dialect) {
		return d.chars
	}
	n, _ := measure(d.shownIn(to))
	return n
}

func appendShown(out [][]byte, visible []*Definition, to Dialect) [][]byte {
	for _, d := range visible {
		out = append(out, d.shownIn(to))
	}
	return out
}
