package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

type formInput struct{ httpapi.Form }

type formOutput struct {
	Label string `json:"label"`
	Bytes int64  `json:"bytes"`
}

// keep reads a form of one file and perhaps a label.
func keep(_ context.Context, in formInput) (formOutput, error) {
	if len(in.Files["file"]) == 0 {
		return formOutput{}, fault.Invalid("file", "file is required")
	}
	n, err := io.Copy(io.Discard, in.Files["file"][0].Content)
	return formOutput{strings.Join(in.Values["label"], ","), n}, err
}

func mountForms(a *httpapi.API) {
	httpapi.Add(a, keep, httpapi.Route{
		Method: "POST", Path: "/files", Status: 201, MaxBody: 4 << 20,
		Form: []httpapi.Part{{Name: "file", File: true}, {Name: "label", Doc: "What to call it", Optional: true}},
	})
}

// form is a multipart body with a file under that name.
func form(t *testing.T, name, content string) (contentType string, body []byte) {
	t.Helper()
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	part, err := w.CreateFormFile(name, "skill.zip")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(part, content)
	if err := w.WriteField("label", "mine"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), buf.Bytes()
}

func (f *frame) uploadForm(t *testing.T, contentType string, body []byte) apptest.Response {
	t.Helper()
	return f.do(t, "POST", "/files", body, "Content-Type: "+contentType)
}

func TestForm(t *testing.T) {
	f := newFrame(t, nil, mountForms)
	contentType, body := form(t, "file", "content")
	f.uploadForm(t, contentType, body).WantJSON(201, `{"label":"mine","bytes":7}`)

	t.Run("missing part", func(t *testing.T) {
		contentType, body := form(t, "archive", "content")
		f.uploadForm(t, contentType, body).WantIssues("file", "file is required")
	})
	t.Run("empty", func(t *testing.T) {
		f.uploadForm(t, contentType, nil).WantIssues("", "the body is not a valid multipart form: multipart: NextPart: EOF")
	})
	t.Run("cut short", func(t *testing.T) {
		f.uploadForm(t, contentType, body[:len(body)-20]).WantIssues("", "the body is not a valid multipart form: unexpected EOF")
	})
	t.Run("no boundary", func(t *testing.T) {
		f.uploadForm(t, "multipart/form-data", body).WantIssues("", "the body is not a valid multipart form: no multipart boundary param in Content-Type")
	})
	t.Run("no type", func(t *testing.T) {
		f.uploadForm(t, "", body).WantIssues("", "the body is not a valid multipart form: request Content-Type isn't multipart/form-data")
	})
	t.Run("truncated", func(t *testing.T) {
		if got := f.truncated(t, "/files", contentType, string(body[:100])); got.Status != 400 {
			t.Errorf("status %d, want 400: %s", got.Status, got.Body)
		}
	})
	t.Run("another type", func(t *testing.T) {
		f.uploadForm(t, "application/json", []byte("{}")).WantError(415, `Content-Type "application/json" is not read here; send multipart/form-data`)
	})
}

func TestFormLimits(t *testing.T) {
	f := newFrame(t, nil, mountForms)
	contentType, body := form(t, "file", strings.Repeat("f", 4<<20))
	t.Run("over the limit", func(t *testing.T) {
		f.uploadForm(t, contentType, body).WantError(413, "The body is over the limit of 4 MiB")
		f.do(t, "POST", "/files", bytes.NewReader(body), "Content-Type: "+contentType).WantError(413, "The body is over the limit of 4 MiB")
	})
	t.Run("at the limit", func(t *testing.T) {
		content := strings.Repeat("f", 8<<20-len(body))
		contentType, body := form(t, "file", content)
		f.uploadForm(t, contentType, body).WantJSON(201, fmt.Sprintf(`{"label":"mine","bytes":%d}`, len(content)))
	})
	t.Run("too many parts", func(t *testing.T) {
		var buf bytes.Buffer
		w := multipart.NewWriter(&buf)
		for i := range 1001 {
			if _, err := w.CreateFormFile(fmt.Sprintf("file-%d", i), "f"); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f.uploadForm(t, w.FormDataContentType(), buf.Bytes()).WantError(413, "The form is over the limit of 1000 parts")
	})
}

// TestFormWithoutDisk: what keeps us from keeping an upload is not its fault.
func TestFormWithoutDisk(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	f := newFrame(t, nil, mountForms)
	contentType, body := form(t, "file", strings.Repeat("f", 3<<20))
	if got := f.uploadForm(t, contentType, body); got.Status != 500 || !strings.Contains(string(got.Body), "Internal error") {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

// TestFormLeavesNoFiles covers uploads that do not fit into memory.
func TestFormLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	f := newFrame(t, nil, mountForms)
	contentType, body := form(t, "file", strings.Repeat("f", 3<<20))
	f.uploadForm(t, contentType, body).WantJSON(201, `{"label":"mine","bytes":3145728}`)
	f.waitForLog(t, "POST /files")
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("an upload left %v", left)
	}
}
