package sse_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
)

// FuzzEventID: a cursor is a number that is not negative.
func FuzzEventID(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "-1", "9223372036854775807", "9223372036854775808", "1e3", " 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := sse.ParseEventID(text)
		if id < 0 || err != nil && !fault.Is(err, fault.Malformed) {
			t.Errorf("%q: %d, %v", text, id, err)
		}
	})
}
