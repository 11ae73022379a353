package subjects

import (
	"strings"
	"testing"
)

func TestQueuedCallsAreReadBackAndNothingElseIs(t *testing.T) {
	s := Space{}
	for _, subject := range []string{s.CallSubject(3, "t", "s-1", "c_1"), s.WakeSubject(0, "t", "s-1", "c_1")} {
		tenant, session, id, ok := s.ParseQueued(subject)
		if !ok || tenant != "t" || session != "s-1" || id != "c_1" {
			t.Errorf("%s is read as %q %q %q %v", subject, tenant, session, id, ok)
		}
	}
	for _, subject := range []string{
		"", "toolbridge.v1._calls.0.t.s", "toolbridge.v1._calls.0.t.s.c.d", "toolbridge.v1._dead.0.t.s.c", "toolbridge.v2._calls.0.t.s.c",
		"toolbridge.v1._calls.0._t.s.c", "toolbridge.v1._calls.0.t.s.c$", "toolbridge.v1._calls.0.t..c",
	} {
		if _, _, _, ok := s.ParseQueued(subject); ok {
			t.Errorf("%s is taken for a queued call", subject)
		}
	}
}

func TestNoStreamTakesAnothersSubjects(t *testing.T) {
	s := Space{}
	all := map[string][]string{
		"calls": append(s.CallSubjects(0), s.CallSubjects(1)...), "results": {s.Result("*", "*", "*")},
		"decisions": {s.DecisionSubject("*", "*")}, "audit": {s.AuditSubject("*", "*")}, "dead": {s.DeadSubject("*", "*", "*")},
	}
	for a, subjectsA := range all {
		for b, subjectsB := range all {
			for _, x := range subjectsA {
				for _, y := range subjectsB {
					if a != b && overlap(x, y) {
						t.Errorf("%s of %s and %s of %s overlap", x, a, y, b)
					}
				}
			}
		}
	}
}

// overlap reports whether one subject can match both patterns of "*" tokens.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] && x[i] != "*" && y[i] != "*" {
			return false
		}
	}
	return true
}
