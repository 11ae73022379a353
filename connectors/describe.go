package connectors

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"toolbridge/catalog"
	"toolbridge/subjects"
)

// Describe asks what the tools of such names are: by the name as it was asked, whose
// connector counts in any case. What the gateway does not have is missing, and so is
// what is no well-formed name; where it gave no answer the notice says so, with the
// names that it concerns. allowed decides by the name that search shows, so that a
// tool which may not be seen is not asked for by another spelling of its name.
func (d *Directory) Describe(ctx context.Context, who Who, names []string, allowed func(name string) bool) (map[string]catalog.Described, *subjects.ConnectorsNotice) {
	asked := map[string][]string{} // slugs by name
	var slugs, concerned []string
	for _, name := range names {
		candidates := askable(name, allowed)
		if len(candidates) == 0 {
			continue
		}
		asked[name] = candidates
		concerned = append(concerned, name)
		for _, c := range candidates {
			if !slices.Contains(slugs, c) {
				slugs = append(slugs, c)
			}
		}
	}
	if len(slugs) == 0 {
		return nil, nil
	}
	schemas, err := d.schemasFromGateway(ctx, who, slugs)
	if err != nil {
		n := noticeOf(err)
		if n != nil {
			n.Names = concerned
		}
		return nil, n
	}
	found := make(map[string]catalog.Described, len(asked))
	for name, candidates := range asked {
		connector, _, _ := Parse(FoldName(name))
		for _, slug := range candidates {
			s, ok := schemas.Schemas[slug]
			if ok && (s.Connector == "" || FoldConnector(s.Connector) == connector) {
				found[name] = described(&s)
				break
			}
		}
	}
	return found, nil
}

// askable are the slugs that a name may stand for and that may be seen.
func askable(name string, allowed func(name string) bool) []string {
	connector, tool, ok := Parse(FoldName(name))
	if !ok || !showable(connector) || !showable(tool) {
		return nil
	}
	return slices.DeleteFunc(Candidates(connector, tool), func(slug string) bool { return !allowed(Compose(connector, slug)) })
}

// schemasFromGateway is the remote leg of a describe, through the breaker.
func (d *Directory) schemasFromGateway(ctx context.Context, who Who, slugs []string) (*SchemasReply, error) {
	done, refused := d.gateway.Breakers.Allow(ctx, who.Tenant)
	if refused != nil {
		return nil, refused
	}
	reply, err := d.gateway.Client.Schemas(ctx, who, slugs)
	done(err)
	if err != nil {
		d.cfg.Logger.Debug("hosted tools are missing from a description", "tenant", who.Tenant, "slugs", len(slugs), "error", err)
	}
	return reply, err
}

// described is a tool as a model may read it. Its schema keeps its bytes; one that
// is no object, or is no JSON, is {}.
func described(s *ToolSchema) catalog.Described {
	description := withAccounts(catalog.OneLine(s.Description, describedChars), readSchema(s.InputSchema).aliases, describedChars)
	schema := bytes.ToValidUTF8(bytes.TrimSpace(s.InputSchema), []byte("\uFFFD"))
	if len(schema) == 0 || schema[0] != '{' || !json.Valid(schema) {
		schema = nil
	}
	return catalog.Described{Description: description, Parameters: schema}
}
