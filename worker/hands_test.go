package worker

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGoroutinesOfARushEndAndThoseInUseStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hands
		defer h.close()
		idle := func() int {
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.idle)
		}
		rush := func(n int) {
			var all sync.WaitGroup
			all.Add(n)
			for range n {
				h.run(func() { time.Sleep(time.Millisecond); all.Done() })
			}
			all.Wait()
		}
		rush(100)
		if n := idle(); n != 100 {
			t.Fatalf("%d goroutines are kept for the next requests, want 100", n)
		}
		for range 4 * int(handsRest/time.Second) { // two at a time, for long
			rush(2)
			time.Sleep(500 * time.Millisecond)
		}
		if n := idle(); n != 2 {
			t.Errorf("%d goroutines are kept, 2 are needed", n)
		}
		rush(maxIdleHands + 10)
		if n := idle(); n != maxIdleHands {
			t.Errorf("%d goroutines are kept, want %d", n, maxIdleHands)
		}
		time.Sleep(2 * handsRest)
		if n := idle(); n != 0 {
			t.Errorf("%d goroutines wait although there was nothing to do for %s", n, 2*handsRest)
		}
	})
}
