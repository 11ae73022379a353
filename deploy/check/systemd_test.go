package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// program is the path of a program that a test needs; where it is missing the test
// is skipped, or fails with TOOLBRIDGE_DEPLOY=require.
func program(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("TOOLBRIDGE_DEPLOY") == "require" {
		t.Fatalf("%s is missing: install package %s", name, debianPackage)
	}
	t.Skipf("%s is missing (package %s)", name, debianPackage)
	return ""
}

var started = regexp.MustCompile(`(?m)^(ExecStart=)/usr/local/bin/\S+`)

func TestUnitFilesAreTakenBySystemd(t *testing.T) {
	analyze := program(t, "systemd-analyze", "systemd")
	units, err := filepath.Glob("../systemd/*.service")
	if err != nil || len(units) == 0 {
		t.Fatalf("no units: %v", err)
	}
	dir := t.TempDir()
	for _, unit := range units {
		text := string(read(t, unit))
		if !started.MatchString(text) {
			t.Errorf("%s starts no program of /usr/local/bin", unit)
		}
		// The programs are not installed here; all else stands as it is.
		text = started.ReplaceAllString(text, "${1}/bin/true")
		name := filepath.Base(unit)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		instance := filepath.Join(dir, strings.Replace(name, "@.", "@acme.", 1))
		if instance != filepath.Join(dir, name) {
			if err := os.Symlink(name, instance); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(name, func(t *testing.T) {
			verify := exec.Command(analyze, "verify", "--recursive-errors=no", "--man=no", instance)
			verify.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
			if out, err := verify.CombinedOutput(); err != nil || len(strings.TrimSpace(string(out))) > 0 {
				t.Errorf("systemd-analyze verify: %v\n%s", err, out)
			}
			// 10 is a unit without any protection.
			security := exec.Command(analyze, "security", "--offline=true", "--threshold=25", "--no-pager", instance)
			if out, err := security.CombinedOutput(); err != nil {
				lines := strings.Split(strings.TrimSpace(string(out)), "\n")
				t.Errorf("systemd-analyze security: %v: %s", err, lines[len(lines)-1])
			}
		})
	}
}

// Each unit passes flags that the program knows: the same arguments are tried with
// --help.
func TestUnitsPassFlagsThatTheProgramHas(t *testing.T) {
	binary := build(t, "toolbridge")
	units, err := filepath.Glob("../systemd/toolbridge-*.service")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/toolbridge (.*)$`)
	for _, unit := range units {
		m := line.FindSubmatch(read(t, unit))
		if m == nil {
			t.Errorf("%s does not start toolbridge", unit)
			continue
		}
		args := strings.Fields(strings.ReplaceAll(string(m[1]), "%i", "acme"))
		knowsFlags(t, binary, args)
	}
}

// knowsFlags fails when the program has not all flags of the arguments.
func knowsFlags(t *testing.T, binary string, args []string) {
	t.Helper()
	if out, err := exec.Command(binary, append(args, "--help")...).CombinedOutput(); err != nil {
		t.Errorf("toolbridge %s --help: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, a := range args {
		flag, _, _ := strings.Cut(a, "=")
		if !strings.HasPrefix(flag, "--") {
			continue
		}
		out, err := exec.Command(binary, append(args, "--help")...).Output()
		if err != nil {
			continue
		}
		if !strings.Contains(string(out), flag) {
			t.Errorf("toolbridge %s: no flag %s", strings.Join(args, " "), flag)
		}
	}
}

// runs runs a checker and fails with what it says.
func runs(t *testing.T, path string, args ...string) {
	t.Helper()
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
}
