package mcp

import (
	"errors"
	"fmt"
	"strings"
)

// ParseServer reads the command line's form of a server:
//
//	name=command args…     name=KEY=value command args…     name=https://host/mcp
//
// The command is split as a shell would (SplitCommand), but nothing else of a
// shell is done to it. Leading KEY=value words become the server's environment;
// their values, as the URL, may refer to the host's environment as ${NAME}.
func ParseServer(flag string) (ServerConfig, error) {
	name, line, ok := strings.Cut(flag, "=")
	name = strings.TrimSpace(name)
	if !ok || name == "" {
		return ServerConfig{}, fmt.Errorf("MCP server %q: expected name='command args' or name=https://host/mcp", flag)
	}
	line = strings.TrimSpace(line)
	s := ServerConfig{Name: name}
	if strings.HasPrefix(line, "http://") || strings.HasPrefix(line, "https://") {
		if strings.ContainsAny(line, " \t\n") {
			return ServerConfig{}, fmt.Errorf("MCP server %q: the url %q contains a space", name, line)
		}
		s.URL = line
		return s, s.Check()
	}
	words, err := SplitCommand(line)
	if err != nil {
		return ServerConfig{}, fmt.Errorf("MCP server %q: command %q: %w", name, line, err)
	}
	for len(words) > 0 {
		key, value, ok := strings.Cut(words[0], "=")
		if !ok || !validVariable(key) {
			break
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[key] = value
		words = words[1:]
	}
	if len(words) == 0 {
		return ServerConfig{}, fmt.Errorf("MCP server %q: the command is empty; expected name='command args' or name=https://host/mcp", name)
	}
	s.Command = words
	return s, s.Check()
}

// SplitCommand splits a command line into words by the quoting rules of the
// POSIX shell: spaces, tabs and line ends separate words; '…' is literal; in
// "…" a backslash escapes only $ ` " \ and a line end; elsewhere it escapes any
// character. Nothing is expanded, and | & ; < > are ordinary characters.
func SplitCommand(line string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
	)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case '\'':
			inWord = true
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("the single quote at character %d is not closed", i+1)
			}
			word.WriteString(line[i+1 : i+1+end])
			i += end + 1
		case '"':
			inWord = true
			start := i
			closed := false
			for i++; i < len(line); i++ {
				if line[i] == '"' {
					closed = true
					break
				}
				if line[i] == '\\' && i+1 < len(line) && strings.IndexByte("$`\"\\\n", line[i+1]) >= 0 {
					i++
					if line[i] == '\n' {
						continue
					}
				}
				word.WriteByte(line[i])
			}
			if !closed {
				return nil, fmt.Errorf("the double quote at character %d is not closed", start+1)
			}
		case '\\':
			if i+1 == len(line) {
				return nil, errors.New("it ends with a backslash that escapes nothing")
			}
			i++
			if line[i] == '\n' {
				continue
			}
			inWord = true
			word.WriteByte(line[i])
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
