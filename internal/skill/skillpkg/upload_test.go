package skillpkg_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// The hostile archives live here, so the test that sends them to the service
// does, too.

// A door is the route that takes uploads, with the limits of the archives.
type door struct {
	t     *testing.T
	db    *store.DB
	blobs blob.Bucket
	api   *httpapi.API
}

func newDoor(t *testing.T, db *store.DB) *door {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	blobs, err := blob.Open(t.Context(),
		blob.Options{Dir: t.TempDir(), Secret: make([]byte, 32), PublicURL: func() string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := jobs.New(jobs.Options{DB: db, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, db: db, blobs: blobs}
	d.api = httpapi.New(httpapi.Options{DB: db, Auth: d, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	s := &sources.Service{DB: db, Blobs: blobs, Jobs: queue, Skills: &skills.Service{DB: db}, Limits: tight(), Log: log}
	s.Mount(d.api)
	return d
}

// Authenticate lets everybody in.
func (d *door) Authenticate(context.Context, string) (access.Caller, error) {
	return access.Caller{
		OrgID: "org", UserID: "user", Plan: access.Free,
		Permissions: []access.Permission{access.Read, access.Write},
	}, nil
}

func (d *door) AuthenticateEntry(ctx context.Context, token, _ string) (access.Caller, error) {
	return d.Authenticate(ctx, token)
}

// A formPart is sent with its name as it is, whatever that is.
type formPart struct{ name, content string }

func (d *door) send(parts ...formPart) *httptest.ResponseRecorder {
	d.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("label", "hostile"); err != nil {
		d.t.Fatal(err)
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, p := range parts {
		w, err := form.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name="%s"; filename="skill.zip"`, escape.Replace(p.name))},
		})
		if err != nil {
			d.t.Fatal(err)
		}
		if _, err := io.WriteString(w, p.content); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		d.t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(d.t.Context(), http.MethodPost, "/api/v1/cloud-sources/upload", &body)
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Authorization", "Bearer any")
	w := httptest.NewRecorder()
	d.api.ServeHTTP(w, req)
	return w
}

// wantRefused checks that the answer says why.
func (d *door) wantRefused(name string, got *httptest.ResponseRecorder) {
	d.t.Helper()
	var body struct {
		Error   any
		Details struct{ Message string }
	}
	if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
		d.t.Errorf("%s: %v in %s", name, err, got.Body)
	}
	reason := body.Details.Message
	if inner, ok := body.Error.(map[string]any); ok {
		reason, _ = inner["message"].(string)
	}
	if got.Code != http.StatusBadRequest && got.Code != http.StatusRequestEntityTooLarge || reason == "" {
		d.t.Errorf("%s: got %d %s, want a refusal with a reason", name, got.Code, got.Body)
	}
}

// wantNothing checks that neither a row nor a blob was left.
func (d *door) wantNothing() {
	d.t.Helper()
	for _, table := range []string{"cloud_sources", "source_snapshots", "source_reports"} {
		rows, err := d.db.Query(d.t.Context(), `SELECT COUNT(*) FROM `+table)
		if n, err := store.One(rows, err, "Count", store.Value[int]); err != nil || n != 0 {
			d.t.Errorf("%s has %d rows, %v", table, n, err)
		}
	}
	for info, err := range d.blobs.List(d.t.Context(), "") {
		d.t.Errorf("blob %s is left, %v", info.Key, err)
	}
}

// TestUploadRefusesHostile sends every hostile archive in both forms: as it
// is, and file by file where the harm is in names, numbers or sizes.
func TestUploadRefusesHostile(t *testing.T) {
	all := hostiles(t)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		d := newDoor(t, db)
		byParts := 0
		for _, c := range all {
			if c.name == "plain text" { // which is a good SKILL.md
				continue
			}
			d.wantRefused(c.name, d.send(formPart{"file", string(c.data)}))
			if !slices.Contains(codesOfFiles, c.code) {
				continue
			}
			if parts := filesIn(c.data); len(parts) > 0 {
				byParts++
				d.wantRefused(c.name+" by parts", d.send(parts...))
			}
		}
		if byParts < 40 {
			t.Errorf("only %d archives were sent by parts", byParts)
		}
		d.wantNothing()
	})
}

// codesOfFiles are the reasons that files have without an archive, too.
var codesOfFiles = []skillpkg.Code{
	skillpkg.CodeTooManyFiles, skillpkg.CodeFileTooLarge, skillpkg.CodePathTooDeep, skillpkg.CodePathTooLong,
	skillpkg.CodePathTraversal, skillpkg.CodePathControl, skillpkg.CodePathEncoding, skillpkg.CodePathEmpty,
	skillpkg.CodePathDuplicate, skillpkg.CodePathCollision, skillpkg.CodePathReserved, skillpkg.CodePathConflict,
}

// filesIn lists the files of an archive for the second form; none if it has
// other members, which that form cannot send.
func filesIn(data []byte) (parts []formPart) {
	if r, err := zip.NewReader(bytes.NewReader(data), int64(len(data))); err == nil || r != nil {
		return filesInZip(r)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	for members := tar.NewReader(compressed); ; {
		h, err := members.Next()
		if err != nil {
			return parts
		}
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		content, err := io.ReadAll(members)
		if err != nil {
			return nil
		}
		parts = append(parts, formPart{h.Name, string(content)})
	}
}

func filesInZip(r *zip.Reader) (parts []formPart) {
	for _, f := range r.File {
		if !f.Mode().IsRegular() {
			return nil
		}
		body, err := f.Open()
		if err != nil {
			return nil
		}
		content, err := io.ReadAll(body)
		if err != nil {
			return nil
		}
		parts = append(parts, formPart{f.Name, string(content)})
	}
	return parts
}
