package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxShownName is the longest tool name that model providers accept.
const maxShownName = 64

// hashLength is how many hex digits of a name's SHA-256 tell shortened or
// unprintable names apart.
const hashLength = 8

// ToolName is the name under which a server's tool is shown:
// mcp__<server>__<tool>, made of A-Z a-z 0-9 _ and -, at most 64 characters.
//
// Letters with marks lose the marks (ü becomes u); every other character
// outside the set becomes one "_". When a letter or digit of another script was
// lost that way, "_" and 8 hex digits of the SHA-256 of server and raw name are
// appended, so that names in such scripts stay apart. A longer name is cut and
// gets the same suffix. The name of a tool that needs none of this is plain.
//
// The result is never taken apart again: a Host keeps a table from shown name
// to server and raw name.
func ToolName(server, raw string) string {
	s, lostServer := safe(server)
	t, lostTool := safe(raw)
	name := "mcp__" + s + "__" + t
	if !lostServer && !lostTool && len(name) <= maxShownName {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + raw))
	suffix := "_" + hex.EncodeToString(sum[:])[:hashLength]
	if len(name)+len(suffix) > maxShownName {
		name = name[:maxShownName-len(suffix)]
	}
	return name + suffix
}

// safe replaces what a provider refuses in a name. lost says that a letter or a
// digit could not be kept.
func safe(s string) (out string, lost bool) {
	var b strings.Builder
	for _, r := range norm.NFKD.String(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			b.WriteRune(r)
		case unicode.Is(unicode.Mn, r):
			// the mark of a letter that is kept
		default:
			lost = lost || r == unicode.ReplacementChar || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || unicode.IsSymbol(r) && r > unicode.MaxASCII
			b.WriteByte('_')
		}
	}
	return b.String(), lost
}

// Warning says why a tool of a server is not offered, or not as the server sent
// it.
type Warning struct {
	Server  string
	Tool    string // the raw name, "" when it has none
	Message string
}

func (w Warning) String() string {
	if w.Tool == "" {
		return fmt.Sprintf("MCP server %q: %s", w.Server, w.Message)
	}
	return fmt.Sprintf("MCP server %q, tool %q: %s", w.Server, w.Tool, w.Message)
}

// compose gives every tool of every server its shown name. Where several
// compose alike, the first by server name, then by raw name, stays and the
// others are left out with a warning. Each server's tools keep their order.
func compose(lists map[string][]listedTool) (shown map[string][]shownTool, warnings []Warning) {
	type candidate struct {
		server string
		index  int
		tool   listedTool
	}
	var all []candidate
	for server, list := range lists {
		for i, t := range list {
			all = append(all, candidate{server, i, t})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(strings.Compare(a.server, b.server), strings.Compare(a.tool.Name, b.tool.Name), cmp.Compare(a.index, b.index))
	})
	type owner struct{ server, raw string }
	taken := make(map[string]owner, len(all))
	kept := make(map[string][]candidate, len(lists))
	for _, c := range all {
		name := ToolName(c.server, c.tool.Name)
		if o, ok := taken[name]; ok {
			message := fmt.Sprintf("left out: its name %q is taken by tool %q of server %q; rename the server or the tool", name, o.raw, o.server)
			if o.server == c.server && o.raw == c.tool.Name {
				message = "left out: the server lists this name twice; the first definition stands"
			}
			warnings = append(warnings, Warning{Server: c.server, Tool: c.tool.Name, Message: message})
			continue
		}
		taken[name] = owner{c.server, c.tool.Name}
		kept[c.server] = append(kept[c.server], c)
	}
	shown = make(map[string][]shownTool, len(lists))
	for server, list := range kept {
		slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.index, b.index) })
		tools := make([]shownTool, len(list))
		for i, c := range list {
			tools[i] = shownTool{Shown: ToolName(server, c.tool.Name), listedTool: c.tool}
		}
		shown[server] = tools
	}
	return shown, warnings
}
