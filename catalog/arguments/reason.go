package arguments

import (
	"strconv"
	"strings"
)

// maxShown bounds, in characters, a value or a list of values in a reason.
const maxShown = 200

// reason says in a few words what is wrong, for a model that can then repair
// it.
func (s *Schema) reason(f finding) string {
	want := f.schema.doc.member(f.keyword)
	if f.value != nil && f.value.kind == '"' && want != nil {
		if text := lengthReason(f.keyword, want, "characters"); text != "" {
			return f.ofName() + text
		}
	}
	switch f.keyword {
	case "type":
		return "must be " + strings.Join(f.schema.types, " or ") + ", not " + f.got()
	case "enum":
		return f.ofName() + "must be one of " + shown(want, true)
	case "const":
		return f.ofName() + "must be " + shown(want, false)
	case "required":
		return "missing " + quotedList(f.absent(f.schema.required))
	case "additionalProperties", "unevaluatedProperties":
		return "does not take " + quotedList(f.additional())
	case "dependentRequired", "dependencies":
		return "some parameters need others beside them: " + shown(want, false)
	case "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf":
		return f.boundReason(want)
	case "minItems", "maxItems", "minContains", "maxContains":
		return lengthReason(f.keyword, want, "elements")
	case "minProperties", "maxProperties":
		return lengthReason(f.keyword, want, "properties")
	case "contains":
		return "holds no element that matches what it must contain"
	case "uniqueItems":
		return "must not hold the same element twice"
	case "pattern":
		return f.ofName() + "must match the pattern " + s.spelled(want)
	case "not":
		return "is what the schema rules out"
	case "anyOf", "oneOf":
		return f.choiceReason(s)
	case "items", "additionalItems", "unevaluatedItems":
		return "holds more elements than it may"
	}
	if f.extra != "" {
		return "does not take " + quoteText(cut(f.extra, maxShown))
	}
	return "does not satisfy " + f.constraint()
}

func lengthReason(keyword string, want *value, of string) string {
	if want == nil {
		return ""
	}
	switch keyword {
	case "minLength", "minItems", "minProperties", "minContains":
		return "must have at least " + want.text + " " + of
	case "maxLength", "maxItems", "maxProperties", "maxContains":
		return "must have at most " + want.text + " " + of
	}
	return ""
}

func (f *finding) boundReason(want *value) string {
	keyword := f.keyword
	if f.isFlag() { // draft 4: the bound itself stands beside the flag
		want = f.schema.doc.member(f.constraint())
	}
	if want == nil {
		return "does not satisfy " + keyword
	}
	bound := cut(want.text, maxShown)
	switch keyword {
	case "minimum":
		return "must be at least " + bound
	case "maximum":
		return "must be at most " + bound
	case "exclusiveMinimum":
		return "must be greater than " + bound
	case "exclusiveMaximum":
		return "must be less than " + bound
	}
	return "must be a multiple of " + bound
}

// choiceReason says why no branch, or more than one, matches.
func (f *finding) choiceReason(s *Schema) string {
	if len(f.context) == 0 {
		return "matches more than one of the forms that exclude each other"
	}
	const most = 3
	var reasons []string
	for _, c := range f.context {
		if len(reasons) == most {
			reasons = append(reasons, "...")
			break
		}
		text := cut(s.reason(c), maxShown)
		if len(c.at) > len(f.at) {
			text = strings.TrimPrefix(pathOf(c.at[len(f.at):]), rootPath) + " " + text
		}
		reasons = append(reasons, text)
	}
	return "matches none of the forms it may have: " + strings.Join(reasons, "; ")
}

// ofName introduces a reason about a property's name rather than its value.
func (f *finding) ofName() string {
	if f.value != nil && f.value.kind == '"' && f.value.src == nil {
		return "the name " + quoteText(cut(f.value.text, maxShown)) + " "
	}
	return ""
}

// got is the value at fault, short.
func (f *finding) got() string {
	v := f.value
	if v == nil {
		return "that"
	}
	switch v.kind {
	case '"':
		return "text " + quoteText(cut(v.text, 60))
	case '0':
		return "number " + cut(v.text, 60)
	case 't':
		return "true"
	case 'f':
		return "false"
	}
	return kindName(v.kind)
}

// absent are those names that the object does not have.
func (f *finding) absent(names []string) []string {
	var list []string
	for _, n := range names {
		if f.value.member(n) == nil {
			list = append(list, n)
		}
	}
	return list
}

// additional are the members that the schema itself does not name.
func (f *finding) additional() []string {
	var list []string
	if f.value == nil {
		return nil
	}
next:
	for i := range f.value.children {
		name := f.value.children[i].name
		if _, ok := f.schema.properties[name]; ok {
			continue
		}
		for _, p := range f.schema.patterns {
			if p.match.MatchString(name) {
				continue next
			}
		}
		list = append(list, name)
	}
	return list
}

// spelled is a pattern as the schema spells it.
func (s *Schema) spelled(pattern *value) string {
	if pattern == nil {
		return ""
	}
	if original, ok := s.patterns[pattern.text]; ok {
		return cut(original, maxShown)
	}
	return cut(pattern.text, maxShown)
}

// shown is a keyword's value, short; the elements of a list without brackets.
func shown(v *value, elements bool) string {
	if v == nil {
		return "what the schema says"
	}
	text := string(appendJSON(nil, v))
	if elements && v.kind == '[' {
		parts := make([]string, len(v.children))
		for i := range v.children {
			parts[i] = string(appendJSON(nil, v.children[i].val))
		}
		text = strings.Join(parts, ", ")
	}
	return cut(text, maxShown)
}

// quotedList is a list of names for a sentence, at most ten of them.
func quotedList(names []string) string {
	const most = 10
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == most {
			b.WriteString(strconv.Itoa(len(names)-most) + " more")
			break
		}
		b.WriteString(quoteText(cut(n, 100)))
	}
	return b.String()
}
