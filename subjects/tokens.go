package subjects

import (
	"fmt"
	"strings"
)

// MaxToken is the longest token (tenant, session, user, call id, approver) in
// characters.
const MaxToken = 64

// ErrToken says which token of a subject or message breaks the grammar
// [A-Za-z0-9_-]{1,64}. Its wire code is BAD_REQUEST.
type ErrToken struct {
	Kind  string // "tenant", "session", "user", "call id", "approver", …
	Value string // the offending value, cut to MaxToken characters
}

func (e *ErrToken) Error() string {
	if e.Value == "" {
		return e.Kind + " is empty: 1 to 64 characters of A-Z a-z 0-9 _ - are expected"
	}
	return fmt.Sprintf("%s %q is not valid: 1 to 64 characters of A-Z a-z 0-9 _ - are expected, and tenants and sessions do not start with _", e.Kind, e.Value)
}

func safeByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// ValidToken reports whether s may stand as one token: 1 to 64 characters of
// A-Z, a-z, 0-9, _ and -.
func ValidToken(s string) bool {
	if s == "" || len(s) > MaxToken {
		return false
	}
	for i := range len(s) {
		if !safeByte(s[i]) {
			return false
		}
	}
	return true
}

// CheckToken returns an *ErrToken when s may not stand as the token of that
// kind. Tenants and sessions may not start with "_" either: such tokens name
// the contract's own subjects.
func CheckToken(kind, s string) error {
	if ValidToken(s) && !((kind == "tenant" || kind == "session") && s[0] == '_') {
		return nil
	}
	shown := strings.ToValidUTF8(s, "�")
	if r := []rune(shown); len(r) > MaxToken {
		shown = string(r[:MaxToken])
	}
	return &ErrToken{Kind: kind, Value: shown}
}

const upperHex = "0123456789ABCDEF"

// EncodeToolset turns any toolset name into one subject token (and KV key
// part): every byte outside [A-Za-z0-9_-] becomes "=XX" with upper-case hex.
// Names that differ stay different.
func EncodeToolset(name string) string {
	n := 0
	for i := range len(name) {
		if !safeByte(name[i]) {
			n++
		}
	}
	if n == 0 {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + 2*n)
	for i := range len(name) {
		c := name[i]
		if safeByte(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('=')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
	return b.String()
}

// DecodeToolset is the inverse of EncodeToolset. It accepts only what
// EncodeToolset produces (upper-case hex, no needless escapes), so that a name
// has exactly one spelling on the bus.
func DecodeToolset(token string) (string, error) {
	if token == "" {
		return "", &ErrToken{Kind: "toolset"}
	}
	if !strings.Contains(token, "=") {
		for i := range len(token) {
			if !safeByte(token[i]) {
				return "", fmt.Errorf("toolset token %q: byte %d is neither in [A-Za-z0-9_-] nor an =XX escape", token, i)
			}
		}
		return token, nil
	}
	var b strings.Builder
	b.Grow(len(token))
	for i := 0; i < len(token); i++ {
		c := token[i]
		if safeByte(c) {
			b.WriteByte(c)
			continue
		}
		if c != '=' || i+2 >= len(token) {
			return "", fmt.Errorf("toolset token %q: byte %d is neither in [A-Za-z0-9_-] nor an =XX escape", token, i)
		}
		hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("toolset token %q: %q at byte %d is not an =XX escape with upper-case hex", token, token[i:i+3], i)
		}
		d := byte(hi<<4 | lo)
		if safeByte(d) {
			return "", fmt.Errorf("toolset token %q: %q at byte %d escapes a byte that needs none", token, token[i:i+3], i)
		}
		b.WriteByte(d)
		i += 2
	}
	return b.String(), nil
}
