package check

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// TestTheUsersMayDoWhatTheirRolesNeed holds the users of the shipped configuration
// against what "toolbridge permissions" prints for each role.
func TestTheUsersMayDoWhatTheirRolesNeed(t *testing.T) {
	natsEnv(t, "DEFAULT")
	o, err := server.ProcessConfigFile("../nats/server.conf")
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]*server.Permissions{}
	for _, u := range o.Users {
		users[u.Username] = u.Permissions
	}
	for _, c := range []struct{ user, role string }{
		{"worker", "worker --partitions 4"},
		{"orchestrator", "orchestrator --tenant default"},
		{"orchestrator", "credentials --tenant default"},
		{"default-agent", "session --tenant default --session s1"},
		{"default-approver", "approver --tenant default --name ann"},
		{"default-approver", "desktop --tenant default --name ann"},
		{"default-host", "executor --tenant default --name h1"},
		{"default-host", "hook --tenant default --name budget"},
	} {
		out, err := exec.Command(build(t, "toolbridge"), append([]string{"permissions", "--json"}, strings.Fields(c.role)...)...).Output()
		if err != nil {
			t.Fatalf("%s: %v", c.role, err)
		}
		var needs struct {
			Publish, Subscribe []string
			Responds           bool
			Inbox              string
		}
		if err := json.Unmarshal(out, &needs); err != nil {
			t.Fatal(err)
		}
		has := users[c.user]
		if has == nil {
			t.Errorf("there is no user %s", c.user)
			continue
		}
		for _, s := range needs.Publish {
			if !covered(s, has.Publish) {
				t.Errorf("%s may not publish on %s, which the role %s needs", c.user, s, c.role)
			}
		}
		for _, s := range needs.Subscribe {
			if !covered(s, has.Subscribe) && !strings.HasPrefix(s, needs.Inbox+".") { // it has an inbox of its own name
				t.Errorf("%s may not subscribe to %s, which the role %s needs", c.user, s, c.role)
			}
		}
		if needs.Responds && has.Response == nil {
			t.Errorf("%s may not answer, which the role %s needs", c.user, c.role)
		}
	}
}

// covered reports whether everything that a subject stands for is allowed.
func covered(subject string, allowed *server.SubjectPermission) bool {
	if allowed == nil {
		return false
	}
	for _, a := range allowed.Allow {
		if within(strings.Split(subject, "."), strings.Split(a, ".")) {
			return true
		}
	}
	return false
}

func within(subject, pattern []string) bool {
	for i, p := range pattern {
		switch {
		case i >= len(subject):
			return false
		case p == ">":
			return true
		case subject[i] == ">" || p != "*" && p != subject[i]:
			return false
		}
	}
	return len(subject) == len(pattern)
}
