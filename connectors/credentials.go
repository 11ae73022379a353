package connectors

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"toolbridge/subjects"
)

// Who is whose account is used. User comes from the session's grant; in dev it may
// be the configured one.
type Who struct{ Tenant, User string }

// ErrNoIdentity says that a user has no identity at the gateway yet.
var ErrNoIdentity = errors.New("no identity at the gateway yet")

// Credential is what a request of one user is sent with.
type Credential struct {
	Token        string // bearer token
	Guest        bool   // of a guest identity
	ManagedTools bool   // the identity may use connectors; a guest always may
}

// Credentials finds users' tokens. The error is ErrNoIdentity where a user has
// none. It must be safe for many goroutines, quick, and bounded by ctx.
type Credentials interface {
	Token(ctx context.Context, who Who) (Credential, error)
}

// refuser is implemented by Credentials that keep tokens: one that the gateway
// refused is not given out again while another can be had.
type refuser interface{ Refused(who Who, token string) }

// Chain asks one after another; the first that knows the user answers. One that
// fails ends the question: nobody acts under another identity because his own could
// not be had.
type Chain []Credentials

// Token implements Credentials.
func (c Chain) Token(ctx context.Context, who Who) (Credential, error) {
	none := ErrNoIdentity
	for _, next := range c {
		cred, err := next.Token(ctx, who)
		if !errors.Is(err, ErrNoIdentity) {
			return cred, err
		}
		if _, knows := LastFailure(err); knows {
			none = err
		}
	}
	return Credential{}, none
}

// Refused tells all of them that the gateway refused a token.
func (c Chain) Refused(who Who, token string) {
	for _, next := range c {
		if r, ok := next.(refuser); ok {
			r.Refused(who, token)
		}
	}
}

// Shared is one token for every user.
type Shared string

// Token implements Credentials.
func (s Shared) Token(context.Context, Who) (Credential, error) {
	if s == "" {
		return Credential{}, ErrNoIdentity
	}
	return credentialOf(string(s)), nil
}

// Fixed are users' tokens.
type Fixed map[Who]string

// Token implements Credentials.
func (f Fixed) Token(_ context.Context, who Who) (Credential, error) {
	token, ok := f[who]
	if !ok {
		return Credential{}, ErrNoIdentity
	}
	return credentialOf(token), nil
}

// TokenFile are users' tokens in a JSON file, {"<tenant>": {"<user>": "<token>"}}.
// It is read again when it has changed; one that can not be read then leaves what
// was read before.
type TokenFile struct {
	path string

	mu      sync.Mutex
	looked  time.Time
	changed time.Time
	size    int64
	tokens  Fixed
}

const (
	maxTokenFile  = 16 << 20
	lookEvery     = time.Second
	maxTokenBytes = 16 << 10
)

// OpenTokenFile reads the file.
func OpenTokenFile(path string) (*TokenFile, error) {
	f := &TokenFile{path: path}
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("gateway.credentials.file: %w", err)
	}
	return f, nil
}

// Token implements Credentials.
func (f *TokenFile) Token(ctx context.Context, who Who) (Credential, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.looked) >= lookEvery {
		f.looked = now
		if info, err := os.Stat(f.path); err == nil && (!info.ModTime().Equal(f.changed) || info.Size() != f.size) {
			_ = f.read() // what was read before stays
		}
	}
	return f.tokens.Token(ctx, who)
}

func (f *TokenFile) read() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if info.Size() > maxTokenFile {
		return fmt.Errorf("%s has %d bytes; at most %d are read", f.path, info.Size(), maxTokenFile)
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	var tenants map[string]map[string]string
	if err := subjects.Decode(data, &tenants); err != nil { // names a tenant or a user, never a token
		return fmt.Errorf(`%s: {"<tenant>": {"<user>": "<token>"}} is expected: %w`, f.path, err)
	}
	tokens := Fixed{}
	for tenant, users := range tenants {
		for user, token := range users {
			if token = strings.TrimSpace(token); !validToken(token) {
				return fmt.Errorf("%s: the token of %s/%s is empty or holds characters that a header can not carry", f.path, tenant, user)
			}
			tokens[Who{tenant, user}] = token
		}
	}
	f.tokens, f.changed, f.size = tokens, info.ModTime(), info.Size()
	return nil
}

// TokensFromEnv reads users' tokens from environment variables: names maps
// "<tenant>/<user>" to a variable.
func TokensFromEnv(names map[string]string, lookup func(string) (string, bool)) (Fixed, error) {
	out := Fixed{}
	for whose, name := range maps.All(names) {
		tenant, user, ok := strings.Cut(whose, "/")
		if !ok || subjects.CheckToken("tenant", tenant) != nil || subjects.CheckToken("user", user) != nil {
			return nil, fmt.Errorf("gateway.credentials.env: %q is not <tenant>/<user>", whose)
		}
		token, err := TokenFromEnv(name, lookup)
		if err != nil {
			return nil, fmt.Errorf("gateway.credentials.env: %w", err)
		}
		out[Who{tenant, user}] = token
	}
	return out, nil
}

// TokenFromEnv reads a token from an environment variable; the error says what is
// wrong with it without showing it.
func TokenFromEnv(name string, lookup func(string) (string, bool)) (string, error) {
	token, ok := lookup(name)
	token = strings.TrimSpace(token)
	switch {
	case !ok || token == "":
		return "", fmt.Errorf("the environment variable %s is not set", name)
	case !validToken(token):
		return "", fmt.Errorf("the environment variable %s holds characters that a header can not carry", name)
	}
	return token, nil
}

// validToken reports whether a token can stand in a header.
func validToken(token string) bool {
	if token == "" || len(token) > maxTokenBytes {
		return false
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return true
}

// credentialOf is a token that nothing else is known of. Where it is a JSON Web
// Token whose claim managed_tools is false, its user has no connectors; the gateway
// decides for itself in any case, so the signature does not matter here.
func credentialOf(token string) Credential {
	c := Credential{Token: token, ManagedTools: true}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return c
	}
	eachMember(payload, func(name string, value json.RawMessage) {
		if name == "managed_tools" && string(value) == "false" {
			c.ManagedTools = false
		}
	})
	return c
}
