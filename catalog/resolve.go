package catalog

import (
	"fmt"
	"slices"
	"strings"

	"toolbridge/subjects"
)

// Verdict says what a name means in one session.
type Verdict uint8

// The verdicts.
const (
	Unknown      Verdict = iota // no tool of this session
	Callable                    // a deferred tool
	Direct                      // a visible tool: the model calls it itself
	Ambiguous                   // not exact, and several tools could be meant
	NotInSession                // a core tool that this session lacks
	Bridge                      // one of the three bridge tools
	Connector                   // spelled like a connector's tool; the gateway knows
)

// Resolution is what a name means in one session.
type Resolution struct {
	Asked      string // as it was asked, trimmed
	Verdict    Verdict
	Definition *Definition // of Callable and Direct
	// Names are the tools that an Ambiguous name could mean, or suggestions for an
	// Unknown one; sorted, at most 10, from this catalog only.
	Names []string
	// Hidden is the source that an Unknown name says it belongs to, where that
	// source is unavailable now; nothing else is suggested then.
	Hidden *Unavailable
}

// maxSuggestions bounds Resolution.Names.
const maxSuggestions = 10

// Resolve says what a name means. An exact name wins; one that differs only in
// case, "-", "_" or space is the tool it stands for when there is exactly one.
// It never picks a tool for a name that is merely similar.
func (c *Catalog) Resolve(name string) Resolution {
	name = trim(name)
	r := Resolution{Asked: name}
	if d, ok := c.exact[name]; ok {
		return r.found(c, d)
	}
	switch {
	case IsBridge(name):
		r.Verdict = Bridge
		return r
	case IsConnector(name):
		r.Verdict = Connector
		return r
	case name == "" || len(name) > maxAskedName:
		return r
	}
	l, f := c.alike(), fold(name)
	switch list := l.folded[f]; len(list) {
	case 0:
	case 1:
		return r.found(c, list[0])
	default:
		r.Verdict = Ambiguous
		for _, d := range list {
			r.Names = append(r.Names, d.Name)
		}
		r.Names = bounded(r.Names)
		return r
	}
	if IsCore(f) {
		r.Verdict = NotInSession
		return r
	}
	if r.Hidden = c.hiddenSource(f); r.Hidden != nil {
		return r
	}
	tail := f
	if i := strings.LastIndex(f, "__"); i >= 0 {
		tail = f[i+2:]
	}
	r.Names = bounded(append(slices.Clone(l.tails[tail]), l.alias[f]...))
	return r
}

// hiddenSource is the unavailable MCP server whose tools have names that begin
// like this folded one; of several the one with the longest name.
func (c *Catalog) hiddenSource(folded string) *Unavailable {
	var found *Unavailable
	longest := 0
	for i := range c.hidden {
		prefix := fold("mcp__" + c.hidden[i].Label + "__")
		if len(prefix) > longest && len(folded) > len(prefix) && strings.HasPrefix(folded, prefix) {
			found, longest = &c.hidden[i], len(prefix)
		}
	}
	return found
}

// maxAskedName bounds the bytes of a name that is looked at; no tool has a longer
// one.
const maxAskedName = 4096

func (r Resolution) found(c *Catalog, d *Definition) Resolution {
	r.Definition, r.Verdict = d, Callable
	if has(c.visible, d.Name) {
		r.Verdict = Direct
	}
	return r
}

func bounded(names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxSuggestions)]
}

// Refusal is why the name can not be run through tool_call, nil when it can. A
// tool that is out of scope gives the same answer as one that does not exist.
func (r Resolution) Refusal() *subjects.SlotError {
	asked := shownName(r.Asked)
	switch r.Verdict {
	case Callable, Connector:
		return nil
	case Direct:
		return &subjects.SlotError{Code: subjects.CodeToolNotAllowed, Message: fmt.Sprintf("%s stands in your own tool list: call it directly, not through %s.", r.Definition.Name, ToolCall)}
	case Bridge:
		return &subjects.SlotError{Code: subjects.CodeInvalidArguments, Message: fmt.Sprintf("%s is a bridge tool itself: call it directly, not through %s.", asked, ToolCall)}
	default:
		return &subjects.SlotError{Code: subjects.CodeToolNotFound, Message: r.missing(asked)}
	}
}

// missing is the sentence for a name that is no tool of this session.
func (r Resolution) missing(asked string) string {
	switch r.Verdict {
	case Ambiguous:
		return fmt.Sprintf("%s is not exact and could mean %s: use one of these names exactly as written.", asked, strings.Join(r.Names, ", "))
	case NotInSession:
		return fmt.Sprintf("%s is not available in this session; do not retry it.", asked)
	default:
	}
	if r.Hidden != nil {
		return fmt.Sprintf("%s is not available now: its source %s is unavailable (%s). It may come back; other sources' tools can be used.", asked, r.Hidden.Label, r.Hidden.Reason)
	}
	if len(r.Names) > 0 {
		return fmt.Sprintf("%s is not available in this session: no tool has that name. Did you mean %s? Use an exact name.", asked, strings.Join(r.Names, ", "))
	}
	return fmt.Sprintf("%s is not available in this session: no tool has that name. Do not retry it; find exact names with %s.", asked, ToolSearch)
}

// Answer is what the bridge replies to a call of a name that is no bridge tool:
// what the model should do instead. It is always an error, {"error": {…}}.
func (c *Catalog) Answer(name string) []byte {
	r := c.Resolve(name)
	switch r.Verdict {
	case Callable:
		n := r.Definition.Name
		return errorPayload(subjects.CodeToolNotAllowed, fmt.Sprintf(`%s is a deferred tool and runs through %s: call %s with {"calls":[{"name":%s,"arguments":{…}}]}. %s gives its parameters.`,
			n, ToolCall, ToolCall, appendString(nil, n), ToolDescribe))
	case Direct:
		return errorPayload(subjects.CodeToolNotAllowed, fmt.Sprintf("%s stands in your own tool list: call it directly, not through the bridge.", r.Definition.Name))
	case Connector:
		return errorPayload(subjects.CodeToolNotAllowed, fmt.Sprintf(`%s is not called by its own name: call %s with {"calls":[{"name":%s,"arguments":{…}}]}.`,
			shownName(r.Asked), ToolCall, appendString(nil, cut(r.Asked, labelChars))))
	case Bridge:
		return errorPayload(subjects.CodeInvalidArguments, shownName(r.Asked)+" is a bridge tool; send it as the name of the request.")
	default:
		return errorPayload(subjects.CodeToolNotFound, r.missing(shownName(r.Asked)))
	}
}

// shownName is a name from outside inside a message: as it is where it is plain,
// else quoted and cut.
func shownName(name string) string {
	if name != "" && len(name) <= 2*labelChars && plainASCII(name) && !strings.ContainsAny(name, ` "\`) {
		return name
	}
	return quoteShort(name)
}

// errorPayload is {"error":{"code","message"}}.
func errorPayload(code subjects.Code, message string) []byte {
	b := append(make([]byte, 0, len(message)+64), `{"error":{"code":`...)
	b = appendString(b, string(code))
	b = append(b, `,"message":`...)
	b = appendString(b, message)
	return append(b, `}}`...)
}
