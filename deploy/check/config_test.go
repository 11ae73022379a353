package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Every toolbridge.yaml that is shipped or rendered passes "config check" without
// a word.
func TestConfigurationFilesAreTaken(t *testing.T) {
	binary := build(t, "toolbridge")
	dir := t.TempDir()
	files := map[string]string{"compose": "../compose/toolbridge.yaml"}
	for _, values := range valueSets(t) {
		for _, o := range render(t, values) {
			m, ok := o.typed.(*corev1.ConfigMap)
			if !ok || m.Data["toolbridge.yaml"] == "" {
				continue
			}
			file := filepath.Join(dir, setName(values)+"-"+m.Name+".yaml")
			if err := os.WriteFile(file, []byte(m.Data["toolbridge.yaml"]), 0o600); err != nil {
				t.Fatal(err)
			}
			files[setName(values)+"/"+m.Name] = file
		}
	}
	for name, file := range files {
		cmd := exec.Command(binary, "config", "check", file)
		cmd.Env = append(os.Environ(), "DOCS_TOKEN=x")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "warning") {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, read(t, file))
		}
	}
}

// natsEnv are the variables that the NATS files name, with a value each.
func natsEnv(t *testing.T, tenants ...string) {
	t.Helper()
	t.Setenv("POD_NAME", "toolbridge-nats-0")
	t.Setenv("NATS_NAME", "n1")
	t.Setenv("NATS_STORE", t.TempDir())
	t.Setenv("TOOLBRIDGE_ROUTES", `["nats://route:p-route@n1:6222", "nats://route:p-route@n2:6222"]`)
	users := []string{"WORKER", "ORCHESTRATOR", "ROUTE", "SYSTEM"}
	for _, tenant := range tenants {
		users = append(users, tenant+"_AGENT", tenant+"_APPROVER", tenant+"_HOST")
	}
	for _, u := range users {
		t.Setenv("TOOLBRIDGE_"+u+"_PASSWORD", "p-"+strings.ToLower(u))
	}
}

func TestNATSFilesAreTakenByTheServer(t *testing.T) {
	natsEnv(t, "DEFAULT", "ACME", "GLOBEX_EU")
	dir := t.TempDir()
	files := map[string]string{"server.conf": "../nats/server.conf", "cluster.conf": "../nats/cluster.conf"}
	partitions := map[string]int64{"server.conf": 1, "cluster.conf": 1}
	for _, values := range valueSets(t) {
		for _, o := range render(t, values) {
			m, ok := o.typed.(*corev1.ConfigMap)
			if !ok || m.Data["nats.conf"] == "" {
				continue
			}
			files[setName(values)] = natsFolder(t, filepath.Join(dir, setName(values)), m)
			var cfg struct{ Bus struct{ Partitions int64 } }
			if err := yaml.Unmarshal([]byte(find[*corev1.ConfigMap](t, render(t, values), "toolbridge").Data["toolbridge.yaml"]), &cfg); err != nil {
				t.Fatal(err)
			}
			partitions[setName(values)] = cfg.Bus.Partitions
		}
	}
	if len(files) != 5 {
		t.Errorf("%d configurations of NATS, 5 are expected", len(files))
	}
	for name, file := range files {
		o, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if o.MaxPayload != 8<<20 {
			t.Errorf("%s: max_payload is %d, not 8 MiB", name, o.MaxPayload)
		}
		// The streams and buckets reserve their bounds when they are made.
		if reserved := (12 + 5*partitions[name]) << 30; !o.JetStream || o.JetStreamMaxStore < reserved {
			t.Errorf("%s: JetStream may store %d bytes, and %d are reserved", name, o.JetStreamMaxStore, reserved)
		}
		clustered := name != "server.conf" && name != "trial"
		if (o.Cluster.Port != 0) != clustered || clustered && len(o.Routes) < 2 {
			t.Errorf("%s: cluster %+v with routes %v", name, o.Cluster, o.Routes)
		}
		if o.SystemAccount != "SYS" {
			t.Errorf("%s: system account %q", name, o.SystemAccount)
		}
		for _, u := range o.Users {
			if u.Username != "system" && u.Permissions == nil {
				t.Errorf("%s: user %s may do everything", name, u.Username)
			}
		}
	}
}

// natsFolder writes a rendered configuration of NATS out.
func natsFolder(t *testing.T, dir string, m *corev1.ConfigMap) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range m.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "nats.conf")
}

func TestTheAccountsOfPlainServersAreTheCharts(t *testing.T) {
	m := find[*corev1.ConfigMap](t, render(t, ""), "toolbridge-nats")
	want := m.Data["accounts.conf"] + "\n"
	if *update {
		if err := os.WriteFile("../nats/accounts.conf", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(read(t, "../nats/accounts.conf")) != want {
		t.Error("deploy/nats/accounts.conf is not what the chart renders; write it anew with deploy/render")
	}
}
