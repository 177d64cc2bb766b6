package web

import (
	"bytes"
	"html/template"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown renders a foreign text and keeps only what can neither run nor load
// anything. Images go too: they would tell another server who reads.
func (s *Service) markdown(source string) (template.HTML, error) {
	var page bytes.Buffer
	reader := goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(lowerHeadings{}, 0))))
	if err := reader.Convert([]byte(source), &page); err != nil {
		return "", err
	}
	return template.HTML(harmless().SanitizeBytes(page.Bytes())), nil //nolint:gosec // sanitised
}

// lowerHeadings puts the headings of a text below those of the page around it.
type lowerHeadings struct{}

const (
	pageHeadings  = 2
	lowestHeading = 6
)

// Transform changes the levels of all headings.
func (lowerHeadings) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && entering {
			h.Level = min(h.Level+pageHeadings, lowestHeading)
		}
		return ast.WalkContinue, nil
	})
}

// harmless lists what a rendered text may consist of.
func harmless() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "del", "kbd", "sub", "sup")
	p.AllowLists()
	p.AllowTables()
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	return p
}
