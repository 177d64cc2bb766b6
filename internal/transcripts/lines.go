package transcripts

import (
	"bufio"
	"errors"
	"io"
)

// A line is one line of a transcript.
type line struct {
	text   []byte // without the line break; good until the next line is read
	number int    // counted from 1
	offset int64  // of its first byte in the file
	ended  bool   // it has its line break: nobody is still writing it
	long   bool   // it is longer than the limit, and text is empty
}

// lineReader reads lines of any length, and skips those that would take too
// much memory.
type lineReader struct {
	r      *bufio.Reader
	limit  int
	buffer []byte
	number int
	offset int64
}

// newLineReader goes on after number lines and offset bytes of a file.
func newLineReader(r io.Reader, limit, number int, offset int64) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit, number: number, offset: offset}
}

// next returns the next line, or io.EOF.
func (r *lineReader) next() (line, error) {
	l := line{number: r.number + 1, offset: r.offset}
	r.buffer = r.buffer[:0]
	for {
		chunk, err := r.r.ReadSlice('\n')
		r.offset += int64(len(chunk))
		if err == nil {
			chunk, l.ended = chunk[:len(chunk)-1], true
		}
		if l.long = l.long || len(r.buffer)+len(chunk) > r.limit; !l.long {
			r.buffer = append(r.buffer, chunk...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && r.offset == l.offset:
			return l, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return l, err
		}
		r.number++
		if !l.long {
			l.text = r.buffer
		}
		return l, nil
	}
}
