package app_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A gate is what a route asks of its caller. The tables below are written down, not
// derived: what a route asks for is a decision, which a second pair of eyes
// makes here. Does it replace what agents run, or decide that? Then write is not
// enough: see registry:push, registry:rollback and admin.
type gate struct {
	plan       access.Plan
	permission access.Permission
}

// The gates that many routes share.
var (
	none     = gate{} // any key, or none where the route is public
	read     = gate{"", access.Read}
	write    = gate{"", access.Write}
	report   = gate{"", access.TelemetryWrite}
	admin    = gate{"", access.Admin}
	repohost = gate{access.Pro, access.RegistryPush}
	push     = gate{access.Pro, access.RegistryPush}
	rollback = gate{access.Pro, access.RegistryRollback}
	install  = gate{access.Pro, access.RegistryInstall}
	team     = gate{access.Team, access.Read}
	remove   = gate{"", access.RegistryDelete}
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
	"POST /api/v1/cloud-sources/{id}/drafts/apply":                                         write,

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
	"GET /api/v1/repohost/pull-requests":          repohost,
	"GET /api/v1/repohost/pull-requests/{id}":     repohost,

	"POST /api/v1/registry":                   push,
	"GET /api/v1/registry":                    read,
	"GET /api/v1/registry/{id}":               read,
	"POST /api/v1/registry/{id}/versions":     push, // the permission is the contract's
	"GET /api/v1/registry/{id}/versions":      read,
	"POST /api/v1/registry/{id}/rollback":     rollback,
	"POST /api/v1/registry/{id}/install":      install,
	"GET /api/v1/registry/{id}/installations": team,
	"GET /api/v1/registry/sync/check":         read,
	"POST /api/v1/registry/sync":              read, // it asks; a viewer may stay up to date
	"POST /api/v1/registry/resolve":           read, // it asks
	"GET /api/v1/registry/installed":          read,
	"DELETE /api/v1/registry/{id}":            remove,

	"POST /api/v1/community/bundles":                   report,
	"GET /api/v1/community/bundles/overview":           read,
	"GET /api/v1/community/bundles/skills/{skillName}": read,
	"GET /api/v1/community/bundles/recent":             read,

	"POST /api/v1/signals":                      report,
	"GET /api/v1/signals/aggregates":            read,
	"GET /api/v1/creator-signals/overview":      read,
	"GET /api/v1/creator-signals/skills/{name}": read,
	"GET /api/v1/creator-signals/proposals":     read,

	"GET /v1/skills":            read,
	"GET /v1/skills/{skill_id}": read,
}

// contractRoutes are those that the contract adds, by its sections.
var contractRoutes = map[string]gate{
	"PATCH /v1/skills/{skill_id}": admin,

	"GET /api/v1/me":           none,
	"GET /api/v1/keys":         admin,
	"POST /api/v1/keys":        admin,
	"DELETE /api/v1/keys/{id}": admin,
	"PATCH /api/v1/keys/{id}":  admin,
	"GET /api/v1/key-policy":   admin,
	"PUT /api/v1/key-policy":   admin,

	"GET /api/v1/service-accounts":         admin,
	"POST /api/v1/service-accounts":        admin,
	"GET /api/v1/service-accounts/{id}":    admin,
	"PATCH /api/v1/service-accounts/{id}":  admin,
	"DELETE /api/v1/service-accounts/{id}": admin,

	"GET /api/v1/registry/{id}/versions/{version}/attestations": read,

	"GET /api/v1/approvals":                                  read,
	"GET /api/v1/registry/{id}/versions/{version}/approvals": read,
	// Who may decide is for approvals.Approvers to say.
	"POST /api/v1/registry/{id}/versions/{version}/approvals":          write,
	"POST /api/v1/registry/{id}/versions/{version}/comments":           write,
	"POST /api/v1/registry/{id}/versions/{version}/approvals/override": rollback,

	"GET /api/v1/catalog-tokens":              admin,
	"POST /api/v1/catalog-tokens":             admin,
	"POST /api/v1/catalog-tokens/{id}/rotate": admin,
	"DELETE /api/v1/catalog-tokens/{id}":      admin,
	"GET /api/v1/scim-tokens":                 admin,
	"POST /api/v1/scim-tokens":                admin,
	"DELETE /api/v1/scim-tokens/{id}":         admin,
	"GET /api/v1/scim-groups":                 admin,
	"PUT /api/v1/scim-groups/{id}":            admin,
	"GET /api/v1/trusted-publishers":          admin,
	"POST /api/v1/trusted-publishers":         admin,
	"DELETE /api/v1/trusted-publishers/{id}":  admin,
	"POST /api/v1/trusted-publishers/token":   none,
	"GET /api/v1/audit/export":                admin,
	"GET /api/v1/event-webhooks":              admin,
	"POST /api/v1/event-webhooks":             admin,
	"GET /api/v1/event-webhooks/{id}":         admin,
	"PATCH /api/v1/event-webhooks/{id}":       admin,
	"DELETE /api/v1/event-webhooks/{id}":      admin,
	"POST /api/v1/event-webhooks/{id}/test":   admin,

	"POST /api/v1/event-webhooks/{id}/rotate-secret":                   admin,
	"GET /api/v1/event-webhooks/{id}/deliveries":                       admin,
	"POST /api/v1/event-webhooks/{id}/deliveries/{delivery_id}/replay": admin,

	"GET /api/v1/members":                     read,
	"PATCH /api/v1/members/{user_id}":         admin,
	"POST /api/v1/members/{user_id}/transfer": admin,
	"DELETE /api/v1/members/{user_id}":        admin,
	"POST /api/v1/me/leave":                   read,
	"GET /api/v1/me/export":                   read,
	"POST /api/v1/organization/export":        admin,
	"GET /api/v1/organization/export":         admin,
	"DELETE /api/v1/organization":             admin,
	"GET /api/v1/invitations":                 admin,
	"POST /api/v1/invitations":                admin,
	"DELETE /api/v1/invitations/{id}":         admin,
	"POST /api/v1/invitations/accept":         none,
	"POST /api/v1/device-code":                none,
	"POST /api/v1/device-code/poll":           none,
	"GET /api/v1/device-code/poll":            none,

	"GET /api/v1/teams":                           read,
	"POST /api/v1/teams":                          admin,
	"GET /api/v1/teams/{id}":                      read,
	"PATCH /api/v1/teams/{id}":                    admin,
	"DELETE /api/v1/teams/{id}":                   admin,
	"PUT /api/v1/teams/{id}/members":              admin,
	"PUT /api/v1/teams/{id}/members/{user_id}":    admin,
	"DELETE /api/v1/teams/{id}/members/{user_id}": admin,
	"GET /api/v1/sets":                            read,
	"POST /api/v1/sets":                           write,
	"GET /api/v1/sets/{id}":                       read,
	"PUT /api/v1/sets/{id}":                       admin,
	"DELETE /api/v1/sets/{id}":                    admin,
	"GET /api/v1/sets/{id}/coverage":              team,
	"GET /api/v1/registry/{id}/owners":            read,
	"PUT /api/v1/registry/{id}/owners":            admin,

	"POST /api/v1/registry/{id}/gates":                       write,
	"GET /api/v1/incidents":                                  read,
	"GET /api/v1/incidents/{id}":                             read,
	"GET /api/v1/registry/{id}/rollback":                     read,
	"GET /api/v1/registry/{id}/requirements":                 read,
	"POST /api/v1/registry/requirements":                     read, // it asks; a body tells what about
	"POST /api/v1/registry/{id}/rollback/undo":               rollback,
	"POST /api/v1/registry/{id}/versions/{version}/promote":  rollback,
	"POST /api/v1/registry/{id}/versions/{version}/withdraw": rollback,
	"POST /api/v1/registry/{id}/versions/{version}/restore":  rollback,
	"GET /api/v1/registry/{id}/gate-policy":                  read,
	"PUT /api/v1/registry/{id}/gate-policy":                  admin,
	"GET /api/v1/settings/gate-policy":                       read,
	"PUT /api/v1/settings/gate-policy":                       admin,
	"GET /api/v1/registry/{id}/versions/{version}/publisher": read,
	"GET /api/v1/gates":                                      read,
	"GET /api/v1/gates/{id}":                                 read,
	"POST /api/v1/gates/{id}/rerun":                          write,
	"POST /api/v1/gates/{id}/override":                       rollback,

	// One that rolls back asks for registry:rollback as well: alerts.checkRollback.
	"GET /api/v1/alerts":                     read,
	"GET /api/v1/alerts/{id}":                read,
	"PATCH /api/v1/alerts/{id}":              write,
	"DELETE /api/v1/alerts/{id}":             write,
	"POST /api/v1/alerts/{id}/test":          write,
	"POST /api/v1/alerts/{id}/ack":           write,
	"POST /api/v1/alerts/{id}/snooze":        write,
	"GET /api/v1/alerts/{id}/deliveries":     read,
	"POST /api/v1/alerts/{id}/rotate-secret": write,
	"GET /api/v1/alert-events":               read,

	"DELETE /api/v1/eval-suites/{id}":           write,
	"POST /api/v1/eval-suites/{id}/runs":        write,
	"GET /api/v1/eval-suites/{id}/runs":         read,
	"POST /api/v1/eval-suites/{id}/runs/import": write,
	"GET /api/v1/eval-runs/{id}":                read,
	"POST /api/v1/eval-runs/{id}/cancel":        write,
	"GET /api/v1/eval-runs/{id}/events":         read,
	"GET /api/v1/eval-runs/{id}/trials/{n}":     read,
	"POST /api/v1/comparisons":                  write,
	"GET /api/v1/comparisons":                   read,
	"GET /api/v1/comparisons/{id}":              read,
	"POST /api/v1/comparisons/{id}/cancel":      write,
	"POST /api/v1/eval-schedules":               write,
	"GET /api/v1/eval-schedules":                read,
	"GET /api/v1/eval-schedules/{id}":           read,
	"PATCH /api/v1/eval-schedules/{id}":         write,
	"DELETE /api/v1/eval-schedules/{id}":        write,
	"POST /api/v1/eval-schedules/{id}/run":      write,
	"POST /api/v1/improve-runs":                 write,
	"GET /api/v1/improve-runs":                  read,
	"GET /api/v1/improve-runs/{id}":             read,
	"POST /api/v1/improve-runs/{id}/cancel":     write,

	"GET /v1/sessions":              read,
	"GET /v1/sessions/{session_id}": read,

	"POST /v1/sessions/{session_id}/cases":     write,
	"POST /v1/sessions/{session_id}/grades":    write,
	"GET /v1/skills/{skill_id}/grader":         read,
	"PUT /v1/skills/{skill_id}/grader":         admin,
	"GET /v1/skills/{skill_id}/improve-policy": read,
	"PUT /v1/skills/{skill_id}/improve-policy": admin,
	"GET /v1/skills/{skill_id}/calibration":    read,
	"GET /v1/skills/{skill_id}/failures":       read,

	"POST /api/v1/repohost/webhook":                   none,
	"GET /api/v1/repohost/deliveries":                 repohost,
	"POST /api/v1/repohost/deliveries/{id}/redeliver": repohost,

	"PATCH /api/v1/registry/{id}":                                  {"", access.RegistryPush}, // and admin or ownership
	"GET /api/v1/registry/public":                                  read,
	"GET /api/v1/registry/{id}/versions/{version}/download":        read,
	"GET /api/v1/registry/{id}/versions/{version}/files/{path...}": read,
	"GET /api/v1/registry/{id}/versions/{version}/diff":            read,

	"GET /api/v1/community/bundles/schema": read,
	"GET /api/v1/proposals":                read,
	"GET /api/v1/proposals/{id}":           read,
	"PATCH /api/v1/proposals/{id}":         write, // a word on it; publishing is another route
	"POST /api/v1/proposals/{id}/apply":    push,
	"POST /api/v1/proposals/{id}/refresh":  write,

	"POST /api/v1/push":            report,
	"POST /v1/logs":                report,
	"POST /v1/traces":              report,
	"POST /v1/metrics":             report,
	"GET /api/v1/settings/content": read,
	"PUT /api/v1/settings/content": admin, // owners only, see ownerRoutes
	"DELETE /api/v1/me/data":       write, // a machine that reports must not erase
	"GET /api/v1/alpha/verify":     none,
}

// ownRoutes are those that neither document has and users would miss. The API
// reference names them.
var ownRoutes = map[string]gate{
	"GET /api/v1/audit":                               admin,
	"GET /api/v1/agents":                              read,
	"GET /api/v1/eval-suites/{id}/estimate":           read,
	"POST /api/v1/improve-runs/estimate":              read,
	"GET /api/v1/usage":                               read,
	"GET /v1/costs":                                   read,
	"GET /api/v1/catalogue-report":                    read,
	"GET /api/v1/settings/prices":                     read,
	"DELETE /api/v1/content":                          admin, // owners only, see ownerRoutes
	"PUT /api/v1/settings/prices":                     admin,
	"GET /api/v1/settings/grader":                     read,
	"PUT /api/v1/settings/grader":                     admin,
	"GET /api/v1/push/{push_id}":                      read,
	"PATCH /api/v1/cloud-sources/{id}":                write,
	"DELETE /api/v1/cloud-sources/{id}":               write,
	"GET /api/v1/cloud-sources/{id}/validation.sarif": read,
	"GET /api/v1/cloud-sources/{id}/snapshots/{snapshot_id}/files/{path...}": read,
	"GET /api/v1/cloud-sources/{id}/eval-suggestions":                        read,
	"GET /api/v1/cloud-sources/{id}/eval-suggestions/reviews":                read,
	"POST /api/v1/eval-suites/import":                                        write,
	"GET /api/v1/eval-suites/{id}/export":                                    read,
}

// formGates are the dashboard's forms; pages that only show ask for read, but for
// pageGates.
var formGates = map[string]gate{
	"POST /login":               none,
	"POST /login/device":        none,
	"POST /login/device/finish": none,
	"POST /invite/{token}":      none,
	"POST /logout":              none,
	"POST /theme":               none,

	"POST /registry/lock-file":          read, // it asks
	"POST /registry/{id}/rollback":      rollback,
	"POST /registry/{id}/rollback/undo": rollback,
	"POST /registry/{id}/delete":        remove,

	"POST /repohost/settings":                  repohost,
	"POST /repohost/installations":             repohost,
	"POST /repohost/connections":               repohost,
	"POST /repohost/connections/{id}":          repohost,
	"POST /repohost/connections/{id}/sync":     repohost,
	"POST /repohost/connections/{id}/delete":   repohost,
	"POST /repohost/deliveries/{id}/redeliver": repohost,

	"POST /registry/{id}/versions/{version}/review":          write,
	"POST /registry/{id}/versions/{version}/review/override": rollback,

	"POST /alerts/preview":            write,
	"POST /alerts":                    write,
	"POST /alerts/{id}":               write,
	"POST /alerts/{id}/enabled":       write,
	"POST /alerts/{id}/test":          write,
	"POST /alerts/{id}/ack":           write,
	"POST /alerts/{id}/snooze":        write,
	"POST /alerts/{id}/rotate-secret": write,
	"POST /alerts/{id}/delete":        write,

	"POST /gates/{id}/rerun":                            write,
	"POST /gates/{id}/override":                         rollback,
	"POST /registry/{id}/gate-policy":                   admin,
	"POST /settings/gate-policy":                        admin,
	"POST /registry/{id}/publishers":                    admin,
	"POST /registry/{id}/owners":                        admin, // and its owners
	"POST /registry/{id}/publishers/{publisher}/delete": admin,
	"POST /skills/{skill}":                              admin,
	"POST /skills/{skill}/grader":                       admin,
	"POST /skills/{skill}/improve-policy":               admin,
	"POST /sessions/{session}/cases":                    write,
	"POST /sessions/{session}/grades":                   write,
	"POST /settings/prices":                             admin,
	"POST /settings/grader":                             admin,
	"POST /settings/content":                            admin, // owners only: evidence.SetEnabled
	"POST /settings/privacy":                            admin, // owners only: privacy.Start and privacy.Delete
	"POST /proposals":                                   write,
	"POST /proposals/{id}":                              write,
	"POST /proposals/{id}/apply":                        push,
	"POST /review":                                      write,
	"POST /review/undo":                                 write,
	"POST /sources/upload":                              write,
	"POST /sources/{id}":                                write,
	"POST /sources/{id}/upload":                         write,
	"POST /sources/{id}/drafts":                         write,
	"POST /sources/{id}/sync":                           write,
	"POST /sources/{id}/delete":                         write,
	"POST /suites/new":                                  write,
	"POST /suites/import":                               write,
	"POST /suites/{id}/runs/import":                     write,
	"POST /suites/{id}":                                 write,
	"POST /suites/{id}/cases/{n}":                       write,
	"POST /suites/{id}/delete":                          write,
	"POST /suites/{id}/runs":                            write,
	"POST /catalogue/runs":                              write,
	"GET /comparisons/new":                              write,
	"POST /comparisons":                                 write,
	"POST /comparisons/{id}/cancel":                     write,
	"POST /suites/{id}/improve-runs":                    write,
	"POST /improve-runs/{id}/cancel":                    write,
	"POST /runs/{id}/cancel":                            write,

	"POST /device":                                   none, // about the caller's own logins and sessions
	"POST /account/sessions/{id}/end":                none,
	"POST /account/link":                             none,
	"POST /account/identities/{id}/unlink":           none,
	"POST /account/leave":                            none,
	"POST /registry/{id}/visibility":                 {"", access.RegistryPush},
	"POST /settings/members/{id}/role":               admin,
	"POST /settings/members/{id}/transfer":           admin,
	"POST /settings/members/{id}/remove":             admin,
	"POST /settings/members/invitations":             admin,
	"POST /settings/members/invitations/{id}/revoke": admin,
	"POST /settings/keys":                            admin,
	"POST /settings/keys/{id}/revoke":                admin,
	"POST /settings/key-policy":                      admin,
	"POST /settings/service-accounts":                admin,
	"POST /settings/service-accounts/{id}":           admin,
	"POST /settings/service-accounts/{id}/delete":    admin,
	"POST /settings/teams":                           admin,
	"POST /settings/teams/{id}":                      admin,
	"POST /settings/teams/{id}/delete":               admin,
	"POST /settings/connect":                         admin,
	"POST /settings/webhooks":                        admin,
	"POST /settings/catalog":                         admin,
	"POST /settings/catalog/{id}/rotate":             admin,
	"POST /settings/catalog/{id}/delete":             admin,
	"POST /settings/provisioning":                    admin, // owners only: scim.CreateToken
	"POST /settings/provisioning/{id}/delete":        admin,
	"POST /settings/provisioning/groups/{id}/role":   admin, // owners only: scim.SetGroupRole
}

// pageGates are the pages that ask for something else than read.
var pageGates = map[string]gate{
	"GET /login":                          none,
	"GET /login/device":                   none,
	"GET /login/oidc/{name}":              none,
	"GET /login/oidc/{name}/callback":     none,
	"GET /invite/{token}":                 none,
	"GET /device":                         none,
	"GET /account":                        none,
	"GET /account/link/{name}":            none,
	"GET /account/link":                   none,
	"GET /repohost":                       repohost,
	"GET /repohost/connections/new":       repohost,
	"GET /repohost/connections/{id}":      repohost,
	"GET /alerts/new":                     write,
	"GET /suites/new":                     write,
	"GET /suites/{id}/cases/{n}":          write,
	"GET /settings/keys":                  admin,
	"GET /settings/service-accounts":      admin,
	"GET /settings/service-accounts/{id}": admin,
	"GET /settings/members/{id}":          admin,
	"GET /settings/audit":                 admin,
	"GET /settings/audit.csv":             admin,
	"GET /settings/webhooks":              admin,
	"GET /settings/provisioning":          admin,
	"GET /settings/catalog":               admin,
	"GET /registry/{id}/publishers":       admin,
}

// The routes that ask for no key, and those that any good key may use, however
// little it is allowed: about its own holder.
var (
	withoutKey = []string{
		"POST /api/v1/device-code", "POST /api/v1/device-code/poll", "GET /api/v1/device-code/poll",
		"POST /api/v1/repohost/webhook", "POST /api/v1/trusted-publishers/token",
		"POST /api/v1/repohost/webhook", "POST /api/v1/invitations/accept",
	}
	anyKey = []string{"GET /api/v1/me", "GET /api/v1/alpha/verify"}
	// Only the organisation's owners decide whether what people said is kept.
	ownerRoutes = []string{
		"PUT /api/v1/settings/content", "DELETE /api/v1/content", "POST /api/v1/members/{}/transfer",
		"POST /api/v1/scim-tokens", "PUT /api/v1/scim-groups/{}",
		// And whether all that it has leaves it, or ends.
		"POST /api/v1/organization/export", "GET /api/v1/organization/export", "DELETE /api/v1/organization",
	}
)

// named is the tables in one, by routeName.
func named(t *testing.T, tables ...map[string]gate) map[string]gate {
	t.Helper()
	all := map[string]gate{}
	for _, table := range tables {
		for name, g := range table {
			method, path, _ := strings.Cut(name, " ")
			if _, twice := all[routeName(method, path)]; twice {
				t.Errorf("%s is listed twice", name)
			}
			all[routeName(method, path)] = g
		}
	}
	return all
}

// TestRoutes checks every route that is mounted: one of the tables has it, and
// it is guarded as that says.
func TestRoutes(t *testing.T) {
	gates := named(t, interfaceRoutes, contractRoutes, ownRoutes)
	mounted := map[string]bool{}
	for _, r := range start(t, settings(t, "--roles", "web")).Routes() {
		name := routeName(r.Method, r.Path)
		mounted[name] = true
		want, listed := gates[name]
		if !listed {
			t.Errorf("%s is in neither document: correct its path, or add it to ownRoutes and to the API reference", name)
		}
		if got := (gate{r.Plan, r.Permission}); listed && got != want {
			t.Errorf("%s asks for plan %q and permission %q, want %q and %q", name, got.plan, got.permission, want.plan, want.permission)
		}
		if owners := slices.Contains(ownerRoutes, name); owners != (r.Role == access.Owner) {
			t.Errorf("%s is for the role %q; for owners only: want %t", name, r.Role, owners)
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
	for name := range gates {
		if !mounted[name] {
			t.Errorf("%s is not mounted", name)
		}
	}
}

// TestPages does the same for the dashboard.
func TestPages(t *testing.T) {
	gates := named(t, formGates, pageGates)
	for _, r := range start(t, settings(t, "--roles", "web")).Pages() {
		name := routeName(r.Method, r.Path)
		want, listed := gates[name]
		if !listed && r.Method == http.MethodGet {
			want = read
		} else if !listed {
			t.Errorf("%s is not in formGates: add it there with what it asks for", name)
		}
		if got := (gate{r.Plan, r.Permission}); got != want {
			t.Errorf("%s asks for plan %q and permission %q, want %q and %q", name, got.plan, got.permission, want.plan, want.permission)
		}
		if open := strings.HasPrefix(r.Path, "/login") || r.Path == "/invite/{token}" || r.Path == "/logout" || r.Path == "/theme"; r.Public != open {
			t.Errorf("%s is public: %t, want %t", name, r.Public, open)
		}
	}
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// routeName names a route whatever its parameters are called.
func routeName(method, path string) string {
	return strings.ToUpper(method) + " " + parameter.ReplaceAllString(path, "{}")
}
