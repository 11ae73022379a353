package catalog

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"toolbridge/subjects"
)

// Schemas that stand in for one that is missing or unusable.
const (
	noSchema  = `{}`
	anyObject = `{"type":"object"}`
)

// add makes a definition of what the reader holds, or a warning.
func (c *collector) add(i int, r *reader) {
	raw := jsontext.Value(r.text[r.whole.start:r.whole.end:r.whole.end])
	if len(raw) > c.lim.DefinitionBytes {
		c.tooLarge(i, len(raw), 0)
		return
	}
	chars, depth := measure(raw)
	if depth > c.lim.Depth {
		c.tooLarge(i, 0, depth)
		return
	}
	c.seen++
	d := Definition{Raw: raw, chars: chars}
	p, s := dialectOf(r, &d)
	if !c.name(i, &d, p.name) {
		return
	}
	if r.twice != "" {
		c.warn(subjects.WarnNotAnObject, label(i, d.Name), fmt.Sprintf("%s is left out: its member %s stands there twice, so that its readers would not agree", label(i, d.Name), quoteShort(r.twice)))
		return
	}
	if !c.stands(i, d.Name) {
		return
	}
	c.description(&d, p.description)
	c.parameters(&d, s)
	c.toolset(&d, r.top.toolset)
	c.annotations(&d, r.top.annotations)
	c.parallel(&d, r.top.parallel)
	c.aliases(&d, r.top.aliases)
	c.owner(&d, r.top.owner, r.fn.owner)
	for _, cut := range r.own {
		n, _ := measure(r.text[cut.start:cut.end])
		d.chars -= n
		d.own = append(d.own, span{cut.start - r.whole.start, cut.end - r.whole.start})
	}
	c.definitions = append(c.definitions, d)
}

// dialectOf finds out the dialect by the members that are there, and where its
// name, description and schema stand.
func dialectOf(r *reader, d *Definition) (*parts, *schema) {
	t := &r.top
	switch {
	case t.function:
		d.Dialect = OpenAI
		return &r.fn, &r.fn.parameters
	case t.seen&bitInputSchema != 0:
		d.Dialect = Anthropic
		return t, &t.inputSchema
	case t.seen&bitCamelSchema != 0:
		d.Dialect = MCP
		return t, &t.camelSchema
	case string(t.kind) == `"function"`:
		d.Dialect = Responses
	default:
		d.Dialect = Plain
	}
	return t, &t.parameters
}

// name checks the name and reports whether the definition can stay.
func (c *collector) name(i int, d *Definition, v jsontext.Value) bool {
	where := label(i, "")
	if v == nil || v.Kind() == 'n' {
		c.warn(subjects.WarnNameMissing, where, where+" is left out: it has no name")
		return false
	}
	if v.Kind() != '"' {
		c.warn(subjects.WarnNameInvalid, where, where+" is left out: its name is not a string")
		return false
	}
	d.Original = text(v)
	if longer(d.Original, c.lim.NameChars) {
		c.warn(subjects.WarnNameInvalid, where, fmt.Sprintf("%s is left out: its name has more than %d characters", where, c.lim.NameChars))
		return false
	}
	d.Name = cleanName(d.Original)
	switch {
	case d.Name == "":
		c.warn(subjects.WarnNameMissing, where, where+" is left out: its name is blank")
		return false
	case likeBridge(d.Name) != "":
		c.warn(subjects.WarnNameReserved, d.Name, fmt.Sprintf("%s is left out: the bridge tool %s has that name", d.Name, likeBridge(d.Name)))
		return false
	case IsConnector(d.Name):
		c.warn(subjects.WarnNameReserved, label(i, d.Name), label(i, d.Name)+" is left out: names beginning "+ConnectorPrefix+" are the gateway's")
		return false
	case d.Name != d.Original:
		c.warn(subjects.WarnNameInvalid, label(i, d.Name), fmt.Sprintf("the name of tools[%d] holds white space or control characters; the tool is called %s here", i, quoteShort(d.Name)))
	}
	return true
}

func (c *collector) description(d *Definition, v jsontext.Value) {
	if v == nil || v.Kind() == 'n' {
		return
	}
	if v.Kind() != '"' {
		c.warn(subjects.WarnDescriptionInvalid, label(0, d.Name), label(0, d.Name)+": the description is not a string and is left out")
		return
	}
	d.Description = text(v)
	if longer(d.Description, c.lim.IndexedChars) {
		c.warn(subjects.WarnDescriptionTooLong, label(0, d.Name), fmt.Sprintf("%s: the description is searched by its first %d characters only, and tool_describe gives at most %d", label(0, d.Name), c.lim.IndexedChars, c.lim.DescriptionChars))
	}
	if shown := clip(d.Description, c.lim.DescriptionChars); len(shown) != len(d.Description) {
		d.whole, d.Description = d.Description, shown
	}
}

func (c *collector) parameters(d *Definition, s *schema) {
	switch {
	case s.value == nil || s.value.Kind() == 'n':
		d.Parameters = jsontext.Value(noSchema)
	case s.value.Kind() == '{':
		d.Parameters = s.value
		d.Properties = s.properties[:min(len(s.properties), c.lim.IndexedProperties)]
		d.Required = s.required
	case s.value.Kind() == 't':
		d.Parameters = s.value
	default:
		d.Parameters, d.hashed = jsontext.Value(anyObject), s.value
		c.warn(subjects.WarnParametersInvalid, label(0, d.Name), label(0, d.Name)+": the parameter schema is not an object; one that takes any object stands in for it")
	}
}

// ignored warns that one of Toolbridge's own fields has the wrong type.
func (c *collector) ignored(d *Definition, field, want string) {
	c.warn(subjects.WarnFieldInvalid, label(0, d.Name), fmt.Sprintf("%s: %s must be %s; it is ignored", label(0, d.Name), field, want))
}

func (c *collector) toolset(d *Definition, v jsontext.Value) {
	if v != nil && v.Kind() != 'n' {
		if v.Kind() == '"' && !longer(text(v), c.lim.NameChars) {
			d.Toolset = collapse(text(v))
		} else {
			c.ignored(d, "toolset", fmt.Sprintf("a string of at most %d characters", c.lim.NameChars))
		}
	}
	if d.Toolset == "" {
		d.Toolset = mcpToolset(d.Name)
	}
}

func (c *collector) annotations(d *Definition, v jsontext.Value) {
	if v == nil || v.Kind() == 'n' {
		return
	}
	list, err := members(v)
	if err != nil {
		c.ignored(d, "annotations", "an object")
		return
	}
	for _, m := range list {
		var hint **bool
		switch m.name {
		case "readOnlyHint":
			hint = &d.Annotations.ReadOnlyHint
		case "destructiveHint":
			hint = &d.Annotations.DestructiveHint
		case "idempotentHint":
			hint = &d.Annotations.IdempotentHint
		case "openWorldHint":
			hint = &d.Annotations.OpenWorldHint
		default:
			continue
		}
		switch m.value.Kind() {
		case 't', 'f':
			b := m.value.Kind() == 't'
			*hint = &b
		case 'n':
		default:
			c.ignored(d, "annotations."+m.name, "true or false")
		}
	}
}

func (c *collector) parallel(d *Definition, v jsontext.Value) {
	switch {
	case v == nil:
	case v.Kind() == 't':
		d.Parallel = true
	case v.Kind() != 'f' && v.Kind() != 'n':
		c.ignored(d, "parallel", "true or false")
	}
}

func (c *collector) aliases(d *Definition, v jsontext.Value) {
	if v == nil || v.Kind() == 'n' {
		return
	}
	want := fmt.Sprintf("a list of at most %d names", c.lim.Aliases)
	if v.Kind() != '[' {
		c.ignored(d, "aliases", want)
		return
	}
	wrong := false
	for _, e := range elements(v) {
		if e.Kind() != '"' {
			wrong = true
			continue
		}
		name := collapse(unquote(e))
		if len(d.Aliases) >= c.lim.Aliases || longer(name, c.lim.NameChars) {
			wrong = true
			continue
		}
		if name != "" && !slices.Contains(d.Aliases, name) {
			d.Aliases = append(d.Aliases, name)
		}
	}
	if wrong {
		c.warn(subjects.WarnFieldInvalid, label(0, d.Name), fmt.Sprintf("%s: aliases must be %s; what is not is ignored", label(0, d.Name), want))
	}
}

func (c *collector) owner(d *Definition, values ...jsontext.Value) {
	for _, v := range values {
		if v != nil && v.Kind() == '"' && d.SourceName == "" && !longer(text(v), c.lim.NameChars) {
			d.SourceName = collapse(text(v))
		}
	}
}
