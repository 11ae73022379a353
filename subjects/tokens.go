package subjects

import (
	"fmt"
	"strings"
)

// MaxToken is the longest token (tenant, session, user, call id, approver) in
// characters.
const MaxToken = 64

// MaxToolset is the longest name of a toolset in bytes; as a token of a subject
// or a key it may take three times as many.
const MaxToolset = 256

// ErrToken says which token of a subject or message breaks the grammar
// [A-Za-z0-9_-]{1,64}, or that of an encoded toolset name. Its wire code is
// BAD_REQUEST.
type ErrToken struct {
	Kind    string // "tenant", "session", "user", "call id", "approver", "toolset", …
	Value   string // the offending value, cut to MaxToken characters
	Problem string // what is wrong with a toolset; else "", the grammar says it
}

func (e *ErrToken) Error() string {
	if e.Problem != "" {
		return fmt.Sprintf("%s %q: %s", e.Kind, e.Value, e.Problem)
	}
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
	return &ErrToken{Kind: kind, Value: shown(s)}
}

func shown(s string) string {
	if len(s) > 4*MaxToken { // before the copies below
		s = s[:4*MaxToken]
	}
	s = strings.ToValidUTF8(s, "�")
	if r := []rune(s); len(r) > MaxToken {
		s = string(r[:MaxToken])
	}
	return s
}

// CheckToolset returns an *ErrToken when name can not be that of a toolset: it
// is empty or longer than MaxToolset bytes. Any other text is one.
func CheckToolset(name string) error {
	if name == "" {
		return &ErrToken{Kind: "toolset", Problem: "the name is empty"}
	}
	if len(name) > MaxToolset {
		return &ErrToken{Kind: "toolset", Value: shown(name), Problem: fmt.Sprintf("the name has %d bytes; at most %d are allowed", len(name), MaxToolset)}
	}
	return nil
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
// EncodeToolset makes of a valid name (upper-case hex, no needless escapes), so
// that a name has exactly one spelling on the bus. Its errors are *ErrToken.
func DecodeToolset(token string) (string, error) {
	bad := func(at int, what string) error {
		return &ErrToken{Kind: "toolset", Value: shown(token), Problem: fmt.Sprintf("byte %d %s", at, what)}
	}
	var b strings.Builder
	b.Grow(min(len(token), MaxToolset))
	for i := 0; i < len(token); i++ {
		c := token[i]
		if safeByte(c) {
			b.WriteByte(c)
			continue
		}
		if c != '=' || i+2 >= len(token) {
			return "", bad(i, "is neither of A-Z a-z 0-9 _ - nor the start of an =XX escape")
		}
		hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
		if hi < 0 || lo < 0 {
			return "", bad(i, "starts no =XX escape with upper-case hex")
		}
		d := byte(hi<<4 | lo)
		if safeByte(d) {
			return "", bad(i, "escapes a character that needs none")
		}
		b.WriteByte(d)
		i += 2
	}
	name := b.String()
	if err := CheckToolset(name); err != nil {
		return "", err
	}
	return name, nil
}
