package gitrepo

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// The format of lines is git's protocol-common, "pkt-line format": 4 hex digits of
// the length, which includes them, then the text.
const (
	// maxLine is how long a pkt-line may be.
	maxLine = 65520
	// maxBand is how much of a pack one has, after its length and the band.
	maxBand = maxLine - 5
)

// The special lines.
const (
	flushLine = "0000"
	delimLine = "0001"
)

// A line of a request is text, or one of the special ones.
type line struct {
	text    string
	special string
}

// parseLines reads the pkt-lines of a request.
func parseLines(body string) (lines []line, err error) {
	for body != "" {
		if len(body) < 4 {
			return nil, malformed("a line without a length")
		}
		n, err := strconv.ParseUint(body[:4], 16, 16)
		switch {
		case err != nil:
			return nil, malformed("the length %q", body[:4])
		case body[:4] == flushLine || body[:4] == delimLine:
			lines, body = append(lines, line{special: body[:4]}), body[4:]
			continue
		case n < 4 || n > maxLine || int(n) > len(body):
			return nil, malformed("the length %s", body[:4])
		}
		lines, body = append(lines, line{text: strings.TrimSuffix(body[4:n], "\n")}), body[n:]
	}
	return lines, nil
}

// malformed is for clients other than git, which sends no such thing.
func malformed(format string, args ...any) error {
	return fault.Invalid("body", "body is no git request: %s", fmt.Sprintf(format, args...))
}

// writeLine writes a line of text.
func writeLine(w io.Writer, format string, args ...any) error {
	text := fmt.Sprintf(format, args...) + "\n"
	_, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text)
	return err
}

// A band sends a pack in lines, as its first of several streams. Band 1 is the pack,
// 2 progress and 3 a fatal error.
type band struct{ w io.Writer }

func (b band) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+maxBand)]
		if _, err := fmt.Fprintf(b.w, "%04x\x01", len(part)+5); err != nil {
			return n, err
		}
		if _, err := b.w.Write(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}
