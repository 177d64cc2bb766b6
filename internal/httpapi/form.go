package httpapi

import (
	"bufio"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/whetstone-dev/whetstone/internal/chunk"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/spool"
)

// A Form is a multipart body. An input embeds it to get one; it is there until
// the operation has ended.
type Form struct {
	Values map[string][]string
	Files  map[string][]FormFile
	kept   *spool.Spool // the contents of all files
}

// A FormFile is a part of a form that has a file's name.
type FormFile struct {
	Filename string
	Content  *io.SectionReader
}

// maxParts is how many parts a form may have.
const maxParts = 1000

// formBuffers are between connections and the readers of forms, which want
// small pieces: each would be a call to the system.
var formBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

type readCloser struct {
	io.Reader
	io.Closer
}

// ReadForm reads the body of a request, whose size the caller has bounded. The
// caller closes the form. What is wrong with the body is a fault.
func ReadForm(r *http.Request) (_ *Form, err error) {
	body, buffer := r.Body, formBuffers.Get().(*bufio.Reader)
	buffer.Reset(body)
	r.Body = readCloser{buffer, body}
	defer func() {
		r.Body = body
		buffer.Reset(nil)
		formBuffers.Put(buffer)
	}()
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, badForm(err)
	}
	f := &Form{Values: map[string][]string{}, Files: map[string][]FormFile{}, kept: spool.New(r.ContentLength)}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		if err == io.EOF { // an end that comes too early wraps it
			return f, DrainBody(r) // what stands behind the last boundary
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

// add takes in a part; one without a name is nobody's.
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
	start := f.kept.Size()
	size, err := chunk.Copy(f.kept, part)
	if f.kept.Err() != nil {
		return f.kept.Err()
	}
	if err != nil {
		return badForm(err)
	}
	f.Files[name] = append(f.Files[name], FormFile{filename, io.NewSectionReader(f.kept, start, size)})
	return nil
}

// badForm says what is wrong with a form, unless reading it failed for a reason
// that has a name of its own.
func badForm(err error) error {
	if problem, ok := errors.AsType[*fault.Error](err); ok {
		return problem
	}
	return fault.Invalid("", "the body is not a valid multipart form: %s", err).Because(err)
}

// Close frees what the files took.
func (f *Form) Close() { _ = f.kept.Close() } // it was only read

type formKey struct{}

// Resolve fills an input that embeds a form.
func (f *Form) Resolve(ctx huma.Context) []error {
	if form, ok := ctx.Context().Value(formKey{}).(*Form); ok {
		*f = *form
	}
	return nil
}
