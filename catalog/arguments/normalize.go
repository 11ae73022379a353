package arguments

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// NormalizeOptions bound an envelope. The zero value is the documented default.
type NormalizeOptions struct {
	// MaxEntries is the greatest number of entries in one call; default 10.
	MaxEntries int
	// MaxBytes bounds the envelope as it came; default 8 MiB, the greatest
	// message that the shipped servers take.
	MaxBytes int
	// MaxDepth bounds the nesting of the envelope and of each entry's
	// arguments; default 128.
	MaxDepth int
}

// Defaults of NormalizeOptions.
const (
	DefaultMaxEntries = 10
	DefaultMaxBytes   = 8 << 20
	DefaultMaxDepth   = 128
)

// Entry is one execution that a tool_call asks for.
type Entry struct {
	Name string // trimmed; otherwise as the caller wrote it
	// Arguments is an object with the very bytes that the caller wrote, {} when
	// there were none.
	Arguments jsontext.Value
	// Extra are the members that stood beside name and arguments, in order.
	// Only the tool's schema can say what they are: see Schema.Adopt. An entry
	// with Extra must not run without it.
	Extra []Member
}

// Key is the same for entries that ask for the same thing, white space aside:
// name, arguments and extra members, SHA-256 in hex.
func (e Entry) Key() string {
	parts := [][]byte{[]byte(e.Name), compact(e.Arguments)}
	for _, m := range e.Extra {
		parts = append(parts, []byte(m.Name), compact(m.Value))
	}
	return keyOf(parts...)
}

// Normalize reads the arguments of a tool_call, an object or a JSON string
// that holds one, into the entries it asks for. Either every entry is readable
// or the whole is refused; the first fault in order decides.
//
// Tolerated: calls as an array, as one entry, or as text that holds either;
// the older form {name, arguments} when calls is null or absent; arguments as
// an object, as text that holds one, null, blank or absent; a name that is a
// number; text that holds the same object twice. Refused: everything else,
// among it truncated text, duplicate members, a bridge tool as a name, and more
// than ten entries.
func Normalize(args []byte, o NormalizeOptions) ([]Entry, *Refusal) {
	n := normalizer{o: o, input: args}
	if n.o.MaxEntries <= 0 {
		n.o.MaxEntries = DefaultMaxEntries
	}
	if n.o.MaxBytes <= 0 {
		n.o.MaxBytes = DefaultMaxBytes
	}
	if n.o.MaxDepth <= 0 {
		n.o.MaxDepth = DefaultMaxDepth
	}
	entries, r := n.normalize()
	if r != nil {
		return nil, n.finish(r)
	}
	return entries, nil
}

type normalizer struct {
	o        NormalizeOptions
	input    []byte         // as it came
	envelope jsontext.Value // the object, once read out of text
}

// fault is a refusal about no entry.
func fault(code RefusalCode, format string, a ...any) *Refusal {
	return entryFault(code, -1, "", format, a...)
}

func entryFault(code RefusalCode, position int, name, format string, a ...any) *Refusal {
	return &Refusal{Refused: code, Position: position, Name: name, Problem: fmt.Sprintf(format, a...)}
}

func (n *normalizer) normalize() ([]Entry, *Refusal) {
	if len(n.input) > n.o.MaxBytes {
		return nil, fault(RefusedTooLarge, "The call has %d bytes, more than %d.", len(n.input), n.o.MaxBytes)
	}
	if r := n.readEnvelope(); r != nil {
		return nil, r
	}
	if n.envelope == nil {
		return nil, n.missingCalls()
	}
	list, err := members(n.envelope)
	if err != nil {
		return nil, n.unreadable(RefusedInvalidEnvelope, "The call", n.envelope, err)
	}
	var calls jsontext.Value
	var rest []Member
	for _, m := range list {
		if m.Name == "calls" {
			calls = m.Value
		} else {
			rest = append(rest, m)
		}
	}
	if calls == nil || calls.Kind() == 'n' {
		return n.olderForm(rest)
	}
	raw, r := n.entryList(calls)
	if r != nil {
		return nil, r
	}
	entries := make([]Entry, len(raw))
	for i, v := range raw {
		if entries[i], r = n.entry(i, v); r != nil {
			return nil, r
		}
	}
	return n.placeStray(entries, rest)
}

// readEnvelope takes the envelope out of the text that may hold it; it stays
// nil when nothing was said.
func (n *normalizer) readEnvelope() *Refusal {
	text := bytes.Trim(n.input, " \t\r\n")
	if len(text) == 0 {
		return nil
	}
	v, err := readOnce(text)
	if err == nil && v.Kind() == '"' {
		inner, ok := unquote(v)
		if !ok {
			return fault(RefusedInvalidEnvelope, "The call is text with a lone surrogate, which is not valid JSON.")
		}
		if trimSpace(inner) == "" {
			return nil
		}
		text = []byte(inner)
		v, err = readOnce(text)
	}
	if err != nil {
		return n.unreadable(RefusedInvalidEnvelope, "The call", text, err)
	}
	switch v.Kind() {
	case 'n':
		return nil
	case '{':
	default:
		return fault(RefusedEnvelopeType, "The arguments of tool_call must be an object, not %s.", kindName(v.Kind()))
	}
	if d := depth(v); d > n.o.MaxDepth {
		return fault(RefusedTooDeep, "The call is nested %d levels deep, more than %d.", d, n.o.MaxDepth)
	}
	n.envelope = v
	return nil
}

func (n *normalizer) missingCalls() *Refusal {
	return fault(RefusedMissingCalls, `"calls" is missing.`)
}

// olderForm is an envelope that is itself the entry.
func (n *normalizer) olderForm(list []Member) ([]Entry, *Refusal) {
	e, r := n.entryOf(0, list)
	if r != nil {
		if r.Refused == RefusedMissingName {
			return nil, n.missingCalls()
		}
		return nil, r
	}
	return []Entry{e}, nil
}

// entryList reads calls: an array, one entry, or text that holds either.
func (n *normalizer) entryList(calls jsontext.Value) ([]jsontext.Value, *Refusal) {
	if calls.Kind() == '"' {
		text, ok := unquote(calls)
		if !ok {
			return nil, fault(RefusedInvalidCalls, `"calls" is text with a lone surrogate, which is not valid JSON.`)
		}
		v, err := readOnce([]byte(text))
		if err != nil {
			return nil, n.unreadable(RefusedInvalidCalls, `"calls"`, []byte(text), err)
		}
		if d := depth(v); d > n.o.MaxDepth {
			return nil, fault(RefusedTooDeep, `"calls" is nested %d levels deep, more than %d.`, d, n.o.MaxDepth)
		}
		calls = v
	}
	if calls.Kind() == '{' {
		return []jsontext.Value{calls}, nil
	}
	if calls.Kind() != '[' {
		return nil, fault(RefusedCallsType, `"calls" must be a non-empty array, not %s.`, kindName(calls.Kind()))
	}
	list, err := elements(calls)
	if err != nil {
		return nil, n.unreadable(RefusedInvalidCalls, `"calls"`, calls, err)
	}
	if len(list) == 0 {
		return nil, fault(RefusedCallsType, `"calls" must be a non-empty array.`)
	}
	if len(list) > n.o.MaxEntries {
		return nil, fault(RefusedTooManyEntries, `"calls" has %d entries, at most %d are allowed. Send the first %d, then the others in further calls.`, len(list), n.o.MaxEntries, n.o.MaxEntries)
	}
	return list, nil
}

func (n *normalizer) entry(position int, v jsontext.Value) (Entry, *Refusal) {
	if v.Kind() != '{' {
		return Entry{}, entryFault(RefusedEntryType, position, "", "calls[%d] must be an object with name and arguments, not %s.", position, kindName(v.Kind()))
	}
	list, err := members(v)
	if err != nil {
		return Entry{}, n.unreadable(RefusedInvalidCalls, `"calls"`, v, err)
	}
	return n.entryOf(position, list)
}

// entryOf reads one entry: first its name, then its arguments.
func (n *normalizer) entryOf(position int, list []Member) (Entry, *Refusal) {
	e := Entry{Arguments: jsontext.Value("{}")}
	var name, arguments jsontext.Value
	for _, m := range list {
		switch m.Name {
		case "name":
			name = m.Value
		case "arguments":
			arguments = m.Value
		default:
			e.Extra = append(e.Extra, m)
		}
	}
	var ok bool
	if e.Name, ok = nameText(name); !ok {
		return e, entryFault(RefusedNameType, position, "", "calls[%d].name must be a tool's name as text, not %s.", position, kindName(name.Kind()))
	}
	switch {
	case e.Name == "":
		return e, entryFault(RefusedMissingName, position, "", "calls[%d] has no name.", position)
	case e.Name == "tool_call":
		return e, entryFault(RefusedBridgeName, position, e.Name, `tool_call can not be nested in itself: put the tool's own name into calls, not the bridge's.`)
	case IsBridge(e.Name):
		return e, entryFault(RefusedBridgeName, position, e.Name, "%s is a bridge tool: call it directly, not through tool_call.", e.Name)
	}
	r := n.arguments(position, &e, arguments)
	return e, r
}

// nameText is the name that a value spells: text or a number, trimmed. What
// says nothing (null, false, zero, an empty container) is no name; any other
// value is a wrong type.
func nameText(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case '"':
		text, _ := unquote(v) // a lone surrogate is replaced: no tool has such a name
		return trimSpace(text), true
	case '0':
		if isZero(string(v)) {
			return "", true
		}
		return string(v), true
	case 't':
		return "", false
	case '{', '[':
		return "", len(compact(v)) == 2
	}
	return "", true
}

// arguments sets the entry's arguments to the caller's own bytes.
func (n *normalizer) arguments(position int, e *Entry, v jsontext.Value) *Refusal {
	switch v.Kind() {
	case '{':
		e.Arguments = v
		return nil
	case 'n', jsontext.KindInvalid:
		return nil
	case '"':
	default:
		return entryFault(RefusedArgumentsType, position, e.Name, "The arguments of %s must be an object, not %s.", cut(e.Name, maxEchoName), kindName(v.Kind()))
	}
	text, ok := unquote(v)
	if !ok {
		return entryFault(RefusedInvalidArguments, position, e.Name, "The arguments of %s are text with a lone surrogate, which is not valid JSON.", cut(e.Name, maxEchoName))
	}
	if trimSpace(text) == "" {
		return nil
	}
	read, err := readOnce([]byte(text))
	if err != nil {
		r := refuseUnreadable(RefusedInvalidArguments, "The arguments of "+cut(e.Name, maxEchoName), []byte(text), err, pathOfPointer)
		r.Position, r.Name = position, e.Name
		return r
	}
	if read.Kind() != '{' {
		return entryFault(RefusedArgumentsType, position, e.Name, "The arguments of %s must be an object, not text that holds %s.", cut(e.Name, maxEchoName), kindName(read.Kind()))
	}
	if d := depth(read); d > n.o.MaxDepth {
		return entryFault(RefusedTooDeep, position, e.Name, "The arguments of %s are nested %d levels deep, more than %d.", cut(e.Name, maxEchoName), d, n.o.MaxDepth)
	}
	e.Arguments = read
	return nil
}

// placeStray decides on what stands beside calls. A name and empty arguments
// there repeat or say nothing. Anything else would be lost if it were ignored:
// it goes to the only entry, where the tool's schema decides, or the whole is
// refused.
func (n *normalizer) placeStray(entries []Entry, rest []Member) ([]Entry, *Refusal) {
	var stray []Member
	for _, m := range rest {
		if m.Name == "name" || m.Value.Kind() == 'n' || m.Name == "arguments" && saysNothing(m.Value) {
			continue
		}
		stray = append(stray, m)
	}
	if len(stray) == 0 {
		return entries, nil
	}
	if misplaced := slices.ContainsFunc(stray, func(m Member) bool { return m.Name == "arguments" }); misplaced || len(entries) > 1 {
		return nil, fault(RefusedStray, "%s beside \"calls\" belongs to no entry: put each tool's parameters into its own arguments.", quoteText(cut(stray[0].Name, maxEchoName)))
	}
	entries[0].Extra = append(entries[0].Extra, stray...)
	return entries, nil
}

func saysNothing(v jsontext.Value) bool {
	switch v.Kind() {
	case '{', '[':
		return len(compact(v)) == 2
	case '"':
		text, ok := unquote(v)
		return ok && (trimSpace(text) == "" || trimSpace(text) == "{}")
	}
	return false
}

// finish adds what every refusal carries: the valid shape with the caller's own
// first entry, the message and the key.
func (n *normalizer) finish(r *Refusal) *Refusal {
	source := []byte(n.envelope)
	if source == nil {
		source = n.input
	}
	name, arguments := firstEntry(source)
	if r.Refused == RefusedBridgeName && IsBridge(name) {
		name = ""
	}
	r.Shape = shape(name, arguments)
	if r.Name == "" && r.Position <= 0 {
		r.Name = name
	}
	r.Message = r.Problem + " Nothing was run. Valid shape: " + r.Shape
	r.Key = keyOf(compact(source))
	return r
}
