package catalog

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/catalog/index"
	"toolbridge/subjects"
)

// maxQueryChars bounds one query.
const maxQueryChars = 4000

// searchUsage is the valid shape of tool_search's arguments.
const searchUsage = `{"queries": ["what you want to do"]} with 1 to 7 queries`

// SearchArguments are the arguments of tool_search, within their bounds.
type SearchArguments struct {
	Queries []string // 1 to MaxQueries, trimmed, none blank
	Limit   int      // 1 to Config.MaxSearchLimit
}

// ParseSearchArguments reads what a model sent: an object with "queries", a list
// or one string, and "limit"; or a string that holds such an object. Blank
// queries are dropped and repeats stay. A limit that can not be read is the
// default, others are cut to a whole number and clamped. The refusal's code is
// INVALID_ARGUMENTS.
func ParseSearchArguments(args []byte, c Config) (SearchArguments, *subjects.SlotError) {
	c = c.effective()
	a := SearchArguments{Limit: c.SearchDefaultLimit}
	if queries, limit, ok := plainSearch(args); ok {
		if limit >= 0 {
			a.Limit = min(max(limit, 1), c.MaxSearchLimit)
		}
		a.Queries = queries[:0]
		for i, q := range queries {
			if refusal := a.add(i, trim(q)); refusal != nil {
				return a, refusal
			}
		}
		return a, a.check()
	}
	return a.read(args, c)
}

// read reads arguments of any shape.
func (a SearchArguments) read(args []byte, c Config) (SearchArguments, *subjects.SlotError) {
	list, refusal := modelArguments(args, searchUsage)
	if refusal != nil {
		return a, refusal
	}
	var queries jsontext.Value
	for _, m := range list {
		switch m.name {
		case "queries":
			queries = m.value
		case "limit":
			if n, ok := wholeNumber(m.value); ok {
				a.Limit = min(max(n, 1), c.MaxSearchLimit)
			}
		}
	}
	var items []jsontext.Value
	switch queries.Kind() {
	case '[':
		items = elements(queries)
	case '"':
		items = []jsontext.Value{queries}
	default:
		return a, refused("%s needs \"queries\": a list of texts; send %s", ToolSearch, searchUsage)
	}
	for i, item := range items {
		q, ok := textOf(item)
		if !ok {
			return a, refused("queries[%d] is not a text; send %s", i, searchUsage)
		}
		if refusal := a.add(i, q); refusal != nil {
			return a, refusal
		}
	}
	return a, a.check()
}

// add adds the i-th query that was sent.
func (a *SearchArguments) add(i int, query string) *subjects.SlotError {
	if longer(query, maxQueryChars) {
		return refused("queries[%d] has more than %d characters; say in a few words what you want to do", i, maxQueryChars)
	}
	if query != "" {
		a.Queries = append(a.Queries, query)
	}
	return nil
}

// check refuses a wrong number of queries.
func (a *SearchArguments) check() *subjects.SlotError {
	switch n := len(a.Queries); {
	case n == 0:
		return refused("\"queries\" holds no query that is not blank; send %s", searchUsage)
	case n > MaxQueries:
		return refused("%d queries were sent, at most %d are answered at once; send the most important %d, the others in a further call", n, MaxQueries, MaxQueries)
	}
	return nil
}

// Remote is a tool behind the hosted gateway that takes part in one search.
type Remote struct {
	Document    index.Document // what is ranked; Name is the tool's name
	SourceName  string         // the connector as it is spelled
	Description string
	Required    []string
}

// SearchOptions are what a search gets from outside the catalog.
type SearchOptions struct {
	// Remote are further tools to rank with the local ones, by query: Remote[i]
	// belongs to Queries[i]. It may be shorter.
	Remote [][]Remote
	// Connectors is the answer's "connectors" member as JSON, where something has
	// to be said about the gateway; nil leaves it out.
	Connectors jsontext.Value
	// Stats, when not nil, is told what was found.
	Stats *SearchStats
}

// SearchStats is what a search found, query by query.
type SearchStats struct{ Queries []QueryStats }

// QueryStats is what one query found.
type QueryStats struct {
	Matches, Near int
	Outcome       SearchOutcome
}

// SearchOutcome is how a query ended.
type SearchOutcome string

// The outcomes of a query. Without matches and near matches it is the reason.
const (
	OutcomeHits  SearchOutcome = "hits"
	OutcomeNear  SearchOutcome = "near"
	OutcomeGate  SearchOutcome = "gate"
	OutcomeFloor SearchOutcome = "floor"
	OutcomeEmpty SearchOutcome = "empty"
)

func (s *SearchStats) add(r index.Result) {
	q := QueryStats{Matches: len(r.Matches), Near: len(r.Near), Outcome: OutcomeEmpty}
	switch {
	case q.Matches > 0:
		q.Outcome = OutcomeHits
	case q.Near > 0:
		q.Outcome = OutcomeNear
	case r.Miss == index.MissGate:
		q.Outcome = OutcomeGate
	case r.Miss == index.MissFloor:
		q.Outcome = OutcomeFloor
	}
	s.Queries = append(s.Queries, q)
}

// Search answers tool_search: the payload, and whether it is an error that the
// model caused. See Find for the payload.
func (c *Catalog) Search(args []byte, o SearchOptions) (payload []byte, isError bool) {
	return c.AppendSearch(nil, args, o)
}

// AppendSearch appends what Search answers to dst.
func (c *Catalog) AppendSearch(dst, args []byte, o SearchOptions) (payload []byte, isError bool) {
	a, refusal := ParseSearchArguments(args, c.config)
	if refusal != nil {
		return append(dst, errorPayload(refusal.Code, refusal.Message)...), true
	}
	return c.AppendFind(dst, a, o), false
}

// Find answers a search as JSON:
//
//	{"queries": […], "total_available": n,
//	 "results": [{"query", "matches": [names], "near_matches"?: [names],
//	   "unmatched_terms"?: [words], "available_sources"?: [{"name","tool_count","unavailable"?}], "hint"?}],
//	 "tools": {name: {"source","source_name","description","required"}}, "connectors"?: {…}}
//
// Near matches and matches of a query together are at most Limit, and both stand
// in "tools", in the order in which they are first named. A query without matches
// gets the sources there are and a hint. Under the reference ranking there are no
// near matches and unmatched terms.
func (c *Catalog) Find(a SearchArguments, o SearchOptions) []byte {
	return c.AppendFind(nil, a, o)
}

// AppendFind appends what Find answers to dst.
func (c *Catalog) AppendFind(dst []byte, a SearchArguments, o SearchOptions) []byte {
	w, _ := c.writers.Get().(*searchWriter)
	if w == nil {
		w = &searchWriter{c: c, named: map[string]struct{}{}}
	}
	defer w.release()
	near := c.config.NearMatches != Off && c.config.Ranking == index.Standard
	for i, q := range a.Queries {
		if i > 0 {
			w.results = append(w.results, ',')
		}
		var remote []Remote
		if i < len(o.Remote) {
			remote = o.Remote[i]
		}
		found := c.index().Search(q, index.Options{Limit: a.Limit, Ranking: c.config.Ranking, NearMatches: near, Extra: extra(remote)})
		if o.Stats != nil {
			o.Stats.add(found)
		}
		w.results = w.result(w.results, q, found, remote)
	}
	size := 128 + len(w.results) + len(w.records) + len(o.Connectors)
	for _, q := range a.Queries {
		size += len(q) + 8
	}
	b := append(slices.Grow(dst, size), `{"queries":`...)
	b = appendStrings(b, a.Queries)
	b = append(b, `,"total_available":`...)
	b = strconv.AppendInt(b, int64(len(c.deferred)+w.remotes), 10)
	b = append(b, `,"results":[`...)
	b = append(b, w.results...)
	b = append(b, `],"tools":{`...)
	b = append(b, w.records...)
	b = append(b, '}')
	if len(o.Connectors) > 0 {
		b = append(b, `,"connectors":`...)
		b = append(b, o.Connectors...)
	}
	return append(b, '}')
}

func extra(remote []Remote) []index.Document {
	if len(remote) == 0 {
		return nil
	}
	docs := make([]index.Document, len(remote))
	for i := range remote {
		docs[i] = remote[i].Document
	}
	return docs
}
