// Package chunk copies streams with memory that is used again. It owns no
// tables.
package chunk

import (
	"io"
	"sync"
)

// size is that of most files of a skill, which then take one write.
const size = 64 << 10

var buffers = sync.Pool{New: func() any { return new([size]byte) }}

// Copy is io.Copy for hot paths: that one allocates a buffer each time.
func Copy(w io.Writer, r io.Reader) (int64, error) {
	b := buffers.Get().(*[size]byte)
	defer buffers.Put(b)
	// Without their other methods, which would allocate a buffer themselves.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, b[:])
}
