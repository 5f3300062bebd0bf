package worker

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestFenceAgainstAPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Fence
		var seen uint64
		for _, e := range rapid.SliceOf(rapid.Uint64Range(0, 5)).Draw(t, "epochs") {
			err := f.Check(e)
			if want := e >= seen && e > 0; (err == nil) != want {
				t.Fatalf("epoch %d after %d: %v", e, seen, err)
			}
			var stale *StaleEpochError
			if err != nil && (!errors.As(err, &stale) || stale.Epoch != e || stale.Seen != seen) {
				t.Fatalf("error %#v", err)
			}
			if err == nil {
				seen = e
			}
		}
	})
}

func TestFenceNeverFallsUnderConcurrency(t *testing.T) {
	var f Fence
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for e := g; e < 20_000; e += 4 {
				if f.Check(e) == nil && f.seen.Load() < e {
					t.Error("an accepted epoch was forgotten")
				}
			}
		})
	}
	wg.Wait()
	if got := f.seen.Load(); got != 19_999 {
		t.Errorf("seen %d", got)
	}
}
