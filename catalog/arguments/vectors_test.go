package arguments

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// readVectors decodes one file of recorded inputs and outcomes.
func readVectors(t testing.TB, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// sameJSON compares two JSON texts by value: order of members aside, numbers
// exactly, 4 and 4.0 alike.
func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	return equalValues(decodeAny(t, a), decodeAny(t, b))
}

func decodeAny(t testing.TB, text []byte) any {
	t.Helper()
	v, err := parse(text, limits{})
	if err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	return v.plain()
}

func equalValues(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !equalValues(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalValues(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := new(big.Rat).SetString(a.String())
		y, _ := new(big.Rat).SetString(b.String())
		return x.Cmp(y) == 0
	}
	return a == b
}
