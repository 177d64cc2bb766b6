package httpapi

import (
	"bufio"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// A Form is a multipart body. An input embeds it to get one; it is readable
// until the operation has returned.
type Form struct {
	Values map[string][]string
	Files  map[string][]FormFile
	spool  *spool.Spool // the contents of all files
}

// A FormFile is a part of a form that has a file name.
type FormFile struct {
	Filename string
	// Path is the file name with its folders, as some clients send them; untrusted.
	Path    string
	Content *io.SectionReader
}

// maxParts is how many parts a form may have.
const maxParts = 1000

// bodyBuffers are what forms are read through: multipart.Reader asks for 4 KiB at a time,
// each of which would be a system call.
var bodyBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

// ReadForm reads the body of a request, whose size the caller has bounded. The
// caller closes the form. Problems of the body are faults.
func ReadForm(r *http.Request) (_ *Form, err error) {
	body, buffered := r.Body, bodyBuffers.Get().(*bufio.Reader)
	buffered.Reset(body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{buffered, body}
	defer func() {
		r.Body = body
		buffered.Reset(nil)
		bodyBuffers.Put(buffered)
	}()
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, badForm(err)
	}
	f := &Form{Values: map[string][]string{}, Files: map[string][]FormFile{}, spool: spool.New(r.ContentLength)}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if err == io.EOF { // not errors.Is: a truncated form wraps io.EOF
			return f, DrainBody(r) // the epilogue behind the last boundary
		}
		if err != nil {
			return nil, badForm(err)
		}
		if n == maxParts {
			return nil, fault.New(fault.TooLarge, "The form is over the limit of %d parts", maxParts)
		}
		if err := f.add(part); err != nil {
			return nil, err
		}
	}
}

// add reads a part. Parts without a name are ignored.
func (f *Form) add(part *multipart.Part) error {
	name, filename := part.FormName(), part.FileName()
	switch {
	case name == "":
		return nil
	case filename == "":
		value, err := io.ReadAll(part)
		if err != nil {
			return badForm(err)
		}
		f.Values[name] = append(f.Values[name], string(value))
		return nil
	}
	start := f.spool.Size()
	size, err := spool.Copy(f.spool, part)
	if f.spool.Err() != nil {
		return f.spool.Err()
	}
	if err != nil {
		return badForm(err)
	}
	_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition")) // as FileName has parsed it
	f.Files[name] = append(f.Files[name], FormFile{filename, params["filename"], io.NewSectionReader(f.spool, start, size)})
	return nil
}

// badForm is the fault for a malformed form. An error that is a fault already,
// e.g. a body over its limit, stays as it is.
func badForm(err error) error {
	if problem, ok := errors.AsType[*fault.Error](err); ok {
		return problem
	}
	return fault.Invalid("", "the body is not a valid multipart form: %s", err).Because(err)
}

// Close removes the temporary file of the contents.
func (f *Form) Close() { _ = f.spool.Close() } // nothing is written at the end

type formKey struct{}
