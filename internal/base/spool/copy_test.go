package spool_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

func TestCopy(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 64 << 10, 1<<20 + 1} {
		content := bytes.Repeat([]byte("abc"), n/3+1)[:n]
		var out bytes.Buffer
		copied, err := spool.Copy(&out, bytes.NewReader(content))
		if err != nil || copied != int64(n) || !bytes.Equal(out.Bytes(), content) {
			t.Errorf("%d bytes: %d copied, %v", n, copied, err)
		}
	}
}

func TestCopyAllocatesNoBuffer(t *testing.T) {
	content := make([]byte, 100_000)
	hash := sha256.New()
	// A collection may empty the pool between two runs, and the race detector
	// has it lose one buffer in four.
	bytesPerRun := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := spool.Copy(hash, io.NewSectionReader(bytes.NewReader(content), 0, int64(len(content)))); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if bytesPerRun > 32<<10 {
		t.Errorf("a copy allocates %d bytes", bytesPerRun)
	}
}
