package worker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// content is what one catalog consists of. Its bytes (encode) are what the hash
// is taken over and what the object store keeps; decode gives back an equal
// value on any worker.
type content struct {
	Header contentHeader
	Input  catalog.Input
}

// contentHeader stands as one line of JSON before the array of definitions.
type contentHeader struct {
	Version       int                   `json:"v"`
	Tenant        string                `json:"tenant"`
	Config        json.RawMessage       `json:"config"` // the effective tools.tool_search
	ContextLength int64                 `json:"context_length"`
	Dialect       catalog.Dialect       `json:"dialect"`
	Surface       string                `json:"surface,omitempty"`
	Connectors    bool                  `json:"connectors,omitempty"` // the session asked for them and could have them
	Unavailable   []catalog.Unavailable `json:"unavailable,omitempty"`
	// Hidden are the toolsets behind Unavailable, in the same order.
	Hidden []string `json:"hidden,omitempty"`
	Runs   []run    `json:"runs"`
}

// run says where a number of neighbouring definitions comes from.
type run struct {
	Count   int    `json:"n"`
	Toolset string `json:"toolset,omitempty"` // of the registry; "" for the session's own
	SHA256  string `json:"sha256,omitempty"`  // of the registry's blob
	Trusted bool   `json:"trusted,omitempty"`
}

const contentVersion = 1

func (c *content) encode() ([]byte, error) {
	header, err := subjects.Encode(c.Header)
	if err != nil {
		return nil, fmt.Errorf("writing catalog content: %w", err)
	}
	size := len(header) + 3
	for i := range c.Input.Definitions {
		size += len(c.Input.Definitions[i].Raw) + 1
	}
	b := make([]byte, 0, size)
	b = append(append(b, header...), '\n', '[')
	for i := range c.Input.Definitions {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, c.Input.Definitions[i].Raw...)
	}
	return append(b, ']'), nil
}

// hash names a catalog: the hex after "sha256:".
func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

var errContent = errors.New("catalog content is not readable")

func decodeContent(data []byte, maxTools int) (*content, error) {
	line, array, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, errContent
	}
	c := &content{}
	if err := subjects.Decode(line, &c.Header); err != nil {
		return nil, fmt.Errorf("%w: %w", errContent, err)
	}
	if c.Header.Version != contentVersion {
		return nil, fmt.Errorf("%w: version %d, this worker knows %d", errContent, c.Header.Version, contentVersion)
	}
	defs, _, err := catalog.Decode(array, catalog.Limits{Tools: maxTools})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errContent, err)
	}
	at := 0
	for _, r := range c.Header.Runs {
		if r.Count < 0 || at+r.Count > len(defs) {
			return nil, errContent
		}
		if r.Toolset != "" {
			for i := at; i < at+r.Count; i++ {
				defs[i].Toolset, defs[i].Registry = r.Toolset, true
			}
		}
		at += r.Count
	}
	if at != len(defs) {
		return nil, errContent
	}
	cfg, _ := catalog.ParseConfig(c.Header.Config)
	c.Input = catalog.Input{
		Definitions: defs, Config: cfg, ContextLength: c.Header.ContextLength,
		Dialect: c.Header.Dialect, Unavailable: c.Header.Unavailable,
		Connectors: c.Header.Connectors, ConnectOnly: c.Header.Surface == subjects.SurfaceSide,
	}
	return c, nil
}

// registry reports whether some of the definitions are the registry's.
func (c *content) registry() bool {
	for _, r := range c.Header.Runs {
		if r.Toolset != "" {
			return true
		}
	}
	return false
}

// trusted reports whether hints of a registry toolset's definitions count.
func (c *content) trusted(toolset string) bool {
	for _, r := range c.Header.Runs {
		if r.Toolset == toolset {
			return r.Trusted
		}
	}
	return false
}
