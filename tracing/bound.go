package tracing

import "sync"

const (
	// toolValues and otherValues are how many values of a label have series of
	// their own.
	toolValues  = 200
	otherValues = 64
	// maxLabelValue is the longest value of a label, in bytes.
	maxLabelValue = 128
)

// Other stands for every value of a label beyond the bound.
const Other = "other"

// bound lets the first values of a label through.
type bound struct {
	most int
	mu   sync.RWMutex
	seen map[string]struct{}
}

func (b *bound) value(v string) string {
	if len(v) > maxLabelValue {
		v = v[:maxLabelValue]
	}
	b.mu.RLock()
	_, known := b.seen[v]
	full := len(b.seen) >= b.most
	b.mu.RUnlock()
	if known {
		return v
	}
	if full {
		return Other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.seen[v]; known {
		return v
	}
	if len(b.seen) >= b.most {
		return Other
	}
	if b.seen == nil {
		b.seen = map[string]struct{}{}
	}
	b.seen[v] = struct{}{}
	return v
}
