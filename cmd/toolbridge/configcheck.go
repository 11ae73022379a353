package main

import (
	"errors"
	"fmt"
	"strings"

	"toolbridge/cmd/toolbridge/internal/config"
)

type configCheckCommand struct {
	File string `arg:"" help:"Configuration file (toolbridge.yaml)."`
}

func (c *configCheckCommand) Run(p *program) error {
	cfg, warnings, err := config.Load(c.File)
	var faults *config.Error
	if err != nil && !errors.As(err, &faults) {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintf(p.stdout, "%s: warning: %s\n", c.File, w)
	}
	if faults != nil {
		for _, f := range faults.Problems {
			fmt.Fprintf(p.stdout, "%s: error: %s\n", c.File, f)
		}
		fmt.Fprintf(p.stderr, "toolbridge: %s can not be used: %s\n", c.File, count(len(faults.Problems), "error"))
		return errReported
	}
	if cfg.Catalog != "" {
		if _, err := config.LoadCatalog(cfg.Catalog); err != nil {
			return err
		}
	}
	if len(warnings) > 0 {
		fmt.Fprintf(p.stdout, "%s: usable, with %s\n", c.File, count(len(warnings), "warning"))
		return nil
	}
	fmt.Fprintf(p.stdout, "%s: ok\n", c.File)
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
