package output

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowsAreAlignedAndWrappedToTheWidth(t *testing.T) {
	var b strings.Builder
	p := &Printer{w: &b, width: 44}
	p.Rows(2, [][]string{
		{"echo", "Echoes the message back to whoever sent it."},
		{"get_sum", "Adds."},
		{"a_name_that_is_far_too_long_for_its_column", "Short."},
	})
	want := `  echo     Echoes the message back to
           whoever sent it.
  get_sum  Adds.
  a_name_that_is_far_too_long_for_its_column  Short.
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsWrappedOrColouredWhereNoTerminalIs(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := New(f, func(string) (string, bool) { return "40", true })
	long := strings.Repeat("many words ", 40)
	p.Heading("tools")
	p.Line(2, long)
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := "tools\n  " + strings.TrimSpace(long) + "\n"; string(got) != want {
		t.Errorf("got %q", got)
	}
}

func TestControlCharactersFromOutsideAreNotPrinted(t *testing.T) {
	var b strings.Builder
	p := &Printer{w: &b, bold: true, width: 80}
	p.Line(0, "a\x1b[31mb\r\n\tc\u202ed\x00\xff")
	p.Rows(0, [][]string{{"x\x1by", "z\x07"}})
	p.Block("one\x1b[2J\n\ttwo  \u2066\r\nthree\n\n")
	if want := "a [31mb c d �\nx y  z\none�[2J\n\ttwo  �\nthree\n"; b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
	b.Reset()
	p.Heading("a\x1bb")
	if b.String() != "\x1b[1ma b\x1b[0m\n" {
		t.Errorf("heading = %q", b.String())
	}
}

func TestExactTextKeepsItsMeaningAndShowsWhatIsHidden(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"a\": \"é 日本 😀\"\n}":            "  {\n    \"a\": \"é 日本 😀\"\n  }\n",
		"\x1b[2J\x7f\u0085\t":                  "  \\u001b[2J\\u007f\\u0085\\u0009\n",
		"\u202e\u2066\u200b\ufeff\u00ad\u2028": "  \\u202e\\u2066\\u200b\\ufeff\\u00ad\\u2028\n",
		"\u00a0\u3000\u2003":                   "  \\u00a0\\u3000\\u2003\n",
		"a\ufe0f\u3164\u115f\u2800\u034f":      "  a\\ufe0f\\u3164\\u115f\\u2800\\u034f\n",
		"\U000e0041\U000e0100":                 "  \\udb40\\udc41\\udb40\\udd00\n",
		"\xff":                                 "  �\n",
		"a\rb":                                 "  a\\u000db\n",
	} {
		var b strings.Builder
		p := &Printer{w: &b, width: 40, bold: true}
		p.Exact(2, text)
		if b.String() != want {
			t.Errorf("%q: %q, want %q", text, b.String(), want)
		}
	}
}
