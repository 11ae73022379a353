package tracing

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"
)

const (
	// maxContent is how many bytes of arguments or of a result an attribute holds.
	maxContent = 4 << 10
	// maxContentRead is how much of them is looked at.
	maxContentRead = 64 << 10
	// Redacted stands in place of what must not be shown.
	Redacted = "[redacted]"
)

// secretNames are parts of members' names whose values are not shown.
var secretNames = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "authorization", "credential", "cookie",
	"privatekey", "accesskey", "session_id", "sessionid", "signature", "bearer", "otp", "pin_code", "cvv", "iban", "cardnumber",
}

// secretValues are texts that are secrets wherever they stand: bearer tokens, JWTs,
// keys with well-known beginnings, PEM blocks, passwords in addresses, and what is
// assigned to a secret's name.
var secretValues = regexp.MustCompile(`(?i)bearer\s+[a-z0-9._~+/=-]{8,}` +
	`|basic\s+[a-z0-9+/=]{12,}` +
	`|eyJ[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]*` +
	`|\b(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza)[-_a-z0-9]{12,}` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END|$)` +
	`|\b(?:password|passwd|secret|token|api[_-]?key)["']?\s*[=:]\s*["']?[^\s"',;&]+` +
	`|://[^/\s:@]+:[^/\s@]+@`)

func secretName(name string) bool {
	name = strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(name))
	for _, s := range secretNames {
		if strings.Contains(name, strings.ReplaceAll(s, "_", "")) {
			return true
		}
	}
	return false
}

// Content adds arguments or a result to a span, when the configuration wants that:
// redacted, and cut to 4 KiB, which toolbridge.content.cut tells.
func (t *Tracer) Content(s Span, key attribute.Key, body []byte) {
	if t == nil || !t.content || !s.Recording() || len(body) == 0 {
		return
	}
	text, cut := Redact(body)
	s.Set(key.String(text))
	if cut {
		s.Set(ContentCut.Bool(true))
	}
}

// ContentOf is Content for a span that is reported later.
func (t *Tracer) ContentOf(list []attribute.KeyValue, key attribute.Key, body []byte) []attribute.KeyValue {
	if t == nil || !t.content || len(body) == 0 {
		return list
	}
	text, cut := Redact(body)
	list = append(list, key.String(text))
	if cut {
		list = append(list, ContentCut.Bool(true))
	}
	return list
}

// Redact is a JSON text that may be shown: the values of members whose names say
// that they are secret, and texts that look like keys or tokens, are replaced. It
// is at most 4 KiB long; cut says that there is more, or that the rest can not be
// read. What is no JSON at all is shown as one text.
func Redact(body []byte) (text string, cut bool) {
	if len(body) > maxContentRead {
		body, cut = body[:maxContentRead], true
	}
	r := redactor{d: jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	for len(r.out) <= maxContent {
		if err := r.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			cut = true
			break
		}
	}
	if text = string(r.out); text == "" {
		text = shown(string(body))
	}
	if len(text) > maxContent {
		text, cut = text[:maxContent], true
		for text != "" && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) {
			text = text[:len(text)-1]
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD"), cut
}

// redactor writes what a decoder reads, token by token, so that what is written
// before a fault stays redacted.
type redactor struct {
	d     *jsontext.Decoder
	out   []byte
	named bool // a value follows that is not shown
}

func (r *redactor) next() error {
	parent, length := r.d.StackIndex(r.d.StackDepth())
	token, err := r.d.ReadToken()
	if err != nil {
		return err
	}
	kind := token.Kind()
	if kind == '}' || kind == ']' {
		r.out = append(r.out, byte(kind))
		return nil
	}
	isName := parent == '{' && length%2 == 0
	switch {
	case parent == '{' && !isName:
		r.out = append(r.out, ':')
	case length > 0 && parent != 0:
		r.out = append(r.out, ',')
	case length > 0:
		r.out = append(r.out, ' ')
	}
	switch {
	case isName:
		name := token.String()
		r.named = secretName(name)
		r.quote(shown(name))
	case r.named:
		r.named = false
		r.quote(Redacted)
		if kind == '{' || kind == '[' {
			return skipRest(r.d)
		}
	case kind == '"':
		r.quote(shown(token.String()))
	case kind == '{' || kind == '[':
		r.out = append(r.out, byte(kind))
	default:
		r.out = append(r.out, token.String()...)
	}
	return nil
}

func (r *redactor) quote(s string) {
	r.out, _ = jsontext.AppendQuote(r.out, strings.ToValidUTF8(s, "\uFFFD")) // fails on invalid UTF-8 only
}

// skipRest reads to the end of the object or array that was begun.
func skipRest(d *jsontext.Decoder) error {
	for depth := d.StackDepth(); d.StackDepth() >= depth; {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
	}
	return nil
}

func shown(s string) string { return secretValues.ReplaceAllString(s, Redacted) }
