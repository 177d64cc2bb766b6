package web

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/web/format"
)

//go:embed templates
var templateFiles embed.FS

// A pageTemplate returns a page's set of templates, which is parsed at the first
// request: all of them take megabytes, and most servers show a few. A mistake in a
// template is found by the tests, which render all pages.
type pageTemplate func() (*template.Template, error)

// readTemplates returns one set for each page: the layout, the partials, and the
// page's own blocks. Blocks of a page have the same names in all sets, which is why
// each has its own set.
func (s *Service) readTemplates() (map[string]pageTemplate, error) {
	// The layout is parsed at the start, so that a server with a broken one does not
	// start.
	base, err := parse(template.New("layout").Funcs(s.functions()), "templates/layout.html", "templates/partials.html")
	if err != nil {
		return nil, err
	}
	pages, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	all := map[string]pageTemplate{}
	for _, file := range pages {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "layout" || name == "partials" {
			continue
		}
		all[name] = sync.OnceValues(func() (*template.Template, error) {
			set, err := base.Clone()
			if err != nil {
				return nil, err
			}
			return parse(set, file)
		})
	}
	return all, nil
}

// indentation is for those who read a template: without it, pages are a third smaller.
var indentation = regexp.MustCompile(`\n\t+`)

// parse adds files to a set of templates.
func parse(set *template.Template, files ...string) (*template.Template, error) {
	for _, file := range files {
		text, err := templateFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if _, err := set.New(path.Base(file)).Parse(indentation.ReplaceAllString(string(text), "\n")); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// functions are what templates can call. They are few and about words, not about
// data: what a page shows is computed in Go.
func (s *Service) functions() template.FuncMap {
	return template.FuncMap{
		"asset":    s.assets.url,
		"badge":    newBadge,
		"basis":    format.BasisWords,
		"grounds":  format.BasisWord,
		"channel":  channelName,
		"csv":      newExport,
		"day":      format.Day,
		"days":     format.Days,
		"decimal":  format.Decimal,
		"dict":     dict,
		"icon":     icon,
		"interval": format.Interval,
		"markdown": s.prose.HTML,
		"moment":   format.Moment,
		"money":    format.Money,
		"note":     improveNote,
		"number":   format.Number,
		"pager":    newPager,
		"percent":  format.Percent,
		"plural":   format.Plural,
		"points":   format.Points,
		"price":    format.Price,
		"reason":   format.Reason,
		"score":    scoreText,
		"short":    short,
		"sortlink": newHead,
		"time":     format.Time,
		"url":      pathTo,
		"verifier": verifierWords,
	}
}

// dict combines several arguments of a partial: dict "Title" .Title "Text" "...".
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d arguments are no pairs", len(pairs))
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}
