package mcp

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"toolbridge/subjects"
)

func TestCallReachesAStdioServer(t *testing.T) {
	b := newBus(t)
	h, _ := b.host(Config{Servers: []ServerConfig{stdio("std", "standard")}})
	b.awaitState(h, "std", subjects.StateReady)
	wantResult(t, b.call(h, "std", "mcp__std__echo", `{"id":7310046220981450071,"z":1.10,"a":"<&>"}`), `{"id":7310046220981450071,"z":1.10,"a":"<&>"}`)
	if diff := cmp.Diff("mcp__std__big", names(b.definitions(h, "std"))[0]); diff != "" {
		t.Error(diff)
	}
}
