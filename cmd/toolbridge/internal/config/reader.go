package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// reader takes typed values out of nodes and collects what is wrong with them.
type reader struct {
	problems []Problem
	lenient  bool // under tools and nous: faults are warnings
}

// field is one known key of a mapping.
type field struct {
	key  string
	read func(n *node, key string)
}

func (r *reader) reportf(line, column int, key, format string, args ...any) {
	r.problems = append(r.problems, Problem{
		Line: line, Column: column, Key: key, Warning: r.lenient, Message: fmt.Sprintf(format, args...) + r.consequence(),
	})
}

func (r *reader) consequence() string {
	if r.lenient {
		return " (ignored; the default is used)"
	}
	return ""
}

func (r *reader) wrong(n *node, key, want string) {
	r.reportf(n.line, n.column, key, "%s is expected, not %s", want, n.describe())
}

// describe names a value in a message: its type, and a scalar's text.
func (n *node) describe() string {
	switch n.kind {
	case kindText:
		return "the text " + strconv.Quote(clip(n.text, 40))
	case kindNumber:
		return "the number " + clip(n.text, 40)
	case kindBool:
		return strconv.FormatBool(n.truth)
	}
	return n.kind.String()
}

// mapping reads a mapping's keys; a mapping without a value counts as absent.
func (r *reader) mapping(n *node, key string, fields []field) bool {
	if n == nil || n.kind == kindNull {
		return false
	}
	if n.kind != kindMapping {
		r.wrong(n, key, "a mapping")
		return false
	}
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.key
	}
	seen := map[string]int{}
	for _, m := range n.members {
		at := m.key
		if key != "" {
			at = key + "." + m.key
		}
		if first, ok := seen[m.key]; ok {
			r.reportf(m.line, m.column, clip(at, 120), "the key stands here for the second time, first in line %d", first)
			continue
		}
		seen[m.key] = m.line
		found := false
		for _, f := range fields {
			if f.key == m.key {
				found = true
				f.read(m.value, at)
			}
		}
		if !found {
			r.reportf(m.line, m.column, key, "%s", unknownKey(m.key, known))
		}
	}
	return true
}

func (r *reader) boolean(n *node, key string, into *bool) {
	if n.kind != kindBool {
		r.wrong(n, key, "true or false")
		return
	}
	*into = n.truth
}

// text reads a text that is not blank.
func (r *reader) text(n *node, key string, into *string) {
	switch {
	case n.kind != kindText:
		r.wrong(n, key, "a text")
	case strings.TrimSpace(n.text) == "":
		r.reportf(n.line, n.column, key, "must not be blank")
	case strings.ContainsAny(n.text, "\x00\r\n"):
		r.reportf(n.line, n.column, key, "must be one line")
	default:
		*into = n.text
	}
}

// texts reads a list of texts.
func (r *reader) texts(n *node, key string, into *[]string) {
	if n.kind != kindList {
		r.wrong(n, key, "a list of texts")
		return
	}
	out := make([]string, 0, len(n.items))
	for i, item := range n.items {
		var s string
		before := len(r.problems)
		if r.text(item, fmt.Sprintf("%s[%d]", key, i), &s); len(r.problems) == before {
			out = append(out, s)
		}
	}
	*into = out
}

// choice reads one of some words.
func (r *reader) choice(n *node, key string, into *string, words ...string) {
	got := n.text
	if n.kind == kindBool && got == "" {
		got = strconv.FormatBool(n.truth)
	}
	for _, w := range words {
		if got == w && (n.kind == kindText || n.kind == kindBool) {
			*into = w
			return
		}
	}
	r.wrong(n, key, "one of "+strings.Join(words, ", "))
}

// integer reads a whole number from 1 to high.
func (r *reader) integer(n *node, key string, into *int, high int64) {
	const low = 1
	if n.kind != kindNumber {
		r.wrong(n, key, "a whole number")
		return
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil && jsonNumber.MatchString(n.text) && !strings.ContainsAny(n.text, ".eE") {
		v, err = high+1, nil // beyond 64 bits: out of range, not of the wrong type
		if strings.HasPrefix(n.text, "-") {
			v = low - 1
		}
	}
	switch {
	case err != nil:
		r.wrong(n, key, "a whole number")
	case v < low:
		r.reportf(n.line, n.column, key, "must be %d or more, not %s", low, clip(n.text, 40))
	case v > high:
		r.reportf(n.line, n.column, key, "must be %d or less, not %s", high, clip(n.text, 40))
	default:
		*into = int(v)
	}
}

// Durations of a file lie between a millisecond and a year.
const (
	shortest = time.Millisecond
	longest  = 365 * 24 * time.Hour
)

// duration reads a text such as 300ms, 5s, 5m or 1h30m; more than zero.
func (r *reader) duration(n *node, key string, into *time.Duration) {
	if n.kind == kindNumber {
		r.reportf(n.line, n.column, key, "a duration needs its unit: write %ss, %sms, %sm or the like", n.text, n.text, n.text)
		return
	}
	if n.kind != kindText {
		r.wrong(n, key, "a duration such as 500ms, 5s or 5m")
		return
	}
	d, err := time.ParseDuration(strings.TrimSpace(n.text))
	if err != nil {
		r.wrong(n, key, "a duration such as 500ms, 5s or 5m")
		return
	}
	r.bounded(n, key, d, into)
}

// seconds reads a number of seconds, fractions included; more than zero.
func (r *reader) seconds(n *node, key string, into *time.Duration) {
	if n.kind != kindNumber {
		r.wrong(n, key, "a number of seconds")
		return
	}
	s, err := strconv.ParseFloat(n.text, 64)
	if err != nil || math.IsNaN(s) || math.IsInf(s, 0) {
		r.wrong(n, key, "a number of seconds")
		return
	}
	if s > longest.Seconds() {
		s = longest.Seconds() + 1
	}
	r.bounded(n, key, time.Duration(max(s, -1)*float64(time.Second)), into)
}

func (r *reader) bounded(n *node, key string, d time.Duration, into *time.Duration) {
	switch {
	case d <= 0:
		r.reportf(n.line, n.column, key, "must be more than zero, not %s", clip(n.text, 40))
	case d < shortest || d > longest:
		r.reportf(n.line, n.column, key, "must lie between 1ms and %dh, not %s", int(longest.Hours()), clip(n.text, 40))
	default:
		*into = d
	}
}
