package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// A route is one line of the table of pages and forms.
type route struct {
	method, path string
	permission   access.Permission // none when empty: any session will do
	plan         access.Plan       // none when empty
	public       bool              // asks for no session
	maxBody      int64             // of a form, in bytes; httpapi.DefaultMaxBody when 0
	upload       bool              // takes a form with files, which do reads
	limit        *httpapi.Limit
	do           func(*Service, *visit) (answer, error)
}

func routes() []route {
	failures := &httpapi.Limit{Requests: 20, Per: time.Minute, By: httpapi.ByAddress, Failures: true}
	starts := &httpapi.Limit{Requests: 20, Per: time.Minute, By: httpapi.ByAddress}
	public := httpapi.PublicLimit()
	// A browser that waits asks every five seconds, and each time a row is read.
	polls := &httpapi.Limit{Requests: 600, Per: time.Minute, By: httpapi.ByAddress, Local: true}
	codes := &httpapi.Limit{Requests: 20, Per: time.Minute, By: httpapi.ByKey}
	return []route{
		{method: "GET", path: "/login", public: true, limit: public, do: (*Service).login},
		{method: "POST", path: "/login", public: true, limit: failures, do: (*Service).signIn},
		{method: "POST", path: "/login/device", public: true, limit: starts, do: (*Service).startDeviceLogin},
		{method: "GET", path: "/login/device", public: true, limit: polls, do: (*Service).deviceLogin},
		{method: "POST", path: "/login/device/finish", public: true, limit: starts, do: (*Service).finishDeviceLogin},
		{method: "POST", path: "/logout", public: true, limit: public, do: (*Service).signOut},
		{method: "POST", path: "/theme", public: true, limit: public, do: (*Service).setTheme},

		{method: "GET", path: "/{$}", permission: access.Read, do: (*Service).home},
		{method: "GET", path: "/skills", permission: access.Read, do: (*Service).skills},
		{method: "GET", path: "/skills/{skill}", permission: access.Read, do: (*Service).skill},

		{method: "GET", path: "/registry", permission: access.Read, do: (*Service).registry},
		{method: "GET", path: "/registry/{id}", permission: access.Read, do: (*Service).registryEntry},
		{method: "GET", path: "/registry/{id}/versions/{version}", permission: access.Read, do: (*Service).registryVersion},
		{method: "GET", path: "/registry/{id}/versions/{version}/download", permission: access.Read, do: (*Service).downloadVersion},
		{method: "GET", path: "/registry/{id}/versions/{version}/diff", permission: access.Read, do: (*Service).versionDiff},
		{method: "GET", path: "/registry/{id}/versions/{version}/files/{path...}", permission: access.Read, do: (*Service).versionFile},
		{method: "POST", path: "/registry/{id}/rollback", permission: access.RegistryRollback, plan: access.Pro, do: (*Service).rollBackEntry},
		{method: "POST", path: "/registry/{id}/delete", permission: access.RegistryDelete, do: (*Service).deleteEntry},

		{method: "GET", path: "/repohost", permission: access.RegistryPush, plan: access.Pro, do: (*Service).repohost},
		{method: "POST", path: "/repohost/settings", permission: access.RegistryPush, plan: access.Pro, do: (*Service).setMode},
		{method: "POST", path: "/repohost/installations", permission: access.RegistryPush, plan: access.Pro, do: (*Service).bindInstallation},
		{method: "POST", path: "/repohost/connections", permission: access.RegistryPush, plan: access.Pro, do: (*Service).connectRepo},
		{method: "GET", path: "/repohost/connections/new", permission: access.RegistryPush, plan: access.Pro, do: (*Service).newConnection},
		{method: "GET", path: "/repohost/connections/{id}", permission: access.RegistryPush, plan: access.Pro, do: (*Service).connection},
		{method: "POST", path: "/repohost/connections/{id}", permission: access.RegistryPush, plan: access.Pro, do: (*Service).changeConnection},
		{method: "POST", path: "/repohost/connections/{id}/sync", permission: access.RegistryPush, plan: access.Pro, do: (*Service).syncConnection},
		{method: "POST", path: "/repohost/connections/{id}/delete", permission: access.RegistryPush, plan: access.Pro, do: (*Service).disconnectRepo},
		{method: "POST", path: "/repohost/deliveries/{id}/redeliver", permission: access.RegistryPush, plan: access.Pro, do: (*Service).redeliver},

		{method: "GET", path: "/alerts", permission: access.Read, do: (*Service).alerts},
		{method: "GET", path: "/alerts/new", permission: access.Write, do: (*Service).alertNew},
		{method: "POST", path: "/alerts/preview", permission: access.Write, do: (*Service).previewAlert},
		{method: "POST", path: "/alerts", permission: access.Write, do: (*Service).createAlert},
		{method: "GET", path: "/alerts/{id}", permission: access.Read, do: (*Service).alert},
		{method: "POST", path: "/alerts/{id}", permission: access.Write, do: (*Service).changeAlert},
		{method: "POST", path: "/alerts/{id}/enabled", permission: access.Write, do: (*Service).enableAlert},
		{method: "POST", path: "/alerts/{id}/test", permission: access.Write, do: (*Service).testAlert},
		{method: "POST", path: "/alerts/{id}/rotate-secret", permission: access.Write, do: (*Service).rotateAlert},
		{method: "POST", path: "/alerts/{id}/delete", permission: access.Write, do: (*Service).deleteAlert},

		{method: "GET", path: "/community", permission: access.Read, do: (*Service).community},
		{method: "GET", path: "/signals", permission: access.Read, do: (*Service).signals},
		{method: "GET", path: "/signals/{skill}", permission: access.Read, do: (*Service).signalsSkill},
		{method: "GET", path: "/proposals", permission: access.Read, do: (*Service).proposals},
		{method: "GET", path: "/proposals/{id}", permission: access.Read, do: (*Service).proposal},
		{method: "POST", path: "/proposals/{id}", permission: access.Write, do: (*Service).moveProposal},

		{method: "GET", path: "/review", permission: access.Read, do: (*Service).review},
		{method: "GET", path: "/review/{source}", permission: access.Read, do: (*Service).review},
		{method: "POST", path: "/review", permission: access.Write, do: (*Service).decide},
		{method: "POST", path: "/review/undo", permission: access.Write, do: (*Service).undo},
		{method: "GET", path: "/sources", permission: access.Read, do: (*Service).sources},
		{method: "POST", path: "/sources/upload", permission: access.Write, maxBody: maxUpload, upload: true, do: (*Service).uploadSource},
		{method: "GET", path: "/sources/{id}", permission: access.Read, do: (*Service).source},
		{method: "POST", path: "/sources/{id}", permission: access.Write, do: (*Service).changeSource},
		{method: "POST", path: "/sources/{id}/upload", permission: access.Write, maxBody: maxUpload, upload: true, do: (*Service).uploadSnapshot},
		{method: "POST", path: "/sources/{id}/sync", permission: access.Write, do: (*Service).syncSource},
		{method: "POST", path: "/sources/{id}/delete", permission: access.Write, do: (*Service).deleteSource},
		{method: "GET", path: "/sources/{id}/diff", permission: access.Read, do: (*Service).sourceDiff},
		{method: "GET", path: "/sources/{id}/changes.diff", permission: access.Read, do: (*Service).sourceChanges},
		{method: "GET", path: "/sources/{id}/files/{path...}", permission: access.Read, do: (*Service).sourceFile},
		{method: "GET", path: "/sources/{id}/validation.sarif", permission: access.Read, do: (*Service).sourceSARIF},
		{method: "GET", path: "/suites", permission: access.Read, do: (*Service).suites},
		{method: "GET", path: "/suites/new", permission: access.Write, do: (*Service).newSuite},
		{method: "POST", path: "/suites/new", permission: access.Write, maxBody: maxSuite, do: (*Service).createSuite},
		{method: "POST", path: "/suites/import", permission: access.Write, maxBody: maxUpload, upload: true, do: (*Service).importSuite},
		{method: "GET", path: "/suites/{id}/export", permission: access.Read, do: (*Service).exportSuite},
		{method: "GET", path: "/suites/{id}", permission: access.Read, do: (*Service).suite},
		{method: "POST", path: "/suites/{id}", permission: access.Write, maxBody: maxSuite, do: (*Service).saveSuite},
		{method: "POST", path: "/suites/{id}/delete", permission: access.Write, do: (*Service).deleteSuite},
		{method: "POST", path: "/suites/{id}/runs", permission: access.Write, do: (*Service).startRun},
		{method: "GET", path: "/suites/{id}/compare", permission: access.Read, do: (*Service).compareChosen},
		{method: "GET", path: "/suites/{id}/improve-runs", permission: access.Read, do: (*Service).improveRuns},
		{method: "POST", path: "/suites/{id}/improve-runs", permission: access.Write, do: (*Service).startImprove},
		{method: "GET", path: "/improve-runs/{id}", permission: access.Read, do: (*Service).improveRun},
		{method: "GET", path: "/improve-runs/{id}/events", permission: access.Read, do: (*Service).improveEvents},
		{method: "POST", path: "/improve-runs/{id}/cancel", permission: access.Write, do: (*Service).cancelImprove},
		{method: "GET", path: "/runs/{id}", permission: access.Read, do: (*Service).run},
		{method: "GET", path: "/runs/{id}/events", permission: access.Read, do: (*Service).runEvents},
		{method: "GET", path: "/runs/{id}/compare", permission: access.Read, do: (*Service).compare},
		{method: "POST", path: "/runs/{id}/cancel", permission: access.Write, do: (*Service).cancelRun},

		{method: "GET", path: "/device", limit: codes, do: (*Service).device},
		{method: "POST", path: "/device", limit: codes, do: (*Service).answerDevice},
		{method: "GET", path: "/account", do: (*Service).account},
		{method: "POST", path: "/account/sessions/{id}/end", do: (*Service).endSession},

		{method: "GET", path: "/settings", permission: access.Read, do: (*Service).settings},
		{method: "GET", path: "/settings/members", permission: access.Read, do: (*Service).members},
		{method: "POST", path: "/settings/members", permission: access.Admin, do: (*Service).addMember},
		{method: "POST", path: "/settings/members/{id}/role", permission: access.Admin, do: (*Service).setRole},
		{method: "GET", path: "/settings/keys", permission: access.Admin, do: (*Service).keys},
		{method: "POST", path: "/settings/keys", permission: access.Admin, do: (*Service).createKey},
		{method: "POST", path: "/settings/keys/{id}/revoke", permission: access.Admin, do: (*Service).revokeKey},
		{method: "GET", path: "/settings/audit", permission: access.Admin, do: (*Service).audit},
		{method: "GET", path: "/settings/connect", permission: access.Read, do: (*Service).connect},
		{method: "POST", path: "/settings/connect", permission: access.Admin, do: (*Service).connectWithKey},
	}
}

// whenFull reports whether a form is served when there is no room on the disk:
// it lets somebody in, or out, or makes room.
func whenFull(path string) bool {
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case "login", "logout", "device", "finish", "theme", "end", "revoke", "delete", "cancel":
		return true
	}
	return false
}

// Routes lists the pages and forms, for the tests that check each of them.
func (s *Service) Routes() []httpapi.Route {
	var all []httpapi.Route
	for _, r := range routes() {
		all = append(all, httpapi.Route{Method: r.method, Path: r.path, Plan: r.plan, Permission: r.permission, Public: r.public, Limit: r.limit, WhenFull: whenFull(r.path)})
	}
	return all
}

// Mount adds the pages and the static files, and a page for paths that are
// nobody's.
func (s *Service) Mount(a *httpapi.API) {
	s.api = a
	for _, r := range routes() {
		a.Handle(r.method+" "+r.path, nil, s.handler(r))
	}
	a.Handle("GET /static/{name}", httpapi.PublicLimit(), http.HandlerFunc(s.serveAsset))
	a.Handle("GET /favicon.ico", httpapi.PublicLimit(), http.RedirectHandler(s.assets.url("icon.svg"), http.StatusFound))
	a.HandleMissing(s.handler(route{method: "GET", public: true, do: (*Service).missing}))
}
