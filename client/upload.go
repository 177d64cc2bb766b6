package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
)

// An Upload is an archive to become a version, with what is said of it.
type Upload struct {
	Name          string `json:"name,omitempty"`
	EntryType     string `json:"entry_type,omitempty"`  // of a new entry; skill when empty
	Description   string `json:"description,omitempty"` // what the SKILL.md says when empty
	Version       string `json:"version"`
	ChangeSummary string `json:"change_summary,omitempty"`
	Visibility    string `json:"visibility,omitempty"` // of a new entry; org when empty
	SourceRepo    string `json:"source_repo,omitempty"`
	// ContentHash and FileManifest, when given, let the server notice that the
	// archive was changed on the way.
	ContentHash  string `json:"content_hash,omitempty"`
	FileManifest []File `json:"file_manifest,omitempty"`

	// Archive has the tar.gz in its first Size bytes.
	Archive io.ReaderAt `json:"-"`
	Size    int64       `json:"-"`
	// Progress, when set, is told how much of the archive has been sent. It
	// starts again with every try.
	Progress func(sent int64) `json:"-"`
}

// A Publication is what an upload has become.
type Publication struct {
	Entry   Entry   `json:"entry"`
	Version Version `json:"version"`
	// Created is false for a version that was there already with this content.
	Created bool `json:"-"`
}

// CreateEntry makes an entry with its first version. A taken name is an
// *Error with the status 409. It is not made again once it may have reached
// the server: after an error that is no *Error, EntryByName tells.
func (c *Client) CreateEntry(ctx context.Context, u Upload) (Publication, error) {
	return c.publish(ctx, call{path: "/api/v1/registry", body: newForm(u)})
}

// PushVersion adds a version to an entry and makes it current. The same
// version with the same content is no error and changes nothing; with other
// content it is an *Error with the status 409.
func (c *Client) PushVersion(ctx context.Context, entryID string, u Upload) (Publication, error) {
	return c.publish(ctx, call{path: entryPath(entryID) + "/versions", body: newForm(u), repeatable: true})
}

func (c *Client) publish(ctx context.Context, in call) (out Publication, err error) {
	in.method, in.timeout = http.MethodPost, transferTimeout
	status, err := c.do(ctx, in, &out)
	out.Created = status == http.StatusCreated
	return out, err
}

// form is an upload as a multipart body of known length, whose archive is
// read while it is sent.
type form struct {
	upload     Upload
	head, tail []byte
	mediaType  string
}

func newForm(u Upload) *form {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	// A boundary of our own cannot be refused, and a buffer takes everything.
	_ = w.SetBoundary(rand.Text() + rand.Text())
	metadata, err := json.Marshal(u)
	if err != nil {
		panic(err) // our own type can be encoded
	}
	_ = w.WriteField("metadata", string(metadata))
	_, _ = w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="archive"; filename="archive.tar.gz"`},
		"Content-Type":        {"application/gzip"},
	})
	f := &form{upload: u, head: bytes.Clone(b.Bytes()), mediaType: w.FormDataContentType()}
	b.Reset()
	_ = w.Close()
	f.tail = b.Bytes()
	return f
}

func (f *form) open() (io.Reader, int64, string) {
	var archive io.Reader = io.NewSectionReader(f.upload.Archive, 0, f.upload.Size)
	if f.upload.Progress != nil {
		archive = &meter{r: archive, report: f.upload.Progress}
	}
	size := int64(len(f.head)) + f.upload.Size + int64(len(f.tail))
	return io.MultiReader(bytes.NewReader(f.head), archive, bytes.NewReader(f.tail)), size, f.mediaType
}

// meter reports how much was read.
type meter struct {
	r      io.Reader
	report func(int64)
	n      int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	m.report(m.n)
	return n, err
}
