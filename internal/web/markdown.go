package web

// Pages show Markdown that strangers wrote.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"html/template"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/sync/semaphore"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
)

const (
	// maxMarkdown is the longest text that is rendered; pages truncate longer ones.
	maxMarkdown = 64 << 10
	maxHTML     = 1 << 20 // of one text
	maxRendered = 8 << 20 // bytes of HTML that are cached
	maxRenders  = 2       // texts that are rendered at once
)

// A renderer converts Markdown to HTML, with a cache (LRU).
type renderer struct {
	reader goldmark.Markdown
	policy *bluemonday.Policy
	cache  *lru.Cache[[sha256.Size]byte, template.HTML]
	turns  *semaphore.Weighted
}

// newRenderer returns a renderer with an empty cache. The option for raw HTML is not set: it
// is dropped, and what remains is sanitised.
func newRenderer() *renderer {
	return &renderer{
		reader: goldmark.New(goldmark.WithExtensions(extension.GFM),
			goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(lowerHeadings{}, 0)))),
		policy: harmless(),
		cache:  lru.New[[sha256.Size]byte, template.HTML](maxRendered),
		turns:  semaphore.NewWeighted(maxRenders),
	}
}

// HTML renders untrusted text and sanitises it: nothing in it can run or load
// anything. Images are removed, too, because they would reveal readers to another
// server. A text that would take too much time or memory is shown as plain text.
func (r *renderer) HTML(source string) (template.HTML, error) {
	// The same README is shown on many pages and to many people.
	key := sha256.Sum256([]byte(source))
	if known, ok := r.cache.Get(key); ok {
		return known, nil
	}
	if err := r.turns.Acquire(context.Background(), 1); err != nil { // each takes a fraction of a second
		return "", err
	}
	defer r.turns.Release(1)
	// Another request rendered it while this one waited.
	if known, ok := r.cache.Get(key); ok {
		return known, nil
	}
	rendered, err := r.render(source)
	if errors.Is(err, errTooHeavy) {
		const note = `<p class="muted">This text is shown as plain text: ` +
			`it has too many tables, links or levels to be rendered.</p>`
		escaped := template.HTMLEscapeString(source)
		rendered, err = template.HTML(note+`<pre class="block" tabindex="0"><code>`+escaped+`</code></pre>`), nil
	}
	if err == nil {
		r.cache.Put(key, rendered, int64(len(rendered)+sha256.Size))
	}
	return rendered, err
}

var errTooHeavy = errors.New("the text is too much to render")

func (r *renderer) render(source string) (template.HTML, error) {
	if len(source) > maxMarkdown || tooHeavy(source) {
		return "", errTooHeavy
	}
	var page boundedBuffer
	if err := r.reader.Convert([]byte(source), &page); err != nil {
		return "", err
	}
	return template.HTML(r.policy.SanitizeBytes(page.Bytes())), nil // sanitised
}

// A boundedBuffer holds up to maxHTML bytes.
type boundedBuffer struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxHTML {
		return 0, errTooHeavy
	}
	return b.Buffer.Write(p)
}

// lowerHeadings demotes the headings of a text below those of the page around it.
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

// harmless is the allowlist of elements and attributes that the sanitiser keeps.
func harmless() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em",
		"strong", "del", "kbd", "sub", "sup")
	p.AllowLists()
	p.AllowTables()
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	return p
}
