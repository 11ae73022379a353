package mcp

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// inherited are the variables that every server gets from the host: what
// programs need to run and to find their files, and no secrets.
func inherited() []string {
	return []string{
		"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TMP", "TEMP",
		"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "PROGRAMFILES",
	}
}

// lookup is os.LookupEnv or a test's own.
type lookup func(name string) (value string, ok bool)

// environment is what a stdio server gets, sorted by name, and the values that
// must not be repeated in logs and reasons.
func environment(s ServerConfig, env lookup) (environ, secrets []string, err error) {
	set := map[string]string{}
	for _, name := range inherited() {
		if v, ok := env(name); ok {
			set[name] = v
		}
	}
	var errs []error
	for _, name := range s.EnvFrom {
		v, ok := env(name)
		if !ok {
			errs = append(errs, fmt.Errorf("env_from: the environment variable %s is not set", name))
			continue
		}
		set[name] = v
		secrets = append(secrets, v)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		v, err := expand(s.Env[name], env)
		if err != nil {
			errs = append(errs, fmt.Errorf("env %s: %w", name, err))
			continue
		}
		set[name] = v
		secrets = append(secrets, v)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		environ = append(environ, name+"="+set[name])
	}
	return environ, secrets, errors.Join(errs...)
}

// expand replaces ${NAME} and ${NAME:-default} by the host's environment; the
// default stands for a name that is unset or empty. "$${" is a literal "${".
func expand(s string, env lookup) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return "", errors.New("a ${ is not closed by }")
		}
		name, fallback, hasFallback := strings.Cut(s[i+2:i+end], ":-")
		if !validVariable(name) {
			return "", fmt.Errorf("${%s} does not name a variable", name)
		}
		value, ok := env(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !ok:
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		b.WriteString(value)
		s = s[i+end+1:]
	}
}

func validVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// mask replaces every secret in s. Short values are left alone: they would
// match by chance and hide nothing.
func mask(s string, secrets []string) string {
	const shortest = 6
	for _, secret := range secrets {
		if len(secret) >= shortest {
			s = strings.ReplaceAll(s, secret, "***")
		}
	}
	return s
}

var _ lookup = os.LookupEnv
