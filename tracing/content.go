package tracing

import (
	"bytes"
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
// keys with well-known beginnings, PEM blocks, passwords in addresses.
var secretValues = regexp.MustCompile(`(?i)bearer\s+[a-z0-9._~+/=-]{8,}` +
	`|basic\s+[a-z0-9+/=]{12,}` +
	`|eyJ[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]{8,}\.[a-zA-Z0-9_-]*` +
	`|\b(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza)[-_a-z0-9]{12,}` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END|$)` +
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
// is at most 4 KiB long; cut says that there is more. What is no JSON is shown as
// one text.
func Redact(body []byte) (text string, cut bool) {
	if len(body) > maxContentRead {
		body, cut = body[:maxContentRead], true
	}
	var out bytes.Buffer
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	e := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	named := false
	for out.Len() <= maxContent {
		token, err := d.ReadToken()
		if err != nil {
			break
		}
		token = token.Clone()
		kind := token.Kind()
		parent, length := d.StackIndex(d.StackDepth())
		if kind == '{' || kind == '[' {
			if named {
				// The whole value is hidden: skip it.
				if err := skipRest(d); err != nil {
					break
				}
				_ = e.WriteToken(jsontext.String(Redacted)) // a buffer takes everything
				named = false
				continue
			}
			_ = e.WriteToken(token)
			continue
		}
		isName := kind == '"' && parent == '{' && length%2 == 1
		switch {
		case isName:
			named = secretName(token.String())
			_ = e.WriteToken(jsontext.String(shown(token.String())))
		case kind == '}' || kind == ']':
			_ = e.WriteToken(token)
		case named:
			named = false
			_ = e.WriteToken(jsontext.String(Redacted))
		case kind == '"':
			_ = e.WriteToken(jsontext.String(shown(token.String())))
		default:
			_ = e.WriteToken(token)
		}
	}
	text = strings.TrimRight(out.String(), "\n")
	if text == "" {
		text = shown(string(body))
	}
	if len(text) > maxContent {
		text, cut = text[:maxContent], true
	}
	for text != "" && !utf8.ValidString(text[max(0, len(text)-utf8.UTFMax):]) {
		text = text[:len(text)-1]
	}
	return strings.ToValidUTF8(text, "\uFFFD"), cut
}

func skipRest(d *jsontext.Decoder) error {
	for depth := d.StackDepth(); d.StackDepth() >= depth; {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
	}
	return nil
}

func shown(s string) string { return secretValues.ReplaceAllString(s, Redacted) }
