package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// Decode reads a JSON array of tool definitions, each in a dialect of its own.
//
// A definition that can not be used is left out, one that can be mended is
// mended, and a Warning says so; definitions keep their order. A name stands
// once: the first definition of it. The error says that the array as a whole is
// none.
//
// The definitions share tools, which the caller does not change afterwards.
func Decode(tools []byte, lim Limits) ([]Definition, []Warning, error) {
	lim = lim.withDefaults()
	c := newCollector(lim)
	if err := decodeArray(c, tools); err == nil {
		return c.definitions, c.done(), nil
	}
	// Something in there is not valid: find out which element, and keep the rest.
	c = newCollector(lim)
	parts, err := split(tools)
	if err != nil {
		return nil, nil, fmt.Errorf("decode tool definitions: %w", err)
	}
	for i, s := range parts {
		decodePart(c, i, tools[s.start:s.end:s.end])
	}
	return c.definitions, c.done(), nil
}

// decodeArray is the way of an array that is valid throughout: one pass.
func decodeArray(c *collector, tools []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(tools), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '[' {
		return errors.New("no array")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	r := reader{dec: d, text: tools}
	for i := 0; d.PeekKind() != ']'; i++ {
		if c.full() || d.PeekKind() != '{' {
			if err := d.SkipValue(); err != nil {
				return err
			}
			c.notAnObject(i)
			continue
		}
		if err := r.item(); err != nil {
			return err
		}
		c.add(i, &r)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if skipSpace(tools, int(d.InputOffset())) != len(tools) {
		return errors.New("text follows")
	}
	return nil
}

// decodePart reads one element on its own, mended where its text is broken.
func decodePart(c *collector, i int, part []byte) {
	if c.full() || len(part) == 0 || part[0] != '{' {
		c.notAnObject(i)
		return
	}
	if len(part) > c.lim.DefinitionBytes {
		c.tooLarge(i, len(part), 0)
		return
	}
	if _, depth := measure(part); depth > c.lim.Depth {
		c.tooLarge(i, 0, depth)
		return
	}
	err := decodeObject(c, i, part)
	if err == nil {
		return
	}
	if brokenText(part) {
		if decodeObject(c, i, repairText(part)) == nil {
			c.repaired(i)
			return
		}
	}
	c.warn(subjects.WarnNotAnObject, label(i, ""), fmt.Sprintf("tools[%d] is left out: %v", i, readable(err)))
}

func decodeObject(c *collector, i int, part []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(part), jsontext.AllowDuplicateNames(true))
	r := reader{dec: d, text: part}
	if err := r.item(); err != nil {
		return err
	}
	if int(d.InputOffset()) != len(part) {
		return errors.New("text follows after the definition")
	}
	c.add(i, &r)
	return nil
}

// collector turns what was read into definitions and warnings.
type collector struct {
	lim         Limits
	definitions []Definition
	names       nameSet
	warnings    []Warning
	dropped     int // warnings beyond the bound
	seen        int // elements read
	beyond      int // elements beyond the bound
}

func newCollector(lim Limits) *collector {
	return &collector{lim: lim, names: nameSet{first: map[string]string{}}}
}

func (c *collector) full() bool { return c.seen >= c.lim.Tools }

func (c *collector) warn(code subjects.WarningCode, tool, message string) {
	if len(c.warnings) >= c.lim.Warnings {
		c.dropped++
		return
	}
	c.warnings = append(c.warnings, Warning{Code: code, Tool: tool, Message: message})
}

// label is how a warning names a definition: by name, or by position.
func label(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("tools[%d]", i)
	}
	return oneLine(name, 64)
}

func (c *collector) notAnObject(i int) {
	if c.full() {
		c.beyond++
		return
	}
	c.seen++
	c.warn(subjects.WarnNotAnObject, label(i, ""), fmt.Sprintf("tools[%d] is left out: a definition is a JSON object", i))
}

func (c *collector) tooLarge(i, size, depth int) {
	c.seen++
	why := fmt.Sprintf("it has %d bytes, at most %d are read", size, c.lim.DefinitionBytes)
	if depth > 0 {
		why = fmt.Sprintf("it nests %d levels deep, at most %d are read", depth, c.lim.Depth)
	}
	c.warn(subjects.WarnTooLarge, label(i, ""), fmt.Sprintf("%s is left out: %s", label(i, ""), why))
}

func (c *collector) repaired(i int) {
	name := ""
	if n := len(c.definitions); n > 0 {
		name = c.definitions[n-1].Name
	}
	c.warn(subjects.WarnDescriptionInvalid, label(i, name), fmt.Sprintf("tools[%d] holds text that is not valid UTF-8 or half a surrogate pair; it was replaced by U+FFFD", i))
}

// done closes the collection.
func (c *collector) done() []Warning {
	if c.beyond > 0 {
		c.warnings = append(c.warnings, Warning{Code: subjects.WarnTooManyTools, Message: fmt.Sprintf("%d definitions behind the first %d are left out: that many are read at most", c.beyond, c.lim.Tools)})
	}
	if c.dropped > 0 {
		c.warnings = append(c.warnings, Warning{Code: subjects.WarnTooManyTools, Message: fmt.Sprintf("%d more warnings are not listed", c.dropped)})
	}
	return c.warnings
}

// nameSet knows which names stand, exactly and folded.
type nameSet struct {
	first map[string]string   // folded name → the first name that folds so
	alike map[string]struct{} // further names whose folded form was taken
}

// add notes a name. taken says that it stands already; alike is an earlier name
// that differs only in case, "-", "_" or space.
func (s *nameSet) add(name string) (taken bool, alike string) {
	f := fold(name)
	first, ok := s.first[f]
	if !ok {
		s.first[f] = name
		return false, ""
	}
	if first == name {
		return true, ""
	}
	if _, ok := s.alike[name]; ok {
		return true, ""
	}
	if s.alike == nil {
		s.alike = map[string]struct{}{}
	}
	s.alike[name] = struct{}{}
	return false, first
}

// Deduplicate keeps the first definition of each name, in order, and says which
// further ones were left out. Decode has done so for each single array; this is
// for definitions that come from several.
func Deduplicate(definitions []Definition) ([]Definition, []Warning) {
	c := newCollector(Limits{}.withDefaults())
	c.definitions = make([]Definition, 0, len(definitions))
	for i := range definitions {
		if c.stands(i, definitions[i].Name) {
			c.definitions = append(c.definitions, definitions[i])
		}
	}
	return c.definitions, c.done()
}

// stands notes the name of a definition and reports whether it is the first of
// that name.
func (c *collector) stands(i int, name string) bool {
	taken, alike := c.names.add(name)
	if taken {
		c.warn(subjects.WarnNameDuplicate, label(i, name), fmt.Sprintf("a further definition of %s is left out: the first one stands", label(i, name)))
		return false
	}
	if alike != "" {
		c.warn(subjects.WarnNamesAlike, label(i, name), fmt.Sprintf("%s and %s differ only in case, \"-\", \"_\" or space; each must be called by its exact name", label(i, name), label(i, alike)))
	}
	return true
}

// longer reports whether s has more than n characters.
func longer(s string, n int) bool {
	return len(s) > n && utf8.RuneCountInString(s) > n
}
