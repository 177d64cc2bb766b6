package clawhub_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/clawhub"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
)

type object = apptest.Object

// newWorld is a registry that speaks ClawHub.
func newWorld(t *testing.T, db *store.DB) *registrytest.World {
	t.Helper()
	w := registrytest.New(t, db)
	signed := &attestations.Service{DB: db, Jobs: w.Queue, Registry: w.Registry, Seal: sealtest.Keyring(), PublicURL: w.Server.URL, Log: w.Log}
	w.Registry.OnVersion = signed
	hub := &clawhub.Service{
		Attestations: signed,
		DB:           db, Blobs: w.Blobs, Jobs: w.Queue, Catalog: w.Catalog, Registry: w.Registry, Auth: w.Auth,
		Installations: &installations.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Registry: w.Registry},
		PublicURL:     w.Server.URL, Log: w.Log,
	}
	hub.Register()
	hub.Mount(w.API)
	return w
}

var public = object{"visibility": "public"}

// base is the path of an organisation's catalog, with a token or without.
func base(org string, token ...string) string {
	return strings.Join(append([]string{"/o", url.PathEscape(org)}, token...), "/")
}

// published is what a publish by uploads answers.
func published(c *registrytest.Client, base string, payload object, files ...string) apptest.Response {
	c.T.Helper()
	list := []object{}
	for i := 0; i < len(files); i += 2 {
		sum := sha256.Sum256([]byte(files[i+1]))
		announced := object{"path": files[i], "size": len(files[i+1]), "sha256": hex.EncodeToString(sum[:])}
		a := c.Post(base+"/api/v1/skills/-/upload-url", announced)
		if a.Status != http.StatusOK {
			return a
		}
		announced["uploadTicket"] = apptest.Text(a.Object(), "uploadTicket")
		at, err := url.Parse(apptest.Text(a.Object(), "uploadUrl"))
		if err != nil || !at.IsAbs() {
			c.T.Fatalf("uploadUrl %q", at)
		}
		a = c.Do(http.MethodPost, at.Path, []byte(files[i+1]), "Content-Type: application/octet-stream")
		if a.Status != http.StatusOK {
			return a
		}
		announced["storageId"] = apptest.Text(a.Object(), "storageId")
		list = append(list, announced)
	}
	return c.Post(base+"/api/v1/skills", apptest.With(object{
		"slug": "pdf", "displayName": "PDF", "version": "1.0.0", "changelog": "", "acceptLicenseTerms": true, "tags": []string{"latest"},
		"files": list,
	}, payload))
}

// unzipped is the content of a zip, by path.
func unzipped(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(content)
	}
	return files
}

// wantText compares an error, which is plain text.
func wantText(a apptest.Response, status int, text string) {
	a.T.Helper()
	if got := strings.TrimSpace(string(a.Body)); a.Status != status || got != text {
		a.T.Errorf("status %d %q, want %d %q", a.Status, got, status, text)
	}
}
