package app_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestIsolationMatrix asks every route for everything that one organisation
// has, as everybody who might. What must come back follows from the route's
// line in the table of routes and from the contract; nothing of the
// organisation reaches anybody else, and what is refused changes nothing.
func TestIsolationMatrix(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		m := newMatrix(t, flags, host.Git)
		theirs := m.look()
		plans := access.Plans()
		if testing.Short() {
			plans = []access.Plan{access.Free, access.Enterprise} // the least and the most
		}
		for _, plan := range plans {
			m.setPlan(plan)
			callers := m.callers(plan)
			m.last = m.dump("")
			for routes := range slices.Chunk(m.service.Routes(), together) {
				m.refuseAll(routes, callers)
			}
			for _, route := range m.service.Routes() {
				m.admitAll(route, callers)
			}
		}
		m.wantSame(theirs, m.look())
		m.claimAll()
		m.askOthers(m.service.Routes())
		m.askPages()
		m.askPlainHandlers()
		m.askProviders()
		t.Logf("isolation matrix: %d API routes and %d pages, %d callers, %d cells", len(m.service.Routes()), len(m.service.Pages()), len(m.names), m.cells)
	})
}

// usedNever is a last use that was not noted yet.
var usedNever = regexp.MustCompile(`"(last_used_at|last_seen_at)":null`)

// rolePermissions is the contract's table of roles.
var rolePermissions = map[access.Role][]access.Permission{
	access.Viewer:    {access.Read},
	access.Member:    {access.Read, access.Write, access.TelemetryWrite, access.RegistryPush, access.RegistryInstall},
	access.AdminRole: {access.Read, access.Write, access.TelemetryWrite, access.RegistryPush, access.RegistryInstall, access.RegistryRollback, access.Admin, access.EvidenceRead},
	access.Owner:     {access.Read, access.Write, access.TelemetryWrite, access.RegistryPush, access.RegistryInstall, access.RegistryRollback, access.Admin, access.EvidenceRead, access.RegistryDelete},
}

// narrowKeys are keys of an owner that were narrowed, by name, and what they may do.
var narrowKeys = map[string][]access.Permission{
	"narrowed":  {access.Read},
	"reporting": {access.TelemetryWrite},
	"writing":   {access.Write, access.TelemetryWrite}, // the one includes the other
}

// planRank is the contract's order of plans.
var planRank = map[access.Plan]int{"": 0, access.Free: 0, access.Pro: 1, access.Team: 2, access.Enterprise: 3}

// A caller is somebody who asks.
type caller struct {
	name   string
	header http.Header
	good   bool // whether the key is good and in its place
	plan   access.Plan
	may    []access.Permission
	role   access.Role
	// catalog: it has a catalog token in place of a key.
	catalog bool
	// entry: its key pushes versions of our entry, and does nothing else.
	entry bool
}

// refusal is the status with which a caller is turned away at the door, and
// what the message must name; 0 if the caller is let in.
func (c caller) refusal(r httpapi.Route) (status int, names string) {
	switch {
	case r.Public:
		return 0, ""
	case c.catalog:
		return http.StatusForbidden, "Catalog tokens open catalogs"
	case c.entry && r.Path == "/api/v1/registry/{id}/versions" && r.Method == http.MethodPost:
		return 0, ""
	case c.entry:
		return http.StatusForbidden, "does nothing else"
	case !c.good:
		return http.StatusUnauthorized, ""
	case planRank[c.plan] < planRank[r.Plan]:
		return http.StatusForbidden, string(r.Plan) + " plan"
	case r.Permission != "" && !slices.Contains(c.may, r.Permission):
		return http.StatusForbidden, "permission " + string(r.Permission)
	case r.Role != "" && r.Role != c.role:
		return http.StatusForbidden, "role " + string(r.Role)
	}
	return 0, ""
}

// callers are the own organisation's people, on a plan, and strangers.
func (m *matrix) callers(plan access.Plan) []caller {
	member := func(role access.Role) caller {
		return caller{string(role) + " on " + string(plan), apptest.Bearer(m.keys[string(role)]), true, plan, rolePermissions[role], role, false, false}
	}
	var all []caller
	for _, role := range access.Roles() {
		all = append(all, member(role))
	}
	if plan == access.Enterprise {
		all = append(all, m.strangers()...)
		for name, may := range narrowKeys {
			all = append(all, caller{name + " key", apptest.Bearer(m.keys[name]), true, plan, may, access.Owner, false, false})
		}
	}
	for _, c := range all {
		m.names[c.name] = true
	}
	return all
}

// strangers have no key that is good, or have it in the wrong place.
func (m *matrix) strangers() []caller {
	good := m.keys["owner"]
	return []caller{
		{name: "no key", header: http.Header{}},
		{name: "revoked key", header: apptest.Bearer(m.keys["revoked"])},
		{name: "expired key", header: apptest.Bearer(m.keys["expired"])},
		{name: "unknown key", header: apptest.Bearer("st_live_" + strings.Repeat("x", 43))},
		{name: "catalog token", header: apptest.Bearer(m.keys["catalog token"]), catalog: true},
		{name: "SCIM token", header: apptest.Bearer(m.keys["SCIM token"])},
		{name: "key for one entry", header: apptest.Bearer(m.keys["entry"]), entry: true},
		{name: "half a key", header: apptest.Bearer(good[:len(good)-1])},
		{name: "key as a password", header: http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("api:"+good))}}},
		{name: "key without its scheme", header: http.Header{"Authorization": {good}}},
		{name: "key in another header", header: http.Header{"X-Api-Key": {good}}},
		{name: "key in a cookie", header: http.Header{"Cookie": {"api_key=" + good + "; whetstone_session=" + good}}},
		{name: "session of a browser", header: m.browser(m.keys["owner"])},
	}
}

// row is how a route is asked.
func (m *matrix) row(r httpapi.Route, rows map[string]apptest.Row) apptest.Row {
	row, ok := rows[apptest.RouteName(r.Method, r.Path)]
	if !ok {
		m.Fatalf("%s has no row: add to internal/app/apptest how its path, query and body are filled, so that the matrix asks it, too",
			apptest.RouteName(r.Method, r.Path))
	}
	return row
}

// together are so many routes after which all tables are read, to see that
// nothing has changed: to read them takes longer than to ask one route.
const together = 60

// refuseAll asks as everybody who must be refused, and wants to find
// everything as it was.
func (m *matrix) refuseAll(routes []httpapi.Route, callers []caller) {
	for _, r := range routes {
		m.refuse(r, callers)
	}
	m.last = m.wantUnchanged(changing(routes), m.last, "")
}

// changing names the routes that may change something.
func changing(routes []httpapi.Route) string {
	var all []string
	for _, r := range routes {
		if r.Method != http.MethodGet {
			all = append(all, r.Method+" "+r.Path)
		}
	}
	return "one of " + strings.Join(all, ", ")
}

func (m *matrix) refuse(r httpapi.Route, callers []caller) {
	row := m.row(r, apptest.Rows())
	for _, c := range callers {
		status, names := c.refusal(r)
		if status == 0 {
			continue
		}
		a := m.ask(r, row.Request(m, r, m.ours.Things), c.header)
		m.want(r, c.name, a, status)
		if !strings.Contains(a.Body, names) {
			m.Errorf("%s %s as %s: %s does not name the %s", r.Method, r.Path, c.name, a.Body, names)
		}
		if !c.good {
			m.wantNothing(r, c.name, a, m.ours.Things)
		}
	}
}

// admitAll asks as everybody who is let in. What a request uses up is made
// before it.
func (m *matrix) admitAll(r httpapi.Route, callers []caller) {
	row := m.row(r, apptest.Rows())
	for _, c := range callers {
		if status, _ := c.refusal(r); status != 0 {
			continue
		}
		things := m.ours.Things
		if row.Spends != "" {
			things = things.With(row.Spends, m.make(row.Spends))
		}
		want := r.Status
		if row.Status != 0 {
			want = row.Status
		}
		if row.Whole && len(c.may) < len(rolePermissions[c.role]) {
			want = http.StatusForbidden
		}
		if row.Also != "" && !slices.Contains(c.may, row.Also) {
			want = http.StatusForbidden
		}
		a := m.ask(r, row.Request(m, r, things), c.header)
		m.want(r, c.name, a, want)
		if !c.good {
			m.wantNothing(r, c.name, a, things)
		}
	}
}

// askOthers asks as another organisation: for all of ours, and for its own
// with one of ours among them. What is unknown must look the same.
func (m *matrix) askOthers(routes []httpapi.Route) {
	for _, role := range []access.Role{access.Viewer, access.Owner} {
		c := caller{"another organisation's " + string(role), apptest.Bearer(m.keys["other "+string(role)]), true, access.Enterprise, rolePermissions[role], role, false, false}
		m.names[c.name] = true
		before := m.dump("")
		for group := range slices.Chunk(routes, together) {
			for _, r := range group {
				m.askOther(r, c, true)
			}
			before = m.wantUnchanged(changing(group), before, "")
		}
		before = m.dump(m.ours.OrgID)
		for _, r := range routes {
			m.askOther(r, c, false)
		}
		m.wantUnchanged("what another organisation may do", before, m.ours.OrgID)
	}
}

// askOther asks what must be refused, or what must not.
func (m *matrix) askOther(r httpapi.Route, c caller, refused bool) {
	row := m.row(r, apptest.Rows())
	if status, _ := c.refusal(r); status != 0 {
		if refused {
			m.want(r, c.name, m.ask(r, row.Request(m, r, m.ours.Things), c.header), status)
		}
		return
	}
	for i, kind := range slices.Concat(row.PathKinds(), row.BodyKinds()) {
		want := row.OthersStatus(kind)
		given := r.Method != http.MethodGet && want < http.StatusBadRequest && kind == "skill_name" // would be their own from then on
		if kind == "text" || given || (want >= http.StatusBadRequest) != refused {
			continue
		}
		if i == 0 && len(row.PathKinds()) > 0 && row.Others["skill"] == 0 { // a skill that is unknown is told first
			m.compareUnknown(r, c, question{row, kind, want, m.ours.Things, m.unknown})
		}
		m.compareUnknown(r, c, question{row, kind, want, m.theirs.Things.With(kind, m.ours.Things[kind]), m.theirs.Things.With(kind, m.unknown[kind])})
	}
	if len(row.PathKinds())+len(row.BodyKinds()) == 0 && !refused {
		m.cells++
		m.wantNothing(r, c.name, m.ask(r, row.Request(m, r, m.theirs.Things), c.header), nil)
	}
}

// look is all that the other organisation can read of its own.
func (m *matrix) look() map[string]string {
	all := map[string]string{}
	header := apptest.Bearer(m.keys["other owner"])
	for _, r := range m.service.Routes() {
		if r.Method == http.MethodGet {
			row := m.row(r, apptest.Rows())
			all[r.Path] = plain(m.ask(r, row.Request(m, r, m.theirs.Things), header), nil)
		}
	}
	return all
}

// wantSame: what we do, the other organisation does not notice. Totals would
// tell.
func (m *matrix) wantSame(before, after map[string]string) {
	m.Helper()
	for path, answer := range before {
		m.cells++
		if after[path] != answer {
			m.Errorf("GET %s tells another organisation of what we did:\n%s\n%s", path, answer, after[path])
		}
	}
}

// A question names a thing of a kind that is ours, or nobody's.
type question struct {
	apptest.Row
	kind             string
	want             int
	foreign, unknown apptest.Things
}

// compareUnknown asks for what is another organisation's and for what is
// nobody's. But where the contract says otherwise, nobody can tell the two apart.
func (m *matrix) compareUnknown(r httpapi.Route, c caller, q question) {
	as := c.name + " with our " + q.kind
	got := m.ask(r, q.Request(m, r, q.foreign), c.header)
	m.want(r, as, got, q.want)
	m.wantNothing(r, as, got, q.foreign)
	if toldApart[q.kind] != "" {
		return
	}
	same := m.ask(r, q.Request(m, r, q.unknown), c.header)
	m.cells++
	if g, s := plain(got, q.foreign), plain(same, q.unknown); g != s {
		m.Errorf("%s %s as %s, and with an unknown one:\n%s\n%s", r.Method, r.Path, as, g, s)
	}
}

// toldApart are the kinds whose existence the documents let others see.
var toldApart = map[string]string{
	"source":       "the interface forbids others' sources, and knows no others",
	"repo_source":  "as source",
	"installation": "the contract: one bound by another organisation is a conflict",
	"account":      "as installation; with --repohost-claims operator nobody is told",
	"device":       "whoever holds the code is the program that waits",
}

var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|expires=\d+|sig=[\w-]+` +
	`|X-Amz-(?:Credential|Date|Signature)=[^&"]+`)

// plain is an answer without what differs between any two: what was asked for,
// ids and times.
func plain(a apptest.Answer, asked apptest.Things) string {
	body := usedNever.ReplaceAllString(without(a.Body, asked), `"$1":"?"`) // noted from time to time
	names := slices.Sorted(maps.Keys(a.Header))
	return fmt.Sprint(a.Status, names, a.Header["Content-Type"], varying.ReplaceAllString(body, "?"))
}

// without removes what the request itself held, which an answer may repeat.
func without(body string, asked apptest.Things) string {
	var values []string
	for _, value := range asked {
		values = append(values, strings.TrimPrefix(value, "src_"))
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, value := range values {
		body = strings.ReplaceAll(body, value, "?")
	}
	return body
}

// want checks a status and counts the cell.
func (m *matrix) want(r httpapi.Route, as string, a apptest.Answer, status int) {
	m.Helper()
	m.cells++
	if a.Status != status {
		m.Errorf("%s %s as %s: %d, want %d; %s", r.Method, r.Path, as, a.Status, status, short(a.Body))
	}
}

// wantNothing looks for what is ours in an answer to somebody else.
func (m *matrix) wantNothing(r httpapi.Route, as string, a apptest.Answer, asked apptest.Things) {
	m.Helper()
	body := strings.ToLower(without(a.Body+fmt.Sprint(a.Header), asked))
	if strings.Contains(body, m.ours.Mark) {
		m.Errorf("%s %s as %s shows what is ours: %s", r.Method, r.Path, as, short(a.Body))
	}
	for kind, id := range m.ours.Things {
		if uuid.Validate(strings.TrimPrefix(id, "src_")) == nil && strings.Contains(body, strings.TrimPrefix(id, "src_")) {
			m.Errorf("%s %s as %s shows the id of our %s: %s", r.Method, r.Path, as, kind, short(a.Body))
		}
	}
}

// short is the beginning of a page.
func short(body string) string { return body[:min(len(body), 400)] }
