package arguments

import "github.com/go-json-experiment/json/jsontext"

// Adopt gives the arguments that an entry means. Members that stood beside
// name and arguments are the arguments when arguments was absent or empty and
// every one of them is a parameter of the tool. Otherwise the entry is refused:
// a tool never runs with less than the model said.
func (s *Schema) Adopt(e Entry) (jsontext.Value, *Invalid) {
	if len(e.Extra) == 0 {
		return e.Arguments, nil
	}
	empty := len(compact(e.Arguments)) == 2
	var stray []string
	adopted := []byte("{")
	for _, m := range e.Extra {
		if !s.takes(m.Name) {
			if m.Value.Kind() != 'n' { // null says nothing that could be lost
				stray = append(stray, m.Name)
			}
			continue
		}
		if len(adopted) > 1 {
			adopted = append(adopted, ',')
		}
		adopted = append(append(adopted, quoteText(m.Name)...), ':')
		adopted = append(adopted, m.Value...)
	}
	adopted = append(adopted, '}')
	switch {
	case len(stray) > 0:
		return nil, s.misplaced(e, stray, "is no parameter of this tool")
	case len(adopted) == 2:
		return e.Arguments, nil
	case !empty:
		for _, m := range e.Extra {
			stray = append(stray, m.Name)
		}
		return nil, s.misplaced(e, stray, "belongs inside it with the other parameters")
	}
	return adopted, nil
}

func (s *Schema) misplaced(e Entry, names []string, why string) *Invalid {
	invalid := s.invalid(nil, "additionalProperties", quotedList(names)+` beside "arguments" `+why)
	invalid.Hint = `Put every parameter into "arguments": ` + Shape(e.Name, e.Arguments)
	return invalid
}

// takes tells whether the tool has a parameter of this name.
func (s *Schema) takes(name string) bool {
	if s.graph == nil {
		return false
	}
	found := false
	inPlace([]*node{s.graph.root}, func(n *node) bool {
		_, found = n.properties[name]
		return !found
	}, true)
	return found
}
