package arguments

import (
	"strings"
)

// What can not be enforced is taken out of the schema, keyword by keyword, and
// noted. Taking out must only ever let more arguments through: below not, if,
// oneOf or an upper bound on contains a weaker schema would refuse more, so
// these are weakened too where something below them was.

// unread are keywords that refuse nothing: descriptions, data, names of
// resources, and assertions that JSON Schema leaves optional (format and
// content are not asserted).
var unread = []string{
	"$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment",
	"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
	"format", "contentEncoding", "contentMediaType", "contentSchema",
}

// Keywords that count.
var countKeywords = map[string]bool{
	"minLength": true, "maxLength": true, "minItems": true, "maxItems": true, "minContains": true,
	"maxContains": true, "minProperties": true, "maxProperties": true,
}

// Keywords that hold numbers to compare with.
var boundKeywords = map[string]bool{
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"enum": true, "const": true,
}

// greatestCount stands for every count that no arguments can reach.
const greatestCount = "9007199254740992" // 2^53

// weaken takes out of every schema what the validator can not hold, and what
// it need not read.
func (d *document) weaken() {
	var weakened []*value
	for _, s := range d.schemas {
		if d.weakenSchema(s) {
			weakened = append(weakened, s)
		}
	}
	if len(weakened) > 0 {
		d.weakenAround(weakened)
	}
	for _, s := range d.schemas {
		drop(s, unread...)
		if d.draft == 4 {
			drop(s, "id")
		}
		if d.draft >= 2019 {
			drop(s, "dependencies") // no keyword any more, though the validator still knows it
		}
		if d.draft != 2019 {
			drop(s, "$recursiveRef")
		}
		if d.draft != 2020 {
			drop(s, "$dynamicRef")
		}
	}
}

// weakenSchema tells whether it took an assertion out of this one schema.
func (d *document) weakenSchema(s *value) (weakened bool) {
	openNames := false
	kept := s.children[:0]
	for _, c := range s.children {
		switch {
		case c.name == "pattern" && c.val.kind == '"':
			pattern, err := goPattern(c.val.text)
			if err != nil {
				d.notePattern(c.name, c.val.text, err)
				weakened = true
				continue
			}
			d.spelled[pattern] = c.val.text
			c.val = scalarText(pattern)
		case c.name == "patternProperties" && c.val.kind == '{':
			openNames = d.weakenNames(c.val) || openNames
		case boundKeywords[c.name] && !allCarriable(c.val):
			d.note(c.name + " is not enforced: it holds a number that is out of range")
			weakened = true
			continue
		case countKeywords[c.name] && c.val.kind == '0' && isHuge(c.val.text):
			c.val = scalar('0', greatestCount)
		}
		kept = append(kept, c)
	}
	s.children = kept
	if openNames { // it is unknown which properties are additional
		drop(s, "additionalProperties")
	}
	return weakened || openNames
}

// weakenNames translates the patterns of patternProperties and takes out those
// that can not be matched; it tells whether there were any.
func (d *document) weakenNames(names *value) (weakened bool) {
	kept := names.children[:0]
	for _, c := range names.children {
		pattern, err := goPattern(c.name)
		if err != nil {
			d.notePattern("patternProperties", c.name, err)
			weakened = true
			continue
		}
		d.spelled[pattern] = c.name
		c.name = pattern
		kept = append(kept, c)
	}
	names.children = kept
	return weakened
}

func (d *document) notePattern(keyword, pattern string, err error) {
	d.note(keyword + " " + quoteText(cut(pattern, 100)) + " is not enforced: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// weakenAround follows the weakened schemas up to everything that applies
// them, and takes out what would now refuse more than the schema says.
func (d *document) weakenAround(weakened []*value) {
	seen := map[*value]bool{}
	for len(weakened) > 0 {
		s := weakened[0]
		weakened = weakened[1:]
		if seen[s] {
			continue
		}
		seen[s] = true
		for _, a := range d.parents[s] {
			switch a.keyword {
			case "not":
				drop(a.by, "not")
			case "if":
				drop(a.by, "if", "then", "else")
			case "oneOf":
				if a.by.member("anyOf") != nil {
					drop(a.by, "oneOf")
				} else if branches := a.by.member("oneOf"); branches != nil {
					drop(a.by, "oneOf")
					set(a.by, "anyOf", branches)
				}
			case "contains":
				drop(a.by, "maxContains")
			}
			weakened = append(weakened, a.by)
		}
	}
	for _, s := range d.schemas { // what counts as evaluated is no longer known
		drop(s, "unevaluatedProperties", "unevaluatedItems")
	}
}

// allCarriable tells whether every number in a value is within range.
func allCarriable(v *value) bool {
	if v.kind == '0' {
		return carriable(v.text)
	}
	for i := range v.children {
		if !allCarriable(v.children[i].val) {
			return false
		}
	}
	return true
}

// isHuge tells whether a count is too great for the validator's integers.
func isHuge(literal string) bool {
	if len(literal) > maxNumberLength {
		return true
	}
	n, ok := integerLiteral(literal)
	return !carriable(literal) && !isZero(literal) || ok && len(n) > 15
}
