package client

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"io"
	"maps"
	"mime/multipart"
	"net/textproto"
	"slices"
)

// A formFile is the file of a multipart form.
type formFile struct {
	field     string
	name      string
	mediaType string      // application/octet-stream when empty
	content   io.ReaderAt // the file is its first size bytes
	size      int64
	progress  func(sent int64) // may be nil
}

// A form is a multipart body of known length. Its file is read while it is sent,
// from the beginning for every try.
type form struct {
	head, tail []byte // what precedes and what follows the file's content
	mediaType  string
	file       formFile
}

// newForm returns a form with the fields that are not empty, and then the file.
func newForm(fields map[string]string, file formFile) *form {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	// These errors cannot happen: the boundary is valid, and a buffer does not fail.
	_ = w.SetBoundary(rand.Text() + rand.Text())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != "" {
			_ = w.WriteField(name, fields[name])
		}
	}
	_, _ = w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {multipart.FileContentDisposition(file.field, file.name)},
		"Content-Type":        {cmp.Or(file.mediaType, "application/octet-stream")},
	})
	f := &form{head: bytes.Clone(b.Bytes()), mediaType: w.FormDataContentType(), file: file}
	b.Reset()
	_ = w.Close()
	f.tail = b.Bytes()
	return f
}

func (f *form) open() (io.Reader, int64, string) {
	var content io.Reader = io.NewSectionReader(f.file.content, 0, f.file.size)
	if f.file.progress != nil {
		content = &progressReader{r: content, report: f.file.progress}
	}
	size := int64(len(f.head)) + f.file.size + int64(len(f.tail))
	return io.MultiReader(bytes.NewReader(f.head), content, bytes.NewReader(f.tail)), size, f.mediaType
}

// A progressReader reports how many bytes were read.
type progressReader struct {
	r      io.Reader
	report func(int64)
	n      int64
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.n += int64(n)
	p.report(p.n)
	return n, err
}
