package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

//go:embed completion
var completionScripts embed.FS

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

// Help is shown by --help.
func (completionCommand) Help() string {
	return `bash: source <(toolbridge completion bash)
zsh:  source <(toolbridge completion zsh)
fish: toolbridge completion fish | source`
}

func (c *completionCommand) Run(p *program) error {
	script, err := completionScripts.ReadFile("completion/" + c.Shell)
	if err != nil {
		return fmt.Errorf("the script for %s: %w", c.Shell, err)
	}
	return printLine(p.stdout, script)
}

// completeCommand is what the scripts ask: the words typed so far, the last of
// them, maybe empty, being the one to complete. It prints one candidate a line,
// with a tab and its help, and ":files" where file names fit.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c *completeCommand) Run(p *program) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range complete(p.model.Node, words) {
		if err := printLine(p.stdout, []byte(candidate)); err != nil {
			return err
		}
	}
	return nil
}

const completeFiles = ":files"

func complete(node *kong.Node, words []string) []string {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "=" }) // bash splits --flag=value
	current := ""
	if len(words) > 0 {
		current, words = words[len(words)-1], words[:len(words)-1]
	}
	flags := slices.Clone(node.Flags)
	var pending *kong.Flag // its value comes next
	positionals := 0
	for _, w := range words {
		if pending != nil {
			pending = nil
			continue
		}
		if strings.HasPrefix(w, "-") && w != "-" {
			if f := flagOf(flags, w); f != nil && !strings.Contains(w, "=") && !f.IsBool() {
				pending = f
			}
			continue
		}
		if child := childOf(node, w); child != nil {
			node = child
			flags = append(flags, node.Flags...)
			continue
		}
		positionals++
	}
	if pending != nil {
		return valuesOf(pending.Value, current)
	}
	if name, value, ok := strings.Cut(current, "="); ok && strings.HasPrefix(name, "--") {
		if f := flagOf(flags, name); f != nil {
			return valuesOf(f.Value, value)
		}
		return nil
	}
	if strings.HasPrefix(current, "-") {
		var out []string
		for _, f := range flags {
			if name := "--" + f.Name; !f.Hidden && strings.HasPrefix(name, current) {
				out = append(out, name+"\t"+firstSentence(f.Help))
			}
		}
		return out
	}
	if len(node.Children) > 0 {
		var out []string
		for _, child := range node.Children {
			if !child.Hidden && strings.HasPrefix(child.Name, current) {
				out = append(out, child.Name+"\t"+firstSentence(child.Help))
			}
		}
		return out
	}
	if len(node.Positional) == 0 {
		return nil
	}
	return valuesOf(node.Positional[min(positionals, len(node.Positional)-1)], current)
}

func flagOf(flags []*kong.Flag, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, f := range flags {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// valuesOf are the values that a flag or argument may take, as far as they are
// known.
func valuesOf(v *kong.Value, current string) []string {
	if v.Enum != "" {
		var out []string
		for _, e := range v.EnumSlice() {
			if e != "" && strings.HasPrefix(e, current) {
				out = append(out, e)
			}
		}
		return out
	}
	if v.Tag != nil && (v.Tag.Type == "path" || v.Tag.Type == "existingfile") {
		return []string{completeFiles}
	}
	return nil
}

func firstSentence(help string) string {
	s, _, _ := strings.Cut(help, ". ")
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(s, ".")
}
