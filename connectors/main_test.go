package connectors

import (
	"testing"

	"go.uber.org/goleak"

	"toolbridge/test/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, bus.Leaks()...) }
