package arguments

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits on arguments. Beyond them a call is refused.
const (
	maxArgumentBytes  = DefaultMaxBytes
	maxArgumentDepth  = DefaultMaxDepth
	maxArgumentValues = 200_000
)

// maxRepairSteps bounds the work of one repair beyond what it asks the
// validator.
const maxRepairSteps = 20_000

// Up to so many values and bytes, arguments can not be the reason why
// validation would take too long: the schema is.
const (
	smallArgumentValues = 2000
	smallArgumentBytes  = 64 << 10
)

// Repair holds arguments, one JSON object, against the schema. Arguments that
// are valid come back as they are, the same bytes. Otherwise what clearly means
// a valid value is turned into it, and the result is valid; every byte that was
// not repaired is the caller's, in the caller's order. Otherwise the error
// tells the one thing that is wrong first. Repairing a result changes nothing.
//
// Repaired are: text that spells a number, a truth value, null, an array or an
// object where the schema takes that and not the text; at the top level a bare
// value where an array is expected; blank text for an object without required
// properties; null and "" for an optional property that can not take it, which
// are left out. This holds inside objects and arrays too, and through local
// $ref, allOf, and anyOf or oneOf when exactly one branch is then valid.
// Numbers keep their digits.
func (s *Schema) Repair(arguments []byte) (repaired []byte, err *Invalid) {
	root, err := s.read(arguments)
	if err != nil {
		return nil, err
	}
	if missing := s.missing(root); len(missing) > 0 {
		return nil, s.missingError(missing)
	}
	if s.graph == nil {
		return arguments, nil
	}
	r := &repair{enforced: s.Enforced(), steps: maxRepairSteps, meter: meter{left: maxSteps}}
	if !r.enforced {
		if fixed := r.fix(s.graph.root, root, 0, nil); fixed != root {
			return fixed.appendText(make([]byte, 0, len(arguments)+16)), nil
		}
		return arguments, nil
	}
	failed, ok, affordable := s.check(root)
	switch {
	case ok:
		return arguments, nil
	case !affordable && (root.count > smallArgumentValues || len(arguments) > smallArgumentBytes):
		return nil, s.tooMuch()
	case !affordable:
		return arguments, nil // it can not be decided in time
	}
	fixed := r.fix(s.graph.root, root, 0, nil)
	if fixed != root {
		failed, ok, affordable = s.check(fixed)
		if ok {
			return fixed.appendText(make([]byte, 0, len(arguments)+16)), nil
		}
		if !affordable {
			return nil, s.tooMuch()
		}
	}
	return nil, s.report(failed, fixed)
}

func (s *Schema) tooMuch() *Invalid {
	return s.invalid(nil, "maximum", "the arguments hold too much to be checked against this schema; send less in one call")
}

// check asks the validator, if what it would do is affordable.
func (s *Schema) check(root *value) (failed failure, ok, affordable bool) {
	m := meter{left: maxSteps}
	if !m.walk(s.graph.root, root) {
		return failure{}, false, false
	}
	failed, ok = s.graph.root.checker.check(root.plain())
	return failed, ok, true
}

// read parses arguments and refuses what no tool can be sent.
func (s *Schema) read(arguments []byte) (*value, *Invalid) {
	root, err := parse(arguments, limits{maxArgumentBytes, maxArgumentDepth, maxArgumentValues})
	if err != nil {
		return nil, s.unreadable(arguments, err)
	}
	if root.kind != '{' {
		return nil, s.invalid(nil, "type", "must be an object, not "+kindName(root.kind))
	}
	if steps, literal := uncarriable(root, nil); literal != "" {
		return nil, s.invalid(steps, "type", "the number "+cut(literal, 40)+" is out of range: no receiver could read it as written")
	}
	return root, nil
}

func (s *Schema) unreadable(arguments []byte, err error) *Invalid {
	if errors.Is(err, errTooLarge) || errors.Is(err, errTooDeep) || errors.Is(err, errTooMany) {
		return s.invalid(nil, "maximum", "the arguments are "+err.Error()+"; send less in one call")
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return s.invalid(nil, "json", "is not valid JSON: "+err.Error())
	}
	steps := stepsOfPointer(syntax.JSONPointer)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return s.invalid(steps, "json", "is named twice, and it is not clear which value is meant")
	case isNotANumber(arguments, syntax.ByteOffset):
		return s.invalid(steps, "type", "NaN and Infinity are no JSON numbers")
	}
	return s.invalid(steps, "json", "is not valid JSON: "+readError(err))
}

// uncarriable finds the first number that can not be sent as it is.
func uncarriable(v *value, at []step) ([]step, string) {
	if v.kind == '0' && !carriable(v.text) {
		return at, v.text
	}
	for i := range v.children {
		next := step{index: i}
		if v.kind == '{' {
			next = step{name: v.children[i].name, index: -1}
		}
		if steps, literal := uncarriable(v.children[i].val, append(at[:len(at):len(at)], next)); literal != "" {
			return steps, literal
		}
	}
	return nil, ""
}

// missing are the names of the top-level required that are no members. null
// counts as given.
func (s *Schema) missing(root *value) []string {
	var names []string
	for _, name := range s.required {
		if root.member(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

func (s *Schema) missingError(missing []string) *Invalid {
	quoted := make([]string, len(missing))
	for i, m := range missing {
		quoted[i] = quoteText(m)
	}
	e := s.invalid(nil, "required", "missing "+strings.Join(quoted, ", "))
	e.Missing = missing
	return e
}
