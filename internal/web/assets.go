package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// staticFiles are the style sheet, the script and the images.
//
//go:embed static
var staticFiles embed.FS

// assets are the static files under names with a hash of their content, e.g.
// "app.1f2e3d4c5b6a.css", so that browsers can cache them forever.
type assets struct {
	urls   map[string]string // URLs by plain name
	bodies map[string][]byte // contents by hashed name
}

// readAssets reads the embedded files and hashes them.
func readAssets() (assets, error) {
	a := assets{urls: map[string]string{}, bodies: map[string][]byte{}}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		return a, err
	}
	for _, e := range entries {
		body, err := fs.ReadFile(staticFiles, "static/"+e.Name())
		if err != nil {
			return a, err
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(e.Name())
		hashed := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.urls[e.Name()], a.bodies[hashed] = "/static/"+hashed, body
	}
	return a, nil
}

// url returns the path of a static file. An unknown name returns "": it is a mistake in
// a template, which the tests of the pages find.
func (a assets) url(name string) string { return a.urls[name] }

// assetTypes are the content types by extension: those of package mime depend on the
// machine.
var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// serveAsset serves a file by its hashed name. It needs no session.
func (s *Service) serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	body, ok := s.assets.bodies[name]
	if !ok {
		setHeaders(w.Header())
		v := &visit{Request: r, w: w}
		s.failure(v, fault.New(fault.NotFound, "There is no file %s", name)).write(s, v)
		return
	}
	w.Header().Set("Content-Type", assetTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	// An SVG can be opened as a page, and would then run its scripts.
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	_, _ = w.Write(body) // fails if the browser has disconnected
}
