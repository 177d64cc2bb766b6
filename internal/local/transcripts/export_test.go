package transcripts

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// MaxLine is the longest line that is parsed.
const MaxLine = maxLine

// A Line is a line of a transcript.
type Line struct {
	Text        string
	Number      int
	Offset      int64
	Ended, Long bool
}

// Lines reads all lines of a text.
func Lines(text []byte, limit int) ([]Line, error) {
	r := newLineReader(bytes.NewReader(text), limit, 0, 0)
	var all []Line
	for {
		l, err := r.next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, Line{string(l.text), l.number, l.offset, l.ended, l.long})
	}
}

// SetClock makes the import tell the time otherwise.
func (i *Import) SetClock(now func() time.Time) { i.now = now }

// Commits returns the number of commits whose fate is not known yet.
func (s *State) Commits() int { return len(s.content.Commits) }
