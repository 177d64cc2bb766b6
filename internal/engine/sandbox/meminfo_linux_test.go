package sandbox_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// TestExplainsLoss blames a program for a machine without memory only if it took
// most of it.
func TestExplainsLoss(t *testing.T) {
	const mib = 1 << 20
	with := func(available int64) sandbox.Meminfo { return sandbox.MeminfoOf(8<<30, available*mib) }
	tests := []struct {
		name          string
		before, now   sandbox.Meminfo
		memory        int64
		blamed, short bool
	}{
		{"it took nearly all", with(2000), with(200), 1700 * mib, true, true},
		{"it took little", with(2000), with(200), 100 * mib, false, true},
		{"there was none before", with(200), with(190), 10 * mib, false, true},
		{"there is more than before", with(240), with(250), 10 * mib, false, true},
		{"there is enough", with(2000), with(300), 1700 * mib, true, false},
	}
	for _, test := range tests {
		if got := sandbox.ExplainsLoss(test.before, test.memory, test.now); got != test.blamed {
			t.Errorf("%s: blamed %t, want %t", test.name, got, test.blamed)
		}
		if got := sandbox.IsShort(test.now); got != test.short {
			t.Errorf("%s: short %t, want %t", test.name, got, test.short)
		}
	}
}
