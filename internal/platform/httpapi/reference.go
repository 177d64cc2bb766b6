package httpapi

// The page /docs is the API reference, rendered from the OpenAPI document. It
// loads nothing else and can be read without scripts.

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

var (
	//go:embed reference_page.html
	pageHTML string
	//go:embed reference_documents.txt
	documentIndex string
	//go:embed reference_page.css
	styles string
	//go:embed reference_page.js
	script string

	page = template.Must(template.New("reference").Parse(pageHTML))
)

// ContentSecurityPolicy allows the styles and the script of the page, and nothing else.
var ContentSecurityPolicy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
	sourceHash(styles), sourceHash(script))

func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// documentsURL is where the documents are.
const documentsURL = "https://github.com/whetstone-dev/whetstone/blob/main/docs/"

// defaultServer is the server in the examples of a page that knows no other. A browser
// replaces it with the address that the page was loaded from.
const defaultServer = "http://127.0.0.1:8080"

// A referenceDocument is what a page is rendered from.
type referenceDocument struct {
	API *huma.OpenAPI
	// Examples are bodies of requests by the id of their operation. Bodies of other
	// operations are generated from their schemas.
	Examples map[string]json.RawMessage
	Words    Words
}

type group struct {
	Name        string
	Description template.HTML
	Operations  []operation
}

type operation struct {
	ID, Method, Path, Summary string
	Description               template.HTML
	Parameters                []field
	Bodies                    []body
	Answers                   []answer
	Server, Curl              string // Curl follows Server
	Replace                   []string
}

type body struct {
	Media  string
	Type   template.HTML
	Fields []field
}

type answer struct {
	Status, Text string
	Type         template.HTML
	Example      string // of a success; empty without a body that can be shown
}

type schema struct {
	Name        string
	Description template.HTML
	Type        template.HTML
	Fields      []field
}

// renderReference renders the page.
func renderReference(d referenceDocument) ([]byte, error) {
	r := &renderer{referenceDocument: d, schemas: d.API.Components.Schemas.Map(), server: defaultServer}
	r.requests = exampler{schemas: r.schemas, words: d.Words}
	if len(d.API.Servers) > 0 && d.API.Servers[0].URL != "/" {
		r.server = d.API.Servers[0].URL
	}
	var documents []documentPage
	for line := range strings.Lines(documentIndex) { // which `make generate` writes
		if cells := strings.Split(strings.TrimSpace(line), "\t"); len(cells) > 2 {
			documents = append(documents, documentPage{documentsURL + cells[0], cells[1], cells[2], cells[3:]})
		}
	}
	groups, count := r.groups()
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		Info        *huma.Info
		Description template.HTML
		Style       template.CSS
		Script      template.JS
		Documents   []documentPage
		Groups      []group
		Count       int
		Schemas     []schema
	}{d.API.Info, paragraphs(d.API.Info.Description), template.CSS(styles), template.JS(script), documents, groups, count, r.named()})
	return b.Bytes(), err
}

// A documentPage is a page of the documentation, which lists it by its title and headings.
type documentPage struct {
	Address, Title, About string
	Sections              []string
}

type renderer struct {
	referenceDocument
	schemas  map[string]*huma.Schema
	requests exampler
	server   string
}

func (r *renderer) groups() (groups []group, count int) {
	byTag := map[string][]*huma.Operation{}
	for _, item := range r.API.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete, item.Head} {
			if op != nil {
				byTag[op.Tags[0]] = append(byTag[op.Tags[0]], op)
			}
		}
	}
	descriptions := map[string]string{}
	for _, t := range r.API.Tags {
		descriptions[t.Name] = t.Description
	}
	for _, name := range slices.Sorted(maps.Keys(byTag)) {
		ops := byTag[name]
		slices.SortFunc(ops, func(a, b *huma.Operation) int {
			return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
		})
		g := group{Name: name, Description: inline(descriptions[name])}
		for _, op := range ops {
			g.Operations = append(g.Operations, r.operation(op))
		}
		groups, count = append(groups, g), count+len(ops)
	}
	return groups, count
}

func (r *renderer) operation(op *huma.Operation) operation {
	// A path of net/http may end in {path...}, which OpenAPI does not know.
	o := operation{
		ID: op.OperationID, Method: op.Method, Path: strings.Replace(op.Path, "...}", "}", 1), Summary: op.Summary,
		Description: inline(op.Description), Server: r.server,
	}
	for _, p := range op.Parameters {
		f := r.field(p.Name, p.Schema, p.Required)
		f.In, f.Doc = p.In, inline(cmp.Or(p.Description, p.Schema.Description))
		o.Parameters = append(o.Parameters, f)
	}
	if op.RequestBody != nil {
		for _, media := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			s := op.RequestBody.Content[media].Schema
			o.Bodies = append(o.Bodies, body{Media: media, Type: r.typeOf(s), Fields: r.fields(s)})
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		response := op.Responses[status]
		if response.Ref != "" {
			response = r.API.Components.Responses[path.Base(response.Ref)]
		}
		o.Answers = append(o.Answers, r.answer(status, response))
	}
	o.Curl, o.Replace = r.curl(op, o.Path)
	return o
}

func (r *renderer) answer(status string, response *huma.Response) answer {
	a := answer{Status: status, Text: response.Description}
	var types []string
	for _, media := range slices.Sorted(maps.Keys(response.Content)) {
		t := string(r.typeOf(response.Content[media].Schema))
		if media != "application/json" {
			t = "<code>" + template.HTMLEscapeString(media) + "</code>"
		}
		types = append(types, t)
	}
	a.Type = template.HTML(strings.Join(types, " or "))
	if body := response.Content[jsonType]; body != nil && status < "300" && body.Example != nil {
		raw, _ := json.MarshalIndent(body.Example, "", " ") // it is part of the OpenAPI document
		a.Example = string(raw)
	}
	return a
}

// named lists the schemas that have a name.
func (r *renderer) named() (all []schema) {
	for _, name := range slices.Sorted(maps.Keys(r.schemas)) {
		s := r.schemas[name]
		n := schema{Name: name, Description: inline(s.Description), Fields: r.fields(s)}
		if len(n.Fields) == 0 {
			n.Type = r.typeOf(s)
		}
		all = append(all, n)
	}
	return all
}

// inline renders a sentence with `code` in it.
func inline(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// paragraphs renders text with blank lines between its paragraphs.
func paragraphs(text string) template.HTML {
	var b strings.Builder
	for p := range strings.SplitSeq(text, "\n\n") {
		b.WriteString("<p>" + string(inline(p)) + "</p>")
	}
	return template.HTML(b.String())
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
