package arguments

import (
	"net/url"
	"strconv"
	"strings"
)

// idKeyword is the keyword that names a resource in this draft.
func (d *document) idKeyword() string {
	if d.draft == 4 {
		return "id"
	}
	return "$id"
}

// ownResource tells whether a subschema is a resource of its own, against
// which its references are resolved.
func (d *document) ownResource(s *value) bool {
	if d.draft <= 7 && s.member("$ref") != nil {
		return false
	}
	id := s.member(d.idKeyword())
	return id != nil && id.kind == '"' && !strings.HasPrefix(id.text, "#")
}

func (d *document) collectAnchors(s, base *value) {
	add := func(name string) {
		if d.anchors[base] == nil {
			d.anchors[base] = map[string]*value{}
		}
		if d.anchors[base][name] == nil {
			d.anchors[base][name] = s
		}
	}
	if d.draft <= 7 {
		if id := s.member(d.idKeyword()); id != nil && id.kind == '"' {
			if _, name, ok := strings.Cut(id.text, "#"); ok && name != "" {
				add(name)
			}
		}
		return
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if a := s.member(keyword); a != nil && a.kind == '"' && (keyword == "$anchor" || d.draft == 2020) {
			add(a.text)
		}
	}
}

// follow resolves the references of one schema. Nothing is ever fetched: a
// reference to another document makes the schema unenforceable, and so does one
// that leads nowhere.
func (d *document) follow(s *value) {
	if ref := s.member("$ref"); ref != nil && ref.kind == '"' {
		d.link(s, ref.text)
	}
	switch {
	case d.draft == 2019 && s.member("$recursiveRef") != nil:
		d.linkDynamic(s, "$recursiveRef", "$recursiveAnchor")
	case d.draft == 2020 && s.member("$dynamicRef") != nil:
		d.linkDynamic(s, "$dynamicRef", "$dynamicAnchor")
	}
}

func (d *document) link(s *value, ref string) {
	if !strings.HasPrefix(ref, "#") {
		d.giveUp("it refers to another document, " + quoteText(cut(ref, 100)) + ", and nothing is fetched")
		return
	}
	target := d.resolve(d.bases[s], ref[1:])
	if !isSchema(target) {
		d.giveUp("its reference " + quoteText(cut(ref, 100)) + " leads nowhere")
		return
	}
	d.targets[s] = target
	if target.kind == '{' {
		d.parents[target] = append(d.parents[target], applied{s, "$ref"})
		d.walk(target, d.bases[s])
	}
}

// linkDynamic turns a dynamic reference into a plain one. In a schema that
// stands alone the two differ only when several anchors bear the name; such a
// schema is not enforced.
func (d *document) linkDynamic(s *value, keyword, anchor string) {
	ref := s.member(keyword)
	if ref.kind != '"' {
		return // the validator refuses the schema
	}
	anchored := 0
	for _, other := range d.schemas {
		a := other.member(anchor)
		if a != nil && (a.kind == 't' || a.kind == '"' && "#"+a.text == ref.text) {
			anchored++
		}
	}
	if anchored > 1 || s.member("$ref") != nil {
		d.giveUp("its " + keyword + " can mean more than one schema")
		return
	}
	drop(s, keyword)
	set(s, "$ref", scalarText(ref.text))
	d.link(s, ref.text)
}

// resolve finds what a fragment means within a resource.
func (d *document) resolve(base *value, fragment string) *value {
	if fragment == "" || fragment == "/" {
		return base
	}
	if text, err := url.PathUnescape(fragment); err == nil {
		fragment = text
	}
	if !strings.HasPrefix(fragment, "/") {
		return d.anchors[base][fragment]
	}
	at := base
	for _, token := range strings.Split(fragment[1:], "/") {
		if at == nil {
			return nil
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if at.kind == '[' {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at.children) {
				return nil
			}
			at = at.children[i].val
			continue
		}
		at = at.member(token)
	}
	return at
}

// relink writes every reference as a pointer from the root, to where its
// target stands now, and takes out what named resources: the document is one
// resource, and nothing in it can lead outside.
func (d *document) relink() {
	if len(d.targets) == 0 {
		return
	}
	where := map[*value]string{}
	var locate func(v *value, pointer string)
	locate = func(v *value, pointer string) {
		if v.kind != '{' && v.kind != '[' && !isSchema(v) {
			return
		}
		where[v] = pointer
		for i := range v.children {
			token := strconv.Itoa(i)
			if v.kind == '{' {
				token = escapeToken(v.children[i].name)
			}
			locate(v.children[i].val, pointer+"/"+token)
		}
	}
	locate(d.root, "")
	for s, target := range d.targets {
		pointer, ok := where[target]
		if !ok {
			d.giveUp("one of its references leads into what is not enforced")
			return
		}
		set(s, "$ref", scalarText("#"+pointer))
	}
}

// escapeToken writes one step of a JSON pointer in a URI fragment.
func escapeToken(token string) string {
	return url.PathEscape(strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
}

// unescapeToken undoes escapeToken.
func unescapeToken(token string) string {
	if text, err := url.PathUnescape(token); err == nil {
		token = text
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

func scalarText(s string) *value {
	return &value{kind: '"', text: s, count: 1}
}
