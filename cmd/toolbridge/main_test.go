package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"toolbridge/client"
	"toolbridge/subjects"
	"toolbridge/test/bus"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"toolbridge":   main,
		"notes-server": notesServer,
	})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Values["daemons"] = map[string]*daemon{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "start": start, "halt": halt, "end": end, "asked": awaitApproval, "execute": execute, "capture": capture, "nats": natsServer,
		},
	})
}

// status CODE PROGRAM ARGS… runs a program and wants that exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE PROGRAM ARGS…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if want, err := strconv.Atoi(args[0]); err != nil || got != want {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// capture VARIABLE REGEXP sets a variable to the first group of the pattern in
// the last standard output.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture VARIABLE REGEXP")
	}
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("%s matches %q", args[1], found)
	}
	ts.Setenv(args[0], found[1])
}

// daemon is a program in the background of a script.
type daemon struct {
	cmd    *exec.Cmd
	first  chan string // line of standard output
	stdout chan string // what came after it
	stderr *os.File
}

// start NAME PATTERN PROGRAM ARGS… runs a program in the background until a
// line with the pattern stands on its standard output, or, for a pattern that
// begins with 2:, on its standard error. A ready line's address becomes
// TOOLBRIDGE_NATS.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: start NAME PATTERN PROGRAM ARGS…")
	}
	name, pattern := args[0], args[1]
	program := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, args[2]); program == "" && executable(p) {
			program = p
		}
	}
	if program == "" {
		ts.Fatalf("%s is not in PATH", args[2])
	}
	d := &daemon{cmd: exec.Command(program, args[3:]...), first: make(chan string, 1), stdout: make(chan string, 1)}
	d.cmd.Dir = ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "XDG_STATE_HOME", "TOOLBRIDGE_NATS", "WORK", "TMPDIR", "GOCOVERDIR", "NOTES_HOST_SUFFIX"} {
		d.cmd.Env = append(d.cmd.Env, key+"="+ts.Getenv(key))
	}
	stdout, err := d.cmd.StdoutPipe()
	ts.Check(err)
	d.stderr, err = os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	d.cmd.Stderr = d.stderr
	ts.Check(d.cmd.Start())
	ts.Defer(func() { _ = d.cmd.Process.Kill() }) // fails when it has ended, as it should
	ts.Value("daemons").(map[string]*daemon)[name] = d

	go func() {
		r := bufio.NewReader(stdout)
		line, _ := r.ReadString('\n')
		d.first <- line
		rest, _ := io.ReadAll(r)
		d.stdout <- string(rest)
	}()
	if onErr, ok := strings.CutPrefix(pattern, "2:"); ok {
		await(ts, name, func() bool { return strings.Contains(ts.ReadFile(name+".err"), onErr) })
		return
	}
	select {
	case line := <-d.first:
		if !strings.Contains(line, pattern) || strings.Count(line, "\n") != 1 {
			ts.Fatalf("%s printed %q, want a line with %q; standard error:\n%s", name, line, pattern, ts.ReadFile(name+".err"))
		}
		if _, url, ok := strings.Cut(line, "nats="); ok {
			url, _, _ = strings.Cut(url, " ")
			ts.Setenv("TOOLBRIDGE_NATS", url)
		}
	case <-time.After(60 * time.Second):
		ts.Fatalf("%s printed nothing within 60 s; standard error:\n%s", name, ts.ReadFile(name+".err"))
	}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func await(ts *testscript.TestScript, name string, ready func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(60 * time.Second); !ready(); {
		select {
		case <-tick.C:
		case <-limit:
			ts.Fatalf("%s is not ready after 60 s; standard error:\n%s", name, ts.ReadFile(name+".err"))
		}
	}
}

// halt NAME SIGNAL sends TERM or INT to a background program, which must end
// with status 0 and have printed nothing after its first line.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: halt NAME TERM|INT")
	}
	if rest := signalDaemon(ts, args[0], args[1]); rest != "" {
		ts.Fatalf("%s also printed %q", args[0], rest)
	}
}

// end NAME SIGNAL is halt for a program that was started with a pattern of
// standard error: all that it printed on standard output becomes NAME.out.
func end(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: end NAME TERM|INT")
	}
	rest := signalDaemon(ts, args[0], args[1])
	first := <-ts.Value("daemons").(map[string]*daemon)[args[0]].first
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".out"), []byte(first+rest), 0o600))
}

// signalDaemon returns what came after the first line.
func signalDaemon(ts *testscript.TestScript, name, sig string) string {
	d := ts.Value("daemons").(map[string]*daemon)[name]
	if d == nil {
		ts.Fatalf("%s was not started", name)
	}
	ts.Check(d.cmd.Process.Signal(map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt}[sig]))
	rest := <-d.stdout
	err := d.cmd.Wait()
	_ = d.stderr.Close()
	if err != nil {
		ts.Fatalf("%s: %v; standard error:\n%s", name, err, ts.ReadFile(name+".err"))
	}
	return rest
}

// nats starts a NATS server until the script ends; its address becomes
// TOOLBRIDGE_NATS.
func natsServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: nats")
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: ts.MkAbs("nats"), MaxPayload: bus.MaxPayload,
	})
	ts.Check(err)
	s.Start()
	ts.Defer(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		ts.Fatalf("the NATS server is not ready after 10 s")
	}
	ts.Setenv("TOOLBRIDGE_NATS", s.ClientURL())
}

// asked CALL waits until a call's approval is pending; its id becomes APPROVAL.
func awaitApproval(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: asked CALL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{URL: ts.Getenv("TOOLBRIDGE_NATS")})
	ts.Check(err)
	defer c.Close()
	a, err := c.Approver("default", "test")
	ts.Check(err)
	for {
		list, err := a.List(ctx, "")
		ts.Check(err)
		for _, q := range list.Approvals {
			if q.CallID == args[0] {
				ts.Setenv("APPROVAL", q.ID)
				return
			}
		}
	}
}

// execute SESSION makes the test the process of a session until the script
// ends: it answers every execution with the arguments it got.
func execute(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: execute SESSION")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{URL: ts.Getenv("TOOLBRIDGE_NATS")})
	ts.Check(err)
	ts.Defer(func() { _ = c.Close() })
	s, err := c.Session("default", args[0])
	ts.Check(err)
	v, err := s.Serve(ctx, client.ServeConfig{}, func(_ context.Context, r subjects.ExecRequest) (json.RawMessage, error) {
		if r.Tool == "fails" {
			return nil, errors.New("the disk is full")
		}
		return json.RawMessage(fmt.Sprintf(`{"tool":%q,"got":%s}`, r.Tool, r.Arguments)), nil
	})
	ts.Check(err)
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = v.Stop(ctx)
	})
}

// notesServer is an MCP server over stdio with two tools.
func notesServer() {
	server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	type addition struct {
		Text string `json:"text" jsonschema:"what to note"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "add_note", Description: "Adds a note to the notebook."},
		func(_ context.Context, _ *sdk.CallToolRequest, in addition) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "noted: " + in.Text + os.Getenv("NOTES_SUFFIX")}}}, nil, nil
		})
	sdk.AddTool(server, &sdk.Tool{Name: "lose_note", Description: "Always fails."},
		func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return nil, nil, errors.New("the notebook is gone")
		})
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
