package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Problem is one fault of a file, or a warning.
type Problem struct {
	Line, Column int    // from 1; 0: the file as a whole
	Key          string // e.g. "breaker.threshold"; "" at the top level
	Message      string
	Warning      bool // the default is used; the program starts
}

// String is "line 3: breaker.threshold: must be 1 or more".
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		b.WriteString("line " + strconv.Itoa(p.Line) + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Error is what stops the program: the faults of a file.
type Error struct {
	Name     string
	Problems []Problem // no warnings among them
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.Name + ": " + p.String()
	}
	return strings.Join(lines, "\n")
}

// unknownKey is the message about a key that is not among known.
func unknownKey(key string, known []string) string {
	shown := strconv.Quote(clip(key, 80))
	if len(known) == 0 {
		return fmt.Sprintf("unknown key %s: nothing can be set here", shown)
	}
	best, distance := "", 0
	for _, k := range known {
		if d := editDistance(fold(key), fold(k)); best == "" || d < distance {
			best, distance = k, d
		}
	}
	if distance <= max(2, len(best)/3) {
		return fmt.Sprintf("unknown key %s: did you mean %q?", shown, best)
	}
	return fmt.Sprintf("unknown key %s: the nearest known key is %q (known: %s)", shown, best, strings.Join(known, ", "))
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(clip(s, 80)), "-", "_") }

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last, now := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		now[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(y)]
}
