package output

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// Printer writes to one stream. Write errors are kept for Err.
type Printer struct {
	w     io.Writer
	width int  // 0: lines are not wrapped
	bold  bool // headings
	err   error
}

// New is a Printer for a stream. On a terminal lines are wrapped to its width
// (or that of COLUMNS) and headings are bold, unless NO_COLOR is set or TERM is
// dumb; elsewhere neither. lookup is os.LookupEnv.
func New(w io.Writer, lookup func(string) (string, bool)) *Printer {
	p := &Printer{w: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	p.width = 80
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		p.width = columns
	}
	if text, _ := lookup("COLUMNS"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			p.width = n
		}
	}
	p.width = max(40, p.width)
	noColour, _ := lookup("NO_COLOR")
	kind, _ := lookup("TERM")
	p.bold = noColour == "" && kind != "dumb"
	return p
}

// Err is the first error of writing.
func (p *Printer) Err() error { return p.err }

func (p *Printer) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// Heading prints one line that stands out.
func (p *Printer) Heading(s string) {
	s = Clean(s)
	if p.bold {
		s = "\x1b[1m" + s + "\x1b[0m"
	}
	p.write(s + "\n")
}

// Line prints one paragraph, wrapped, with every line indented by some spaces.
func (p *Printer) Line(indent int, s string) {
	for _, l := range p.wrap(Clean(s), indent) {
		p.write(strings.Repeat(" ", indent) + l + "\n")
	}
}

// Block prints text as it is, with its own lines but without control characters.
func (p *Printer) Block(s string) {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
	for _, l := range lines {
		p.write(cleanLine(l) + "\n")
	}
}

// Exact prints text with its own lines and spacing, every line indented. What a
// terminal would hide or act upon is spelled out as \u and four hexadecimal
// digits, so that JSON stays the same JSON; a tab is spelled out, too.
func (p *Printer) Exact(indent int, s string) {
	for line := range strings.SplitSeq(strings.ToValidUTF8(s, "�"), "\n") {
		p.write(strings.Repeat(" ", indent) + spelled(line) + "\n")
	}
}

// Prompt prints one line without its end.
func (p *Printer) Prompt(s string) { p.write(Clean(s) + " ") }

// Blank prints an empty line.
func (p *Printer) Blank() { p.write("\n") }

// Rows prints rows of cells in aligned columns; the last column is wrapped. A
// cell wider than a third of the width does not push the others aside.
func (p *Printer) Rows(indent int, rows [][]string) {
	var widths []int
	bound := 60
	if p.width > 0 {
		bound = max(12, p.width*2/5)
	}
	for _, r := range rows {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if n := utf8.RuneCountInString(Clean(cell)); i < len(r)-1 && n <= bound {
				widths[i] = max(widths[i], n)
			}
		}
	}
	for _, r := range rows {
		line, at := strings.Repeat(" ", indent), indent
		for i, cell := range r {
			cell = Clean(cell)
			if i < len(r)-1 {
				pad := max(0, widths[i]-utf8.RuneCountInString(cell))
				line += cell + strings.Repeat(" ", pad+2)
				at += widths[i] + 2
				continue
			}
			for j, l := range p.wrap(cell, at) {
				if j == 0 {
					p.write(strings.TrimRight(line+l, " ") + "\n")
				} else {
					p.write(strings.Repeat(" ", at) + l + "\n")
				}
			}
		}
	}
}

// wrap breaks a text at spaces so that it fits beside an indent.
func (p *Printer) wrap(s string, indent int) []string {
	room := p.width - indent
	if p.width == 0 || utf8.RuneCountInString(s) <= room {
		return []string{s}
	}
	room = max(20, room)
	var lines []string
	line, n := "", 0
	for _, word := range strings.Fields(s) {
		w := utf8.RuneCountInString(word)
		if n > 0 && n+1+w > room {
			lines = append(lines, line)
			line, n = "", 0
		}
		if n > 0 {
			line += " "
			n++
		}
		line += word
		n += w
	}
	return append(lines, line)
}

// Clean makes one printable line of any text: runs of white space and control
// characters become one space.
func Clean(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || hidden(r)
	}), " ")
}

// cleanLine keeps the spacing of a line and replaces what is not printable.
func cleanLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && hidden(r) {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// hidden are control characters and those that change the direction of text.
func hidden(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029
}

// spelled writes what can not be seen as \uXXXX, beyond the sixteen-bit range as
// the two surrogates that JSON uses.
func spelled(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case !unseen(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unseen are the hidden characters and all others that show as nothing, or as a
// space that is none.
func unseen(r rune) bool {
	switch {
	case r == ' ':
		return false
	case hidden(r), unicode.In(r, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector):
		return true
	}
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true // a joiner, fillers and an empty Braille cell
	}
	return !unicode.IsGraphic(r)
}
