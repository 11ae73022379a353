package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/catalog/index"
	"toolbridge/subjects"
)

// configReader reads single settings and collects what is wrong with them.
type configReader struct {
	section  string
	warnings []Warning
}

func (p *configReader) warn(code subjects.WarningCode, key, message string) {
	name := p.section
	if key != "" {
		name += "." + oneLine(key, 64)
	}
	p.warnings = append(p.warnings, Warning{Code: code, Tool: name, Message: message})
}

func (p *configReader) invalid(key string, value jsontext.Value, want, instead string) {
	name := p.section
	if key != "" {
		name += "." + key
	}
	p.warn(subjects.WarnConfigInvalid, key, fmt.Sprintf("%s is %s, but must be %s; %s", name, oneLine(string(value), 64), want, instead))
}

func (p *configReader) unknown(key string, known []string) {
	message := fmt.Sprintf("%s.%s is no known setting and is ignored", p.section, oneLine(key, 64))
	if n := nearestKey(key, known); n != "" {
		message += "; did you mean " + n + "?"
	}
	p.warn(subjects.WarnConfigUnknownKey, key, message)
}

// position reads auto, on or off and their aliases in any spelling: true, yes, 1
// and false, no, 0, as values or as text.
func (p *configReader) position(m member, standing Switch) Switch {
	text := strings.ToLower(trim(string(m.value)))
	if m.value.Kind() == '"' {
		text = strings.ToLower(trim(unquote(m.value)))
	}
	switch text {
	case "true", "1", "yes", "on":
		return On
	case "false", "0", "no", "off":
		return Off
	case "auto":
		return Auto
	}
	if m.value.Kind() != 'n' {
		p.invalid(m.name, m.value, "auto, on or off", string(standing)+" is used")
	}
	return standing
}

// percent reads a number from 0 to 100; text that spells one counts, true is 1
// and false 0.
func (p *configReader) percent(m member, standing float64) float64 {
	v, ok := number(m.value)
	if !ok {
		if m.value.Kind() != 'n' {
			p.invalid(m.name, m.value, "a number from 0 to 100", fmt.Sprintf("%v is used", standing))
		}
		return standing
	}
	if !(v <= 100) { // not a number counts as too much
		p.invalid(m.name, m.value, "a number from 0 to 100", "100 is used")
		return 100
	}
	if v < 0 {
		p.invalid(m.name, m.value, "a number from 0 to 100", "0 is used")
		return 0
	}
	return v + 0 // -0 is 0
}

// integer reads a whole number and clamps it to lo..hi. Fractions are cut off;
// text counts only when it spells a whole number; true is 1 and false 0.
func (p *configReader) integer(m member, standing, lo, hi int) int {
	v, ok := wholeNumber(m.value)
	want := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if !ok {
		if m.value.Kind() != 'n' {
			p.invalid(m.name, m.value, want, fmt.Sprintf("%d is used", standing))
		}
		return standing
	}
	if c := min(max(v, lo), hi); c != v {
		p.invalid(m.name, m.value, want, fmt.Sprintf("%d is used", c))
		return c
	}
	return v
}

// names reads a list of names: trimmed, blank ones and repeats dropped.
func (p *configReader) names(m member, standing []string) []string {
	const want = "a list of tool names"
	switch m.value.Kind() {
	case 'n':
		return nil
	case '[':
	default:
		p.invalid(m.name, m.value, want, "the list in force stays")
		return standing
	}
	out := []string{}
	for _, e := range elements(m.value) {
		if e.Kind() != '"' {
			p.invalid(m.name, e, want, "the list in force stays")
			return standing
		}
		if n := trim(unquote(e)); n != "" {
			out = append(out, n)
		}
	}
	return dedupe(out)
}

func (p *configReader) ranking(m member, standing index.Ranking) index.Ranking {
	if m.value.Kind() == '"' {
		switch strings.ToLower(trim(unquote(m.value))) {
		case "standard":
			return index.Standard
		case "reference":
			return index.Reference
		}
	}
	if m.value.Kind() != 'n' {
		p.invalid(m.name, m.value, "standard or reference", "the ranking in force stays")
	}
	return standing
}

// truth reads the switch of the connectors: false, no, off, 0 and blank text are
// false, other text is true, numbers by whether they are 0; anything else is
// malformed and counts as true.
func (p *configReader) truth(m member) bool {
	switch m.value.Kind() {
	case 'f':
		return false
	case 't':
		return true
	case '"':
		switch strings.ToLower(trim(unquote(m.value))) {
		case "false", "0", "no", "off", "":
			return false
		}
		return true
	case '0':
		v, _ := number(m.value)
		return v != 0
	case 'n':
		return true
	default:
		p.invalid(m.name, m.value, "true or false", "connectors stay enabled")
		return true
	}
}

// number is the value of a JSON number, of text that spells one ("7.5", "1e3",
// "1_000", "inf", "nan"), or of true and false as 1 and 0.
func number(v jsontext.Value) (float64, bool) {
	text := string(v)
	switch v.Kind() {
	case 't':
		return 1, true
	case 'f':
		return 0, true
	case '"':
		var ok bool
		if text, ok = plainDigits(unquote(v)); !ok {
			return 0, false
		}
	case '0':
	default:
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// wholeNumber is number without its fraction; text must spell a whole number.
func wholeNumber(v jsontext.Value) (int, bool) {
	if v.Kind() == '"' {
		text, ok := plainDigits(unquote(v))
		if digits := strings.TrimLeft(text, "+-"); !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
			return 0, false
		}
	}
	f, ok := number(v)
	if !ok || math.IsNaN(f) {
		return 0, false
	}
	return int(math.Trunc(min(max(f, math.MinInt32), math.MaxInt32))), true
}

// plainDigits is the text of a number as people write it, trimmed and without
// underscores between digits.
func plainDigits(s string) (string, bool) {
	s = trim(s)
	if len(s) > 64 || strings.ContainsAny(s, "xXpP") {
		return "", false
	}
	if !strings.Contains(s, "_") {
		return s, s != ""
	}
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i+1 == len(s) || !digit(s[i-1]) || !digit(s[i+1])) {
			return "", false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
