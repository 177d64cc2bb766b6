package sources_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// FuzzUpload: a form is either refused or becomes a package within the limits,
// without path traversal.
func FuzzUpload(f *testing.F) {
	add := func(parts ...string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.SetBoundary("boundary") // a good one
		for i := 0; i < len(parts); i += 3 {
			if parts[i+1] == "" {
				_ = w.WriteField(parts[i], parts[i+2]) // into memory
				continue
			}
			part, _ := w.CreateFormFile(parts[i], parts[i+1])
			_, _ = part.Write([]byte(parts[i+2]))
		}
		_ = w.Close()
		f.Add(b.Bytes())
	}
	add("label", "", "x", "SKILL.md", "SKILL.md", skillText, "scripts/a.py", "a.py", "print()")
	add("label", "", "x", "file", "SKILL.md", skillText)
	add("SKILL.md", "", skillText, "../../etc/passwd", "x", "y", "a/./b", "x", "y")
	add("a", "x", "1", "A", "x", "2", "a/b", "x", "3", "SKILL.md", "x", skillText)
	add("file", "a.zip", "PK\x03\x04", "file", "b.zip", "PK")
	f.Add([]byte("--boundary\r\nContent-Disposition: form-data; name=\"\x00\"; filename=\"x\"\r\n\r\n"))
	s := &sources.Service{Limits: skillpkg.DefaultLimits()}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=boundary")
		form, err := httpapi.ReadForm(r)
		if err != nil {
			return
		}
		defer form.Close()
		p, err := s.OpenUpload(t.Context(), *form)
		if err != nil {
			if fault.Of(err) == fault.Internal {
				t.Fatalf("%v is not about the form", err)
			}
			return
		}
		defer func() { _ = p.Close() }()
		for _, file := range p.Installed() {
			if strings.HasPrefix(file.Path, "/") || strings.Contains("/"+file.Path+"/", "/../") || file.Size > s.Limits.File {
				t.Errorf("accepted %+v", file)
			}
		}
	})
}
