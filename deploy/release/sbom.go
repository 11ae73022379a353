package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// bom is the part of a CycloneDX 1.6 document that is written.
type bom struct {
	Schema       string       `json:"$schema"`
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Purl       string     `json:"purl,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type license struct {
	Expression string `json:"expression"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// sbom lists the modules that are linked into a program, as the Go linker recorded
// them in it. licences is a page with a table of direct dependencies ("" for none).
func sbom(w io.Writer, program, version, licences string, at time.Time) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading what %s is made of: %w", program, err)
	}
	known := map[string]string{}
	if licences != "" {
		page, err := os.ReadFile(licences) //nolint:gosec // who runs a build names its files
		if err != nil {
			return fmt.Errorf("reading the licences: %w", err)
		}
		known = licencesOf(string(page))
	}
	digest := sha256.New()
	if err := copyFile(digest, program); err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	sum := digest.Sum(nil)
	body, err := json.MarshalIndent(document(info, version, known, sum, at), "", "  ")
	if err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	_, err = w.Write(append(body, '\n'))
	return err //nolint:wrapcheck // the caller names the file
}

func document(info *debug.BuildInfo, version string, licences map[string]string, sum []byte, at time.Time) bom {
	self := component{
		Type: "application", Ref: "toolbridge", Name: "toolbridge", Version: version,
		Licenses: []license{{"Apache-2.0"}}, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum)}},
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED":
			self.Properties = append(self.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	b := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial:   serial(sum),
		Metadata: metadata{Timestamp: at.Format(time.RFC3339), Component: self},
	}
	compiler := strings.TrimPrefix(info.GoVersion, "go")
	b.Components = append(b.Components, component{
		Type: "library", Ref: "pkg:golang/std@" + compiler, Name: "std", Version: compiler,
		Purl: "pkg:golang/std@" + compiler, Licenses: []license{{"BSD-3-Clause"}},
	})
	for _, m := range info.Deps {
		path, at, sum := m.Path, m.Version, m.Sum
		if m.Replace != nil {
			path, at, sum = m.Replace.Path, m.Replace.Version, m.Replace.Sum
		}
		purl := "pkg:golang/" + path + "@" + at
		c := component{Type: "library", Ref: purl, Name: path, Version: at, Purl: purl}
		if l := licences[path]; l != "" {
			c.Licenses = []license{{l}}
		}
		if sum != "" {
			c.Properties = []property{{"go:sum", sum}}
		}
		b.Components = append(b.Components, c)
	}
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	d := dependency{Ref: self.Ref}
	for _, c := range b.Components {
		d.DependsOn = append(d.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{d}
	return b
}

// serial is a UUID made of the program's own digest: equal programs, equal lists.
func serial(sum []byte) string {
	u := slices.Clone(sum[:16])
	u[6] = u[6]&0x0f | 0x80 // version 8: of our own making
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

var dependencyRow = regexp.MustCompile(`(?m)^\| ([a-z0-9.-]+\.[a-z]+/[^ |]+)[^|]*\|.*\| ([^|]+) \|$`)

// licencesOf reads the table of docs/dependencies.md: SPDX expressions by module.
func licencesOf(page string) map[string]string {
	known := map[string]string{}
	for _, m := range dependencyRow.FindAllStringSubmatch(page, -1) {
		text, _, _ := strings.Cut(m[2], " (")
		known[m[1]] = strings.ReplaceAll(text, " and ", " AND ")
	}
	return known
}
