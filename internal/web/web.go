// Package web is the dashboard: pages and forms for people. It owns no tables and
// has no rules of its own: a page calls the operations of the capabilities with
// the caller's organisation, as the API does.
//
// Every request passes the same steps (visit.go): the CSRF check, the session,
// plan and permission, the rate limit, and the limit of the form's size.
//
// # How a page is added
//
// One file for the handlers (sources.go), one template for each page
// (templates/sources.html), and one entry for each route in routes.go with its
// permission, plan, method and path. Pages, templates and files have the same
// names. A page of the menu also gets a line in nav.go.
//
// A handler reads and returns; it never writes to the connection:
//
//	func (s *Service) handleSources(v *visit) (answer, error) {
//		found, err := s.Sources.List(v.Context(), v.Caller.OrgID)
//		return show("sources", "Sources", sourcesView{Found: found}), err
//	}
//
// A change is a POST form. It ends with a redirect and a flash message, which the
// next page shows once:
//
//	return redirect("/sources", "The source was deleted."), nil
//
// Errors are returned; their fault.Kind decides the status of the error page. To
// show a form again with the input and its problems, return show(...).refused(err):
// the template has {{template "problems" .}} above the form and {{with .Problem
// "threshold"}} at a field. Errors that cannot be corrected in the form become
// error pages all the same.
//
// raw(fn) is for downloads and event streams.
//
// # What a handler uses
//
// v.Caller, v.Context(), v.PathValue("id"), v.URL.Query(), v.FormValue("name") (limited
// by the route's maxBody, 1 MiB by default), decodeForm for a form that is shown again as it was
// typed, and v.list, the search, order and page of a list:
// its route has the fields that it can be sorted by (sorts), its view embeds listing.Size, and
// its filter is a form with data-auto, which app.js sends on every change.
//
// # What a template uses
//
// Templates are formatted by tools/templates (make fmt), which knows by their names and classes
// beside which elements white space shows: a class with white-space or display in a style sheet
// may have to be added there.
//
// Its data is a frame: .Data is the handler's view, and $ is the frame everywhere. {{if $.May
// "write"}} hides what the caller is not permitted to do; {{if $.Plan "pro"}} what the plan lacks.
// A page file defines "content", and "scripts" if it needs a script:
//
//	{{define "content"}}<h1>{{$.Title}}</h1>...{{end}}
//	{{define "scripts"}}<script src="{{asset "review.js"}}" defer></script>{{end}}
//
// Scripts share the functions of app.js: localTimes(element) converts the times of new content.
//
// Functions (format.go and the package format): time (relative to now), moment (exact), day, days, percent, points, number, interval, decimal, money, price, plural, short, score (an
// improve.Score as 3 of 4), channel (its name), badge (a status as shape and word), icon, asset,
// dict (for partials with several arguments), pager, url (path with escaped parts), markdown
// (sanitised).
//
// Partials (templates/partials.html) and their arguments:
//
//	{{template "empty" (dict "Title" "No sources" "Text" "..." "Command" "whetstone push ./skill")}}
//	{{template "copy" "whetstone install pdf"}}
//	{{template "copyblock" .Code}}         the same for several lines
//	{{template "pager" (pager . 41 20)}}   total, per page; keeps the query
//	{{template "sort" (dict "Frame" . "Field" "name" "Label" "Name")}}   a th of a sortable column
//	{{template "export" (csv . "/skills.csv" .Data.Total)}}   the list as a file
//	{{template "sparkline" .Trend}}        a charts.Spark
//	{{template "chart" .Chart}}            a charts.Chart; the page loads chart.js
//	{{template "diagnosis" .Diagnosis}}    a diagnosis
//	{{template "diff" .Diff}}              a []diffFile
//	{{template "excerpt" .Lines}}          an []excerptLine, see excerpt
//	{{template "problems" .}}              the problems of a form
//	{{template "count" .Signals}}          a *int that is suppressed if nil
//	{{template "improve-runs" .Rows}}      an []improveRow
//
// Tables are <div class="scroll"><table>...</table></div>; cards are <section class="card">;
// a row of figures is <dl class="figures">; buttons are button, .button, with the variants .quiet
// and .danger; .num right-aligns digits. Nothing inline: no style attribute, no on... attribute, no
// <script> with a body; the Content-Security-Policy forbids them.
package web

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/scim"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/serviceaccounts"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/learn/community"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/unattended"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals/apply"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/trials"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/checks"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/watch/incidents"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
	"github.com/whetstone-dev/whetstone/internal/web/privacy"
)

// Parts are the capabilities behind the pages.
type Parts struct {
	Auth          *auth.Service
	SignIn        *signin.Service
	Members       *members.Service
	Teams         *teams.Service
	Accounts      *serviceaccounts.Service
	Events        *events.Service
	SCIM          *scim.Service
	Privacy       *privacy.Service
	Audit         *audit.Service
	Quota         *quota.Service
	Tokens        *tokens.Service
	Publishers    *publishers.Service
	Overview      *overview.Service
	Report        *report.Service
	Skills        *skills.Service
	Curate        *curate.Service
	Costs         *costs.Service
	Sessions      *sessions.Service
	Evidence      *content.Service
	Grades        *grades.Service
	Registry      *registry.Service
	Release       *release.Service
	Requirements  *requirements.Service
	Installations *installations.Service
	Locks         LockChecker
	Telemetry     *telemetry.Service
	Alerts        *alerts.Service
	Incidents     *incidents.Service
	Sources       *sources.Service
	Suggestions   *suggestions.Service
	Suites        *suites.Service
	Runs          *runs.Service
	Trials        *trials.Service
	Comparisons   *comparisons.Service
	Gates         *gates.Service
	Approvals     *approvals.Service
	Attestations  *attestations.Service
	Improve       *improve.Service
	Unattended    *unattended.Service
	Repohost      *repohost.Service
	Checks        *checks.Service
	Community     *community.Service
	Signals       *signals.Service
	Proposals     *proposals.Service
	Apply         *apply.Service
	// PublicURL is the address that people use; commands to copy contain it.
	PublicURL string
	Log       *slog.Logger
}

// Service serves the pages.
type Service struct {
	Parts

	api       *httpapi.API
	routes    []route
	templates map[string]pageTemplate
	assets    assets
	csrf      *http.CrossOriginProtection
	secure    bool // the public URL is https
	prose     *renderer
}

// New reads the static files and the shared templates.
func New(p Parts) (_ *Service, err error) {
	defer fault.Wrap(&err, "dashboard")
	s := &Service{
		Parts: p, routes: findPages(routes()), csrf: http.NewCrossOriginProtection(),
		secure: strings.HasPrefix(p.PublicURL, "https://"), prose: newRenderer(),
	}
	// Behind a proxy the Host header may differ from the Origin that browsers send.
	if u, err := url.Parse(p.PublicURL); err == nil && u.Host != "" {
		if err := s.csrf.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, err
		}
	}
	if s.assets, err = readAssets(); err != nil {
		return nil, err
	}
	s.templates, err = s.readTemplates()
	return s, err
}
