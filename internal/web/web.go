// Package web is the dashboard: pages that people read and forms that they
// send. It owns no tables and holds no rules: a page calls the operations of
// the capabilities with the caller's organisation, as the API does.
//
// # How a page is added
//
// One file for the handlers (sources.go), one template for each page
// (templates/sources.html) and one line for each route in routes.go, with
// method, path, permission, plan. The names of pages, templates and files
// are the same. A page that stands in the menu also gets a line in nav.go.
//
// A handler loads and returns; it never writes to the connection:
//
//	func (s *Service) sources(v *visit) (answer, error) {
//		found, err := s.Sources.List(v.Context(), v.Caller.OrgID)
//		return show("sources", "Sources", sourcesView{Found: found}), err
//	}
//
// A change is a POST form, checks its permission by its line in routes.go, and
// ends in a redirect with a message that the next page shows once:
//
//	return redirect("/sources", "The source was removed."), nil
//
// An error is returned, never shown by hand: its fault.Kind becomes the page
// with the right status. A form that should come back with what was typed and
// what is wrong with it returns show(...).refused(err), and its template says
// {{template "problems" .}} above the form and {{with .Problem "threshold"}} at
// a field. Refused only answers what the person can mend; other errors go on.
//
// raw(fn) is for downloads and event streams.
//
// # What a visit knows
//
// v.Caller, v.Context(), v.PathValue("id"), v.URL.Query(), v.FormValue("name") (bounded
// by the route's maxBody, 1 MiB by default), v.pageNumber() and v.offset(per) for lists.
//
// # What a template has
//
// Its data is a frame: .Data is what the handler gave, $ is the frame anywhere. {{if $.May
// "write"}} hides what the caller may not press; {{if $.Plan "pro"}} what the plan lacks.
// A page file defines "content", and "scripts" if it needs a script of its own:
//
//	{{define "content"}}<h1>{{$.Title}}</h1>...{{end}}
//	{{define "scripts"}}<script src="{{asset "review.js"}}" defer></script>{{end}}
//
// Scripts share app.js's names: localTimes(element) turns the times of new content.
//
// Functions (format.go): time, day, days, percent, points, number, interval, decimal, plural, short, score (an
// improve.Score as 3 of 4), badge (a status as shape and word), icon, asset, dict (for partials with several arguments), pager, url
// (path with escaped parts), markdown (sanitised).
//
// Partials (templates/partials.html), each with what it takes:
//
//	{{template "empty" (dict "Title" "No sources" "Text" "..." "Command" "whetstone push ./skill")}}
//	{{template "copy" "whetstone install pdf"}}
//	{{template "copyblock" .Code}}         the same for several lines
//	{{template "pager" (pager . 41 20)}}   total, per page; keeps the query
//	{{template "sort" (dict "Frame" . "Field" "name" "Label" "Name")}}   in a th
//	{{template "sparkline" .Trend}}        a spark, see newSpark
//	{{template "chart" .Chart}}            a chart, see newChart
//	{{template "diff" .Diff}}              a []diffFile, see readDiff
//	{{template "excerpt" .Lines}}          an []excerptLine, see excerpt
//	{{template "problems" .}}              what was wrong with a form
//	{{template "count" .Signals}}          a *int that is withheld where it is nil
//	{{template "improve-runs" .Rows}}      an []improveRow
//
// Tables are <div class="scroll"><table>...</table></div>; cards are <section class="card">;
// a row of figures is <dl class="figures">; buttons are button, .button; .quiet and .danger
// vary them; .muted, .mono, .num (right-aligned digits) do what they say. Nothing inline: no
// style attribute, no on... attribute, no <script> with a body; the policy forbids them.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/alerts"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/community"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/improve"
	"github.com/whetstone-dev/whetstone/internal/overview"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/repohost"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/signals"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/suggestions"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// Parts are what the pages show and change.
type Parts struct {
	Auth        *auth.Service
	Audit       *audit.Service
	Quota       *quota.Service
	Overview    *overview.Service
	Skills      *skills.Service
	Registry    *registry.Service
	Telemetry   *telemetry.Service
	Alerts      *alerts.Service
	Sources     *sources.Service
	Suggestions *suggestions.Service
	Suites      *suites.Service
	Runs        *runs.Service
	Improve     *improve.Service
	Repohost    *repohost.Service
	Community   *community.Service
	Signals     *signals.Service
	Proposals   *proposals.Service
	// PublicURL is where people reach the service; commands to copy name it.
	PublicURL string
	Log       *slog.Logger
}

// Service serves the pages.
type Service struct {
	Parts

	api       *httpapi.API
	templates map[string]pageTemplate
	assets    assets
	origins   *http.CrossOriginProtection
	secure    bool // the public URL is https
	prose     *renderer
}

// New reads the static files and what all pages share.
func New(p Parts) (_ *Service, err error) {
	defer fault.Wrap(&err, "dashboard")
	s := &Service{
		Parts: p, origins: http.NewCrossOriginProtection(), secure: strings.HasPrefix(p.PublicURL, "https://"),
		prose: newRenderer(),
	}
	if u, err := url.Parse(p.PublicURL); err == nil && u.Host != "" {
		if err := s.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, err
		}
	}
	if s.assets, err = readAssets(); err != nil {
		return nil, err
	}
	s.templates, err = s.readTemplates()
	return s, err
}
