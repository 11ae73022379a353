package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"toolbridge/cmd/toolbridge/internal/output"
)

var (
	heading = lipgloss.NewStyle().Bold(true)
	alarm   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
)

// Render draws a picture in lines of at most width cells and at most height lines;
// 0 is no bound. colour switches its marks on. What the bus sent is printed
// without control characters.
func Render(p Picture, tenant string, width, height int, colour bool) string {
	r := &screen{width: width, colour: colour}
	running := 0
	for _, s := range p.Sessions {
		running += s.Running
	}
	r.linef("%s", r.mark(heading, fmt.Sprintf("tenant %s   %s   %d workers   %d calls running   %d approvals waiting",
		tenant, p.At.Format(time.TimeOnly), len(p.Workers), running, len(p.Waiting))))
	for _, n := range p.Notes {
		r.linef("%s", r.mark(alarm, "not shown: "+output.Clean(n)))
	}
	budget := 0
	if height > 0 {
		budget = max(3, (height-len(r.lines)-10)/4) // lines of each table
	}
	r.table("WORKERS", []string{"id", "version", "requests", "a second", "errors", "mean"}, budget, len(p.Workers), func(i int) ([]string, bool) {
		w := p.Workers[i]
		return []string{w.ID, w.Version, strconv.Itoa(w.Requests), fmt.Sprintf("%.1f", w.Rate), strconv.Itoa(w.Errors), w.Mean.Round(10 * time.Microsecond).String()}, false
	})
	r.table("APPROVALS", []string{"waits", "expires in", "session", "tool", "reason"}, budget, len(p.Waiting), func(i int) ([]string, bool) {
		w := p.Waiting[i]
		return []string{since(p.At, w.Requested), until(p.At, w.Expires), w.Session, w.Tool, w.Reason}, true
	})
	r.table("SESSIONS", []string{"session", "running", "finished", "failed", "executions", "quiet for", "last tool"}, budget, len(p.Sessions), func(i int) ([]string, bool) {
		s := p.Sessions[i]
		return []string{s.Name, strconv.Itoa(s.Running), strconv.Itoa(s.Finished), strconv.Itoa(s.Failed), strconv.Itoa(s.Executions), since(p.At, s.Last), s.Tool}, false
	})
	if p.Lost > 0 {
		r.linef("  %d events of further sessions are left out", p.Lost)
	}
	r.table("EXECUTORS", []string{"toolset", "executor", "state", "tools", "reason"}, budget, len(p.Toolsets), func(i int) ([]string, bool) {
		t := p.Toolsets[i]
		return []string{t.Name, t.Executor, t.State, strconv.Itoa(t.Tools), t.Reason}, rank(t.State) == 0
	})
	r.table("BREAKER", []string{"gateway", "state", "for"}, budget, len(p.Breakers), func(i int) ([]string, bool) {
		b := p.Breakers[i]
		return []string{b.Name, b.State, since(p.At, b.Since)}, b.State != "closed"
	})
	lines := r.lines
	if height > 0 && len(lines) > height {
		lines = lines[:height]
	}
	return strings.Join(lines, "\n")
}

type screen struct {
	width  int
	colour bool
	lines  []string
}

func (r *screen) mark(style lipgloss.Style, s string) string {
	if !r.colour {
		return s
	}
	return style.Render(s)
}

func (r *screen) linef(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if r.width > 0 {
		s = ansi.Truncate(s, r.width, "…")
	}
	r.lines = append(r.lines, s)
}

// table prints rows in aligned columns, at most budget of them (0: all); a part
// without rows is one line.
func (r *screen) table(title string, head []string, budget, n int, row func(int) (cells []string, marked bool)) {
	r.linef("")
	if n == 0 {
		r.linef("%s", r.mark(heading, title)+"  none")
		return
	}
	shown := n
	if budget > 0 && n > budget {
		shown = budget
	}
	const widest = 40
	rows, marks := [][]string{head}, []bool{false}
	for i := range shown {
		cells, marked := row(i)
		for j := range cells {
			cells[j] = ansi.Truncate(output.Clean(cells[j]), widest, "…")
		}
		rows, marks = append(rows, cells), append(marks, marked)
	}
	widths := make([]int, len(head))
	for _, cells := range rows {
		for j, c := range cells {
			widths[j] = max(widths[j], ansi.StringWidth(c))
		}
	}
	r.linef("%s", r.mark(heading, title))
	for i, cells := range rows {
		var b strings.Builder
		b.WriteString(" ")
		for j, c := range cells {
			b.WriteString(" " + c + strings.Repeat(" ", widths[j]-ansi.StringWidth(c)) + " ")
		}
		s := strings.TrimRight(b.String(), " ")
		if marks[i] {
			s = r.mark(alarm, s)
		}
		r.linef("%s", s)
	}
	if shown < n {
		r.linef("  and %d more", n-shown)
	}
}

func since(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return max(0, now.Sub(at)).Round(time.Second).String()
}

func until(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return max(0, at.Sub(now)).Round(time.Second).String()
}
