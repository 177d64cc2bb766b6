package httpapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

var docsTemplate = template.Must(template.New("docs").Funcs(template.FuncMap{"schema": schemaJSON}).Parse(docsHTML))

// docsGroup is the routes under one heading of the reference page.
type docsGroup struct {
	Name       string
	Operations []*huma.Operation
}

// serveDocs renders the reference from the same document that /openapi.json
// serves. The page loads nothing from anywhere.
func (a *API) serveDocs(w http.ResponseWriter, _ *http.Request) {
	document := a.huma.OpenAPI()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	page := struct {
		Info    *huma.Info
		Groups  []docsGroup
		Schemas map[string]*huma.Schema
	}{document.Info, docsGroups(document), document.Components.Schemas.Map()}
	if err := docsTemplate.Execute(w, page); err != nil {
		a.log.Error("docs page", "error", err)
	}
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
	groups := make([]docsGroup, 0, len(byTag))
	for name, ops := range byTag {
		slices.SortFunc(ops, func(a, b *huma.Operation) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
		})
		groups = append(groups, docsGroup{name, ops})
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
