package catalog

import (
	"strconv"

	"toolbridge/catalog/index"
)

// Bounds of a tool's record in a search result.
const (
	recordDescriptionChars = 500
	recordRequired         = 32
	recordRequiredChars    = 64
)

// Hints of a result without matches.
const (
	hintNoMatch = "No tool holds the important words of this query. Try other or fewer words, or the words of an available source; tools of a source that is unavailable can not be found now."
	hintNear    = "No tool holds all important words of this query; near_matches hold some of them. Read one with tool_describe before you use it, or search with other words."
)

// searchWriter writes the results of one search and collects the records of the
// tools that they name. It is used again for later searches of the same catalog.
type searchWriter struct {
	c       *Catalog
	results []byte
	records []byte
	named   map[string]struct{} // tools that have a record
	remotes int                 // of these, the gateway's
}

// maxKeptScratch bounds what a searchWriter keeps for the next search.
const maxKeptScratch = 64 << 10

// release gives the writer back; its bytes must have been copied.
func (w *searchWriter) release() {
	if cap(w.results)+cap(w.records) > maxKeptScratch {
		return
	}
	w.results, w.records, w.remotes = w.results[:0], w.records[:0], 0
	clear(w.named)
	w.c.writers.Put(w)
}

// result appends the result of one query.
func (w *searchWriter) result(b []byte, query string, found index.Result, remote []Remote) []byte {
	b = append(b, `{"query":`...)
	b = appendString(b, query)
	b = append(b, `,"matches":`...)
	b = w.hits(b, found.Matches, remote)
	if len(found.Near) > 0 {
		b = append(b, `,"near_matches":`...)
		b = w.hits(b, found.Near, remote)
	}
	if len(found.UnmatchedTerms) > 0 {
		b = append(b, `,"unmatched_terms":`...)
		b = appendStrings(b, found.UnmatchedTerms)
	}
	if len(found.Matches) == 0 && len(w.c.sources) > 0 {
		b = append(b, `,"available_sources":`...)
		b = append(b, w.c.sources...)
		b = append(b, `,"hint":`...)
		if len(found.Near) > 0 {
			b = appendString(b, hintNear)
		} else {
			b = appendString(b, hintNoMatch)
		}
	}
	return append(b, '}')
}

// hits appends the names of the tools found and notes their records.
func (w *searchWriter) hits(b []byte, hits []index.Hit, remote []Remote) []byte {
	b = append(b, '[')
	for i, h := range hits {
		if i > 0 {
			b = append(b, ',')
		}
		if h.Doc < len(w.c.deferred) {
			d := w.c.deferred[h.Doc]
			b = appendString(b, d.Name)
			if w.names(d.Name) {
				w.records = append(w.records, w.c.record(h.Doc)...)
			}
			continue
		}
		r := &remote[h.Doc-len(w.c.deferred)]
		b = appendString(b, r.Document.Name)
		if w.names(r.Document.Name) {
			w.records = appendRecord(w.records, r.Document.Name, sourceConnectors, r.SourceName, r.Description, r.Required)
			w.remotes++
		}
	}
	return append(b, ']')
}

// names notes that a tool gets a record, and reports whether it had none.
func (w *searchWriter) names(name string) bool {
	if _, ok := w.named[name]; ok {
		return false
	}
	w.named[name] = struct{}{}
	if len(w.records) > 0 {
		w.records = append(w.records, ',')
	}
	return true
}

// record is the record of a deferred tool, written when it is first found.
func (c *Catalog) record(doc int) string {
	if made := c.records[doc].Load(); made != nil {
		return *made
	}
	d := c.deferred[doc]
	kind, source := d.source()
	made := string(appendRecord(nil, d.Name, kind, source, d.Description, d.Required))
	if c.records[doc].CompareAndSwap(nil, &made) {
		c.recorded.Add(int64(len(made)))
	}
	return made
}

// appendRecord appends a tool's member of "tools".
func appendRecord(b []byte, name, kind, source, description string, required []string) []byte {
	b = appendString(b, name)
	b = append(b, `:{"source":`...)
	b = appendString(b, kind)
	b = append(b, `,"source_name":`...)
	b = appendString(b, oneLine(source, labelChars+len(mcpToolsetPrefix)))
	b = append(b, `,"description":`...)
	b = appendString(b, clip(description, recordDescriptionChars))
	b = append(b, `,"required":[`...)
	for i, r := range required[:min(len(required), recordRequired)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, cut(r, recordRequiredChars))
	}
	return append(b, `]}`...)
}

// appendSources appends a JSON array of the sources, nothing where there are none.
func appendSources(b []byte, sources []sourceCount) []byte {
	if len(sources) == 0 {
		return b
	}
	b = append(b, '[')
	for i, s := range sources {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, s.label)
		b = append(b, `,"tool_count":`...)
		b = strconv.AppendInt(b, int64(s.tools), 10)
		if s.unavailable != "" {
			b = append(b, `,"unavailable":`...)
			b = appendString(b, s.unavailable)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}
