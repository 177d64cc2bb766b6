package httpapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

var docsTemplate = template.Must(template.New("docs").Funcs(template.FuncMap{"schema": schemaJSON}).Parse(docsHTML))

// A docsGroup is the routes under one heading of the reference.
type docsGroup struct {
	Name, Description string
	Operations        []*huma.Operation
}

// A document is an answer that stays the same while the process runs. Rendering
// one takes some 50 ms, which is too much for every anonymous request.
type document struct {
	header http.Header
	body   []byte
}

func newDocument(body []byte, header http.Header) document {
	digest := sha256.Sum256(body)
	header.Set("ETag", `"`+hex.EncodeToString(digest[:])+`"`)
	return document{header, body}
}

func (a *API) serveDocument(render func() (document, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := render()
		if err != nil {
			a.writeError(w, r, err)
			return
		}
		maps.Copy(w.Header(), d.header)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body))
	})
}

func (a *API) renderOpenAPI() (document, error) {
	body, err := a.OpenAPI()
	return newDocument(body, http.Header{"Content-Type": {jsonType}}), err
}

// renderDocs renders the API reference from the document that /openapi.json
// serves. The page loads nothing else.
func (a *API) renderDocs() (document, error) {
	api := a.documented()
	page := struct {
		Info    *huma.Info
		Groups  []docsGroup
		Schemas map[string]*huma.Schema
	}{api.Info, docsGroups(api), api.Components.Schemas.Map()}
	var body bytes.Buffer
	err := docsTemplate.Execute(&body, page)
	return newDocument(body.Bytes(), http.Header{
		"Content-Type":            {"text/html; charset=utf-8"},
		"Content-Security-Policy": {"default-src 'none'; style-src 'unsafe-inline'"},
	}), err
}

func docsGroups(document *huma.OpenAPI) []docsGroup {
	byTag := map[string][]*huma.Operation{}
	for _, item := range document.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete, item.Head} {
			if op != nil {
				byTag[op.Tags[0]] = append(byTag[op.Tags[0]], op)
			}
		}
	}
	descriptions := map[string]string{}
	for _, t := range document.Tags {
		descriptions[t.Name] = t.Description
	}
	groups := make([]docsGroup, 0, len(byTag))
	for name, ops := range byTag {
		slices.SortFunc(ops, func(a, b *huma.Operation) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
		})
		groups = append(groups, docsGroup{name, descriptions[name], ops})
	}
	slices.SortFunc(groups, func(a, b docsGroup) int { return cmp.Compare(a.Name, b.Name) })
	return groups
}

func schemaJSON(s *huma.Schema) string {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
