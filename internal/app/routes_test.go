package app_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/access"
)

// gate is what a route of the interface asks of its caller.
type gate struct {
	plan       access.Plan
	permission access.Permission
}

// The gates that many routes share.
var (
	read     = gate{"", access.Read}
	write    = gate{"", access.Write}
	repohost = gate{access.Pro, access.RegistryPush}
)

// interfaceRoutes is every row of the interface's tables of endpoints.
var interfaceRoutes = map[string]gate{
	"POST /api/v1/alerts": write,

	"GET /api/v1/cloud-sources":                                                            read,
	"POST /api/v1/cloud-sources":                                                           write,
	"GET /api/v1/cloud-sources/{id}":                                                       read,
	"POST /api/v1/cloud-sources/upload":                                                    write,
	"POST /api/v1/cloud-sources/{id}/repohost-sync":                                        write,
	"POST /api/v1/cloud-sources/{sourceId}/eval-suggestions/review":                        write,
	"DELETE /api/v1/cloud-sources/{sourceId}/eval-suggestions/{suggestionId}/review":       write,
	"POST /api/v1/cloud-sources/{sourceId}/eval-suggestions/{suggestionId}/apply-to-suite": write,

	"GET /api/v1/eval-suites":        read,
	"GET /api/v1/eval-suites/{id}":   read,
	"POST /api/v1/eval-suites":       write,
	"PATCH /api/v1/eval-suites/{id}": write,

	"GET /api/v1/repohost/settings":               repohost,
	"POST /api/v1/repohost/settings":              repohost,
	"GET /api/v1/repohost/installations":          repohost,
	"POST /api/v1/repohost/installations":         repohost,
	"GET /api/v1/repohost/repos":                  repohost,
	"GET /api/v1/repohost/connections":            repohost,
	"POST /api/v1/repohost/connections":           repohost,
	"PATCH /api/v1/repohost/connections/{id}":     repohost,
	"DELETE /api/v1/repohost/connections/{id}":    repohost,
	"POST /api/v1/repohost/connections/{id}/sync": repohost,

	"POST /api/v1/registry":                   {access.Pro, access.RegistryPush},
	"GET /api/v1/registry":                    read,
	"GET /api/v1/registry/{id}":               read,
	"POST /api/v1/registry/{id}/versions":     {access.Pro, access.Write}, // the permission is the contract's
	"GET /api/v1/registry/{id}/versions":      read,
	"POST /api/v1/registry/{id}/rollback":     {access.Pro, access.RegistryRollback},
	"POST /api/v1/registry/{id}/install":      {access.Pro, access.RegistryInstall},
	"GET /api/v1/registry/{id}/installations": {access.Team, access.Read},
	"GET /api/v1/registry/sync/check":         read,
	"POST /api/v1/registry/sync":              read, // it asks; a viewer may stay up to date
	"GET /api/v1/registry/installed":          read,
	"DELETE /api/v1/registry/{id}":            {"", access.RegistryDelete},

	"POST /api/v1/community/bundles":                   write,
	"GET /api/v1/community/bundles/overview":           read,
	"GET /api/v1/community/bundles/skills/{skillName}": read,
	"GET /api/v1/community/bundles/recent":             read,

	"POST /api/v1/signals":                      write,
	"GET /api/v1/signals/aggregates":            read,
	"GET /api/v1/creator-signals/overview":      read,
	"GET /api/v1/creator-signals/skills/{name}": read,
	"GET /api/v1/creator-signals/proposals":     read,

	"GET /v1/skills":            read,
	"GET /v1/skills/{skill_id}": read,
}

// contractRoutes are those that the contract adds, by its sections.
var contractRoutes = strings.Fields(`
	GET:/api/v1/me
	GET:/api/v1/keys  POST:/api/v1/keys  DELETE:/api/v1/keys/{id}
	POST:/api/v1/device-code  POST:/api/v1/device-code/poll  GET:/api/v1/device-code/poll

	GET:/api/v1/alerts  GET:/api/v1/alerts/{id}  PATCH:/api/v1/alerts/{id}  DELETE:/api/v1/alerts/{id}
	POST:/api/v1/alerts/{id}/test  GET:/api/v1/alerts/{id}/deliveries  POST:/api/v1/alerts/{id}/rotate-secret
	GET:/api/v1/alert-events

	DELETE:/api/v1/eval-suites/{id}  POST:/api/v1/eval-suites/{id}/runs  GET:/api/v1/eval-suites/{id}/runs
	GET:/api/v1/eval-runs/{id}  POST:/api/v1/eval-runs/{id}/cancel  GET:/api/v1/eval-runs/{id}/events
	POST:/api/v1/improve-runs  GET:/api/v1/improve-runs  GET:/api/v1/improve-runs/{id}  POST:/api/v1/improve-runs/{id}/cancel

	POST:/api/v1/repohost/webhook  GET:/api/v1/repohost/deliveries  POST:/api/v1/repohost/deliveries/{id}/redeliver

	GET:/api/v1/registry/public
	GET:/api/v1/registry/{id}/versions/{version}/download
	GET:/api/v1/registry/{id}/versions/{version}/files/{path...}
	GET:/api/v1/registry/{id}/versions/{version}/diff

	GET:/api/v1/community/bundles/schema
	GET:/api/v1/proposals  GET:/api/v1/proposals/{id}  PATCH:/api/v1/proposals/{id}

	POST:/api/v1/push  POST:/v1/logs  POST:/v1/traces  POST:/v1/metrics
	DELETE:/api/v1/me/data  GET:/api/v1/alpha/verify
`)

// ownRoutes are those that neither document has and users would miss. The API
// reference names them.
var ownRoutes = strings.Fields(`
	GET:/api/v1/audit
	GET:/api/v1/push/{push_id}
	PATCH:/api/v1/cloud-sources/{id}
	DELETE:/api/v1/cloud-sources/{id}
	GET:/api/v1/cloud-sources/{id}/validation.sarif
	GET:/api/v1/cloud-sources/{id}/snapshots/{snapshot_id}/files/{path...}
	GET:/api/v1/cloud-sources/{id}/eval-suggestions
	GET:/api/v1/cloud-sources/{id}/eval-suggestions/reviews
	POST:/api/v1/eval-suites/import
	GET:/api/v1/eval-suites/{id}/export
`)

// The routes that ask for no key, and those that any good key may use, however
// little it is allowed: about its own holder.
var (
	withoutKey = []string{
		"POST /api/v1/device-code", "POST /api/v1/device-code/poll", "GET /api/v1/device-code/poll",
		"POST /api/v1/repohost/webhook",
	}
	anyKey = []string{"GET /api/v1/me", "GET /api/v1/alpha/verify"}
)

// TestRoutes checks every route that is mounted: one of the lists has it, and
// it is guarded as the interface says.
func TestRoutes(t *testing.T) {
	gates := map[string]gate{}
	for name, g := range interfaceRoutes {
		method, path, _ := strings.Cut(name, " ")
		gates[routeName(method, path)] = g
	}
	known := map[string]bool{}
	for _, name := range slices.Concat(contractRoutes, ownRoutes) {
		method, path, _ := strings.Cut(name, ":")
		known[routeName(method, path)] = true
	}
	for _, r := range start(t, settings(t, "--roles", "web")).Routes() {
		name := routeName(r.Method, r.Path)
		want, listed := gates[name]
		if got := (gate{r.Plan, r.Permission}); listed && got != want {
			t.Errorf("%s asks for plan %q and permission %q; the interface wants %q and %q", name, got.plan, got.permission, want.plan, want.permission)
		}
		if !listed && !known[name] {
			t.Errorf("%s is in neither document: correct its path, or add it to ownRoutes and to the API reference", name)
		}
		if open := slices.Contains(withoutKey, name); r.Public != open {
			t.Errorf("%s is public: %t, want %t", name, r.Public, open)
		}
		if r.Permission == "" && !r.Public && !slices.Contains(anyKey, name) {
			t.Errorf("%s asks for no permission: name one, unless any key may use it (anyKey)", name)
		}
		if r.Summary == "" {
			t.Errorf("%s has no summary", name)
		}
	}
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// routeName names a route whatever its parameters are called.
func routeName(method, path string) string {
	return strings.ToUpper(method) + " " + parameter.ReplaceAllString(path, "{}")
}
