// Command gateway is the simulator of the gateway and portal, by itself: see
// package sim and README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"toolbridge/test/gateway/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, orphaned := context.WithCancel(ctx)
	defer orphaned()
	if exe, err := os.Executable(); err == nil && strings.Contains(filepath.ToSlash(exe), "/go-build") {
		go withParent(ctx, orphaned)
	}
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "gateway:", err)
		stop()
		os.Exit(1)
	}
}

// withParent ends a simulator that was started by go run when that ends: go run
// does not hand SIGTERM on.
func withParent(ctx context.Context, end func()) {
	parent := os.Getppid()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for os.Getppid() == parent {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	end()
}

// run serves until the context ends. It prints one line to out, the origin.
func run(ctx context.Context, args []string, out, log io.Writer) error {
	set := flag.NewFlagSet("gateway", flag.ContinueOnError)
	set.SetOutput(log)
	var cfg sim.Config
	address := set.String("address", "127.0.0.1:0", "`host:port` to listen on; port 0 is any free one")
	faults := set.String("faults", "", "`file` with the first faults: a JSON array, see the README")
	users := set.String("users", "", "`file` with the users: a JSON array, see the README; without it and --user there are dev, ada and grace")
	set.BoolVar(&cfg.NoGuests, "no-guests", false, "refuse the creation of guest identities")
	set.IntVar(&cfg.MoreApps, "more-apps", 0, "add so many apps of one tool each")
	set.StringVar(&cfg.PublicURL, "public-url", "", "`origin` of the links that connect an account; default: where the request was sent")
	set.Func("user", "`name=token[,app[:alias]…]`, a user with these apps connected; may be repeated", func(text string) error {
		u, err := parseUser(text)
		cfg.Users = append(cfg.Users, u)
		return err
	})
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if *users != "" {
		var more []sim.User
		text, err := os.ReadFile(*users)
		if err == nil {
			err = json.Unmarshal(text, &more)
		}
		if err != nil {
			return fmt.Errorf("reading the users from %s: %w", *users, err)
		}
		cfg.Users = append(cfg.Users, more...)
	}
	if *faults != "" {
		text, err := os.ReadFile(*faults)
		if err == nil {
			cfg.Faults, err = sim.DecodeFaults(text)
		}
		if err != nil {
			return fmt.Errorf("the faults in %s: %w", *faults, err)
		}
	}
	s, err := sim.New(cfg)
	if err != nil {
		return err
	}
	origin, err := s.Start(*address)
	if err != nil {
		return err
	}
	defer s.Stop()
	if _, err := fmt.Fprintln(out, origin); err != nil {
		return fmt.Errorf("printing the address: %w", err)
	}
	<-ctx.Done()
	return nil
}

func parseUser(text string) (sim.User, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok {
		return sim.User{}, errors.New("a user is name=token[,app[:alias]…]")
	}
	parts := strings.Split(rest, ",")
	u := sim.User{Name: name, Token: parts[0]}
	for _, p := range parts[1:] {
		app, alias, _ := strings.Cut(p, ":")
		u.Accounts = append(u.Accounts, sim.Connected{Connector: app, Alias: alias})
	}
	return u, nil
}
