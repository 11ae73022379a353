// Command release is what deploy/release.sh can not do with a shell alone: archives
// with fixed times, the list of what a program is made of, and checksums. See
// deploy/release.sh.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("archive, sbom or sums is expected")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := flags.String("out", "", "file to write")
	stamp := flags.Int64("time", 0, "time of everything, in unix seconds")
	version := flags.String("version", "", "version of the program")
	licenses := flags.String("licenses", "", "page with the licences of direct dependencies")
	if err := flags.Parse(args[1:]); err != nil {
		return err //nolint:wrapcheck // says what it is about itself
	}
	if flags.NArg() != 1 || *out == "" {
		return fmt.Errorf("%s: -out FILE and one argument are expected", args[0])
	}
	from, at := flags.Arg(0), time.Unix(*stamp, 0).UTC()
	switch args[0] {
	case "archive":
		return create(*out, func(w io.Writer) error { return archive(w, *out, from, at) })
	case "sbom":
		return create(*out, func(w io.Writer) error { return sbom(w, from, *version, *licenses, at) })
	case "sums":
		return sums(*out, from)
	}
	return fmt.Errorf("%q: archive, sbom or sums is expected", args[0])
}

// create writes a file; a failure leaves none behind.
func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path) //nolint:gosec // who runs a build names its files
	if err != nil {
		return fmt.Errorf("creating the file: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		_ = os.Remove(path) //nolint:gosec // the file made above
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
