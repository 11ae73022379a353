package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"toolbridge/cmd/toolbridge/internal/top"
	"toolbridge/subjects"
)

// topCommand shows the fleet as it works.
type topCommand struct {
	Once     time.Duration `placeholder:"DURATION" help:"Watch for so long, print the picture once, and end. Default where standard output is no terminal: 2s."`
	Approver string        `env:"TOOLBRIDGE_APPROVER" placeholder:"NAME" help:"As whom the waiting approvals are listed. Default: your user name, or cli."`
	tenantFlags
}

func (c *topCommand) Help() string { return "Keys: q or Ctrl-C ends it." }

func (c *topCommand) Run(ctx context.Context, p *program) error {
	approver := approverFlags{Approver: c.Approver, tenantFlags: c.tenantFlags}
	if c.Once < 0 {
		return usagef("--once: must be more than zero")
	}
	if err := subjects.CheckToken("approver", approver.name(p)); err != nil {
		return usagef("--approver: %w", err)
	}
	b, err := c.dial(ctx)
	if err != nil {
		return approver.fail(p, err)
	}
	defer func() { _ = b.Close() }()
	space, err := subjects.NewSpace(c.Prefix)
	if err != nil {
		return usagef("--prefix: %w", err)
	}
	fleet := top.NewFleet(time.Now())
	collector := &top.Collector{Conn: b.Conn(), Space: space, Tenant: c.Tenant, Approver: approver.name(p), Fleet: fleet}
	if err := collector.Start(ctx); err != nil {
		return approver.fail(p, err)
	}
	defer collector.Stop()
	file, ok := p.stdout.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	if c.Once > 0 || !terminal {
		select {
		case <-time.After(max(c.Once, onceAtLeast)):
		case <-ctx.Done():
		}
		_, err := fmt.Fprintln(p.stdout, top.Render(fleet.Picture(time.Now()), c.Tenant, 0, 0, false))
		return err
	}
	noColour, _ := p.lookup("NO_COLOR")
	view := &topView{fleet: fleet, tenant: c.Tenant, colour: noColour == ""}
	_, err = tea.NewProgram(view, tea.WithContext(ctx), tea.WithOutput(file), tea.WithoutSignalHandler()).Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// onceAtLeast is how long the parts of a picture take to come.
const onceAtLeast = 2 * time.Second

// topView draws the picture once a second.
type topView struct {
	fleet         *top.Fleet
	tenant        string
	width, height int
	colour        bool
}

type redraw struct{}

func again() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return redraw{} })
}

func (v *topView) Init() tea.Cmd { return again() }

func (v *topView) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		v.width, v.height = m.Width, m.Height
	case tea.KeyPressMsg:
		switch m.String() {
		case "q", "ctrl+c", "esc":
			return v, tea.Quit
		}
	case redraw:
		return v, again()
	}
	return v, nil
}

func (v *topView) View() tea.View {
	view := tea.NewView(top.Render(v.fleet.Picture(time.Now()), v.tenant, v.width, v.height, v.colour))
	view.AltScreen = true
	view.WindowTitle = "toolbridge top"
	return view
}
