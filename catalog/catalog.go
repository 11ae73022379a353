package catalog

import (
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"toolbridge/catalog/index"
)

// Catalog is the searchable content of one assembly: its deferred definitions,
// and the visible ones by name. It is immutable, safe for concurrent use, and
// made once per content: sessions that share the content share the Catalog. The
// index is built by the first search.
type Catalog struct {
	config      Config
	granted     bool // connectors are granted
	definitions []Definition
	deferred    []*Definition
	exact       map[string]*Definition // deferred and visible, by name
	visible     map[string]struct{}
	sources     []byte        // an empty result's available_sources as JSON; nil where there are none
	hidden      []Unavailable // sources whose tools are hidden now, by label

	writers  sync.Pool                // of *searchWriter
	records  []atomic.Pointer[string] // deferred tool -> its record in search results, once it was found
	recorded atomic.Int64             // bytes of these

	index    func() *index.Index
	prepared atomic.Bool  // somebody has asked for the index
	built    func() int64 // bytes of the index, 0 before it is built
	alike    func() lookalikes
}

// sourceCount is one source of an empty result's available_sources.
type sourceCount struct {
	label       string
	tools       int
	unavailable string // the reason, where the tools are hidden now
}

// New makes the Catalog of an assembly's input. It keeps the definitions, which
// are not changed afterwards.
func New(in Input) *Catalog {
	in.Config = in.Config.effective()
	visible, deferred, granted, _ := in.split()
	if in.Config.Enabled == Off {
		visible, deferred = append(visible, deferred...), nil
	}
	c := &Catalog{
		config:      in.Config,
		granted:     granted,
		definitions: in.Definitions,
		deferred:    deferred,
		exact:       make(map[string]*Definition, len(in.Definitions)),
		visible:     make(map[string]struct{}, len(visible)),
		sources:     appendSources(nil, countSources(deferred, in.Unavailable)),
		hidden:      sortedUnavailable(in.Unavailable),
		records:     make([]atomic.Pointer[string], len(deferred)),
	}
	// The first definition of a name stands; a visible one before a deferred one.
	for _, d := range visible {
		c.visible[d.Name] = struct{}{}
		c.keep(d)
	}
	for _, d := range deferred {
		c.keep(d)
	}
	var ready struct {
		sync.Mutex
		bytes int64
	}
	c.index = sync.OnceValue(func() *index.Index {
		x := index.BuildFor(in.Config.Ranking, documents(deferred))
		ready.Lock()
		ready.bytes = x.Bytes()
		ready.Unlock()
		return x
	})
	c.built = func() int64 {
		ready.Lock()
		defer ready.Unlock()
		return ready.bytes
	}
	c.alike = sync.OnceValue(c.findLookalikes)
	return c
}

func (c *Catalog) keep(d *Definition) {
	if _, ok := c.exact[d.Name]; !ok {
		c.exact[d.Name] = d
	}
}

func documents(deferred []*Definition) []index.Document {
	docs := make([]index.Document, len(deferred))
	for i, d := range deferred {
		docs[i] = index.Document{Name: d.Name, SourceLabel: d.Label(), Description: d.Description, Properties: d.Properties, Aliases: d.Aliases}
	}
	return docs
}

// countSources counts the deferred tools of each source and adds the sources that
// are unavailable, in the order of their labels.
func countSources(deferred []*Definition, unavailable []Unavailable) []sourceCount {
	at := map[string]int{}
	var out []sourceCount
	for _, d := range deferred {
		l := d.Label()
		i, ok := at[l]
		if !ok {
			i = len(out)
			at[l] = i
			out = append(out, sourceCount{label: l})
		}
		out[i].tools++
	}
	for _, u := range sortedUnavailable(unavailable) {
		if _, ok := at[u.Label]; !ok {
			out = append(out, sourceCount{label: u.Label, tools: u.ToolCount, unavailable: u.Reason})
		}
	}
	slices.SortFunc(out, func(a, b sourceCount) int { return strings.Compare(a.label, b.label) })
	return out
}

// Len is the number of deferred tools.
func (c *Catalog) Len() int { return len(c.deferred) }

// Deferred are the deferred definitions in order.
func (c *Catalog) Deferred() iter.Seq[*Definition] { return slices.Values(c.deferred) }

// Config is the configuration that the Catalog answers by.
func (c *Catalog) Config() Config { return c.config }

// Connectors reports whether the session asked for connectors and has them.
func (c *Catalog) Connectors() bool { return c.granted }

// Prepare builds the index, so that no search waits for it, and reports whether no
// earlier Prepare has.
func (c *Catalog) Prepare() (first bool) {
	first = !c.prepared.Load() && c.prepared.CompareAndSwap(false, true)
	c.index()
	return first
}

// Bytes estimates the memory that the Catalog keeps: the definitions' bytes, what
// was decoded of them, the index once it is built, and the records of tools that
// were found.
func (c *Catalog) Bytes() int64 {
	const perName = 64 // an entry of the map of names
	n := c.built() + c.recorded.Load() + int64(len(c.records))*int64(unsafe.Sizeof(c.records[0]))
	for i := range c.definitions {
		d := &c.definitions[i]
		n += int64(unsafe.Sizeof(*d)) + int64(len(d.Raw)) + perName
		n += int64(len(d.Properties)+len(d.Required)+len(d.Aliases)) * int64(unsafe.Sizeof(""))
	}
	return n
}

// lookalikes find names that are not spelled exactly.
type lookalikes struct {
	folded map[string][]*Definition // by the folded name
	tails  map[string][]string      // names by what follows their last "__", folded
	alias  map[string][]string      // names by a folded alias
}

func (c *Catalog) findLookalikes() lookalikes {
	l := lookalikes{folded: map[string][]*Definition{}, tails: map[string][]string{}, alias: map[string][]string{}}
	for i := range c.definitions {
		d := &c.definitions[i]
		if c.exact[d.Name] != d {
			continue
		}
		f := fold(d.Name)
		l.folded[f] = append(l.folded[f], d)
		if i := strings.LastIndex(f, "__"); i >= 0 && i+2 < len(f) {
			l.tails[f[i+2:]] = append(l.tails[f[i+2:]], d.Name)
		}
		for _, a := range d.Aliases {
			l.alias[fold(a)] = append(l.alias[fold(a)], d.Name)
		}
	}
	return l
}
