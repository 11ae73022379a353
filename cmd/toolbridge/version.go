package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"toolbridge/subjects"
)

// Set by the build of a release or an image, with -ldflags "-X main.release=1.2.3":
// its version, its commit and the commit's time in RFC 3339.
var release, commit, date string

// build is what is known about this binary.
type build struct {
	Version string `json:"version"` // SemVer
	Commit  string `json:"commit"`  // "" when it was built outside a checkout
	Date    string `json:"date,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func buildInfo() build {
	b := build{Version: release, Commit: commit, Date: date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if b.Version == "" {
		b.Version = "0.0.0-dev"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || b.Commit != "" {
		return b
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && b.Commit != "" {
		b.Commit += "-dirty"
	}
	return b
}

func (b build) String() string {
	commit := b.Commit
	if commit == "" {
		commit = "unknown"
	}
	if b.Date != "" {
		commit += " of " + b.Date
	}
	return fmt.Sprintf("toolbridge %s (commit %s, %s, %s/%s)", b.Version, commit, b.Go, b.OS, b.Arch)
}

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *versionCommand) Run(p *program) error {
	if c.JSON {
		body, err := subjects.Encode(buildInfo())
		if err != nil {
			return err
		}
		return printLine(p.stdout, body)
	}
	return printLine(p.stdout, []byte(buildInfo().String()))
}

// versionFlag prints the version and exits before anything else is looked at.
type versionFlag bool

// BeforeReset is called by kong when the flag is set.
func (versionFlag) BeforeReset(app *kong.Kong, p *program) error {
	if err := printLine(p.stdout, []byte(buildInfo().String())); err != nil {
		return err
	}
	app.Exit(0)
	os.Exit(0)
	return nil
}
