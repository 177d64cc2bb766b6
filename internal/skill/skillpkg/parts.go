package skillpkg

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
)

// A Part is a file of a multipart upload, with its path in the package. Open is
// called once, and its reader closed.
type Part struct {
	Path string
	Size int64
	Open func() (io.ReadCloser, error)
}

// TextPart is a part with a text.
func TextPart(path, text string) Part {
	return Part{Path: path, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// FromParts makes a package of single files. The rules of Open apply to them, and
// the size limit of an archive to all of them together. A part has no mode: one
// that begins with #! is executable. The package has no Format. The caller must
// Close it.
func FromParts(ctx context.Context, parts []Part, limits Limits) (_ *Package, err error) {
	size := int64(0)
	for _, p := range parts {
		size += p.Size
	}
	if err := limits.checkPacked(size); err != nil {
		return nil, err
	}
	// There is no archive to read: the source only records errors of the parts.
	s := newScan(ctx, &source{ctx: ctx}, size, limits)
	defer func() {
		if err != nil {
			err = s.blame(err)
			_ = s.contents.Close() // the first error is the cause
		}
	}()
	for _, p := range parts {
		if err := s.addPart(p); err != nil {
			return nil, err
		}
	}
	return s.finish()
}

// addPart adds a part under the rules for a member of an archive.
func (s *scan) addPart(p Part) error {
	if err := s.count(); err != nil {
		return err
	}
	body, err := p.Open()
	if err != nil {
		// A part that cannot be opened is our problem, e.g. a temporary file that is
		// gone; blame must not call the package damaged.
		s.source.err = err
		return err
	}
	defer body.Close()
	content := bufio.NewReader(&partReader{r: body, source: s.source})
	mode := fs.FileMode(0o644)
	if begin, _ := content.Peek(2); string(begin) == "#!" { // the next read returns the same error
		mode = 0o755
	}
	return s.addFile(p.Path, mode, content)
}

// A partReader records a read error, which is not the part's fault.
type partReader struct {
	r      io.Reader
	source *source
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.source.err = err
	}
	return n, err
}
