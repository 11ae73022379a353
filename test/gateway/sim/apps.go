package sim

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

//go:embed apps.json
var appsFile []byte

// app is one app of the gateway.
type app struct {
	Connector string  `json:"connector"`
	Label     string  `json:"label"` // of an account, with the user in place of %s
	Tools     []*tool `json:"tools"`
}

// tool is one tool of an app.
type tool struct {
	Slug        string          `json:"tool"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	// Answer is what an execution answers: "$id" becomes a fresh id, "$name" the
	// argument of that name.
	Answer json.RawMessage `json:"answer"`

	app    *app
	words  map[string]bool
	schema *jsonschema.Schema
}

// shelf is all apps there are, by name and by slug.
type shelf struct {
	apps  []*app // by name
	named map[string]*app
	slugs map[string]*tool
	tools []*tool // by slug
}

// readApps reads the built-in apps, and adds so many more that have one tool each.
func readApps(more int) (*shelf, error) {
	s := &shelf{named: map[string]*app{}, slugs: map[string]*tool{}}
	if err := json.Unmarshal(appsFile, &s.apps); err != nil {
		return nil, fmt.Errorf("reading the apps: %w", err)
	}
	for i := range more {
		name := fmt.Sprintf("sample%03d", i+1)
		s.apps = append(s.apps, &app{Connector: name, Label: "%s", Tools: []*tool{{
			Slug: strings.ToUpper(name) + "_GET_ITEM", Description: "Get an item of " + name + ".",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"item":{"type":"string"}}}`),
			Answer:      json.RawMessage(`{"item":"$item"}`),
		}}})
	}
	sort.Slice(s.apps, func(i, j int) bool { return s.apps[i].Connector < s.apps[j].Connector })
	for _, a := range s.apps {
		s.named[a.Connector] = a
		for _, t := range a.Tools {
			schema, err := jsonschema.CompileString(t.Slug, string(t.InputSchema))
			if err != nil {
				return nil, fmt.Errorf("the schema of %s: %w", t.Slug, err)
			}
			t.app, t.schema = a, schema
			t.words = wordsOf(a.Connector + " " + t.Slug + " " + t.Description)
			s.slugs[t.Slug] = t
			s.tools = append(s.tools, t)
		}
	}
	sort.Slice(s.tools, func(i, j int) bool { return s.tools[i].Slug < s.tools[j].Slug })
	return s, nil
}

// find is the tool of a slug, when it belongs to the app.
func (s *shelf) find(connector, slug string) *tool {
	t := s.slugs[slug]
	if t == nil || t.app.Connector != connector {
		return nil
	}
	return t
}

// check validates arguments. What it finds is text for a person.
func (t *tool) check(arguments json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("the arguments are no JSON: %w", err)
	}
	err := t.schema.Validate(v)
	var wrong *jsonschema.ValidationError
	if err == nil {
		return nil
	}
	if !asValidation(err, &wrong) {
		return err
	}
	for len(wrong.Causes) > 0 {
		wrong = wrong.Causes[0]
	}
	at := wrong.InstanceLocation
	if at == "" {
		at = "/"
	}
	return fmt.Errorf("%s: %s", at, wrong.Message)
}

func asValidation(err error, into **jsonschema.ValidationError) bool {
	v, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // the library returns it bare
	*into = v
	return ok
}

// answer fills the tool's answer.
func (t *tool) answer(id string, arguments map[string]json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(t.Answer))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return json.RawMessage("null")
	}
	out, err := json.Marshal(fill(v, id, arguments))
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

func fill(v any, id string, arguments map[string]json.RawMessage) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = fill(e, id, arguments)
		}
	case []any:
		for i, e := range v {
			v[i] = fill(e, id, arguments)
		}
	case string:
		name, ok := strings.CutPrefix(v, "$")
		if !ok {
			return v
		}
		if name == "id" {
			return id
		}
		if raw, ok := arguments[name]; ok {
			return raw
		}
		return nil
	}
	return v
}

// common words that say nothing about a tool.
var common = map[string]bool{
	"a": true, "an": true, "the": true, "of": true, "to": true, "in": true, "on": true, "for": true, "with": true, "and": true, "or": true,
	"from": true, "it": true, "is": true, "are": true, "be": true, "by": true, "my": true, "me": true, "i": true, "as": true, "that": true,
	"not": true, "can": true, "some": true, "one": true, "once": true, "they": true, "without": true, "where": true,
}

// wordsOf are the words of a text, lower case, plurals cut, common ones left out.
func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r < 0x80
	}) {
		if common[w] {
			continue
		}
		if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
			w = w[:len(w)-1]
		}
		words[w] = true
	}
	return words
}
