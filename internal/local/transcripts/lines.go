package transcripts

import (
	"bufio"
	"errors"
	"io"
)

// A line is one line of a transcript.
type line struct {
	text   []byte // without the line break; valid until the next line is read
	number int    // counted from 1
	offset int64  // of its first byte in the file
	ended  bool   // it has its line break; else it may still be being written
	long   bool   // it is over the limit, and text is empty
}

// A lineReader reads lines of any length, but skips the text of those over the
// limit, to bound its memory.
type lineReader struct {
	r      *bufio.Reader
	limit  int
	buffer []byte
	number int
	offset int64
}

// newLineReader returns a reader for the rest of a file, after number lines and
// offset bytes.
func newLineReader(r io.Reader, limit, number int, offset int64) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit, number: number, offset: offset}
}

// next returns the next line, or io.EOF. The last line may lack its line break: ended is false
// then, and err is nil.
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
