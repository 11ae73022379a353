package arguments

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// This file is the only one that knows the JSON Schema library. It takes a
// prepared schema as text and gives back what holds instances against it;
// instances are values as encoding/json decodes them with UseNumber.

// schemaURL names the one document that a compiler knows. As a URN it is
// never resolved against anything.
const schemaURL = "urn:tool:parameters"

var libraryDrafts = map[int]*jsonschema.Draft{
	4: jsonschema.Draft4, 6: jsonschema.Draft6, 7: jsonschema.Draft7,
	2019: jsonschema.Draft2019, 2020: jsonschema.Draft2020,
}

// checker holds instances against one schema. It is safe for concurrent use.
type checker struct {
	schema *jsonschema.Schema
}

// compileCheckers compiles a schema and, of its subschemas, those at the given
// JSON pointers. A fault of the library is an error like any other.
func compileCheckers(schema []byte, draft int, pointers []string) (root *checker, at map[string]*checker, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, at, err = nil, nil, fmt.Errorf("the validator failed on it: %v", r)
		}
	}()
	c := jsonschema.NewCompiler()
	c.Draft = libraryDrafts[draft]
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("nothing is fetched, %q neither", url)
	}
	if err := c.AddResource(schemaURL, strings.NewReader(string(schema))); err != nil {
		return nil, nil, err
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, nil, err
	}
	at = make(map[string]*checker, len(pointers))
	for _, p := range pointers {
		if sub, err := c.Compile(schemaURL + "#" + p); err == nil {
			at[p] = &checker{sub}
		}
	}
	return &checker{compiled}, at, nil
}

// validatorError is the library's reason for refusing a schema, short. Of
// several the first by place is told, since the library orders them by chance.
func validatorError(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		var refused *jsonschema.SchemaError
		if errors.As(err, &refused) {
			err = refused.Err
		}
		return strings.TrimPrefix(err.Error(), "jsonschema: ")
	}
	first := firstLeaf(invalid)
	return "it is no valid JSON Schema at #" + first.InstanceLocation + ": " + first.Message
}

func firstLeaf(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	var first *jsonschema.ValidationError
	for _, cause := range e.Causes {
		leaf := firstLeaf(cause)
		if first == nil || leaf.InstanceLocation+" "+leaf.KeywordLocation < first.InstanceLocation+" "+first.KeywordLocation {
			first = leaf
		}
	}
	if first == nil {
		return e
	}
	return first
}

// failure is one node of the validator's account of what is wrong.
type failure struct {
	keyword  []string // the way through the schema, $ref included, to the keyword that failed
	instance []string // the way to the value that failed, as names and indexes
	causes   []failure
	// group marks a node that only gathers its causes; any other is a failure
	// itself, and its causes, if any, explain it.
	group bool
	none  bool // contains: not one element matched
}

// check holds an instance against the schema. ok is also true when the library
// gives up, by panic or because the schema leads in a circle: what can not be
// decided is not refused.
func (c *checker) check(instance any) (failed failure, ok bool) {
	if invalid := c.validate(instance); invalid != nil {
		return readFailure(invalid), false
	}
	return failure{}, true
}

// ok is check without the account of what is wrong.
func (c *checker) ok(instance any) bool { return c.validate(instance) == nil }

func (c *checker) validate(instance any) (invalid *jsonschema.ValidationError) {
	defer func() {
		if recover() != nil {
			invalid = nil
		}
	}()
	errors.As(c.schema.Validate(instance), &invalid)
	return invalid
}

func readFailure(e *jsonschema.ValidationError) failure {
	f := failure{keyword: splitPointer(e.KeywordLocation), instance: splitPointer(e.InstanceLocation)}
	switch {
	case strings.HasPrefix(e.Message, "valid must be >="):
		f.none = strings.HasSuffix(e.Message, "but got 0")
		return f // an element that does not match explains nothing
	case e.Message == "anyOf failed" || e.Message == "oneOf failed":
	default:
		f.group = len(e.Causes) > 0
	}
	for _, cause := range e.Causes {
		f.causes = append(f.causes, readFailure(cause))
	}
	return f
}

func splitPointer(p string) []string {
	if p == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, t := range tokens {
		tokens[i] = unescapeToken(t)
	}
	return tokens
}
