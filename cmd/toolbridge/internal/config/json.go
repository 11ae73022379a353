package config

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// json renders a value as JSON: numbers as they are written, members in the
// order of the file, of duplicate keys the last. nan, inf and -inf, which JSON
// lacks, become texts.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.render(&b)
	return b.Bytes()
}

func (n *node) render(b *bytes.Buffer) {
	switch n.kind {
	case kindNull:
		b.WriteString("null")
	case kindBool:
		if n.truth {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	case kindNumber:
		if jsonNumber.MatchString(n.text) {
			b.WriteString(n.text)
		} else {
			quote(b, n.text)
		}
	case kindText:
		quote(b, n.text)
	case kindList:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.render(b)
		}
		b.WriteByte(']')
	case kindMapping:
		b.WriteByte('{')
		last := map[string]int{}
		for i, m := range n.members {
			last[m.key] = i
		}
		first := true
		for i, m := range n.members {
			if last[m.key] != i {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			quote(b, m.key)
			b.WriteByte(':')
			m.value.render(b)
		}
		b.WriteByte('}')
	}
}

// quote writes a string with the fewest escapes; invalid UTF-8, which checkText
// refuses, would become U+FFFD.
func quote(b *bytes.Buffer, s string) {
	text, _ := jsontext.AppendQuote(nil, s)
	b.Write(text)
}
