package skills_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// room is the service in an organisation of its own.
type room struct {
	t     *testing.T
	db    *store.DB
	s     *skills.Service
	auth  *auth.Service
	api   *httpapi.API
	orgID string
	user  string
	key   string
}

func newRoom(t *testing.T, db *store.DB) *room {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	r := &room{t: t, db: db, auth: &auth.Service{DB: db, Log: log}}
	r.s = &skills.Service{DB: db, Window: 30, Versions: &registry.Service{DB: db, Log: log}}
	r.api = httpapi.New(httpapi.Options{DB: db, Auth: r.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	r.s.Mount(r.api)
	return r.org("acme")
}

// org is the room of another organisation.
func (r *room) org(name string) *room {
	r.t.Helper()
	other := *r
	other.orgID = newOrg(r.t, r.db, name)
	return other.member("ada")
}

// member is the room for another person of the organisation.
func (r *room) member(name string, permissions ...access.Permission) *room {
	r.t.Helper()
	other := *r
	u, err := r.auth.CreateUser(r.t.Context(), auth.NewUser{OrgID: r.orgID, Email: name + "@example.org", Role: access.Member})
	if err != nil {
		r.t.Fatal(err)
	}
	other.user = u.ID
	_, other.key, err = r.auth.CreateKey(r.t.Context(), auth.NewKey{OrgID: r.orgID, UserID: u.ID, Name: "test", Permissions: permissions})
	if err != nil {
		r.t.Fatal(err)
	}
	return &other
}

// observe reports observations and returns the skills that were touched.
func (r *room) observe(all ...skills.Observation) []string {
	r.t.Helper()
	return r.report(skills.Report{Observations: all})
}

// grade reports gradings, each of a session of its own.
func (r *room) grade(skill string, at time.Time, rates ...float64) {
	r.t.Helper()
	var all []skills.Grading
	for i, rate := range rates {
		id := fmt.Sprintf("%s %d %d", skill, at.Unix(), i)
		all = append(all, skills.Grading{ID: r.id(id), SkillName: skill, Session: id, PassRate: &rate, At: at})
	}
	r.report(skills.Report{Gradings: all})
}

func (r *room) report(report skills.Report) (touched []string) {
	r.t.Helper()
	report.OrgID, report.UserID = r.orgID, r.user
	err := r.db.InTx(r.t.Context(), func(tx *store.Tx) (err error) {
		touched, err = r.s.Observe(r.t.Context(), tx, report)
		return err
	})
	if err != nil {
		r.t.Error(err) // perhaps not on the test's goroutine
	}
	return touched
}

// id is the id of a record of this user.
func (r *room) id(natural string) string { return skills.ID(r.orgID, r.user, "test", natural) }

// check is an observation of the skill pdf in the session s, now.
func (r *room) check(id string, change ...func(*skills.Observation)) skills.Observation {
	o := skills.Observation{ID: r.id(id), SkillName: "pdf", Session: "s", Triggered: true, At: time.Now(), NormalizedAt: time.Now()}
	for _, c := range change {
		c(&o)
	}
	return o
}

// publish puts a skill into the registry: a version "1" with the content hash
// "h1" that is current since a time, and one "2" that never was.
func (r *room) publish(name string, since time.Time) (skillID string) {
	r.t.Helper()
	skillID = resolve(r.t, r.db, r.orgID, name)
	r.exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, skill_id, current_version_id, current_version, current_hash,
			installation_count, created_by, created_at, updated_at)
		VALUES ('entry', $1, $2, 'skill', '', 'org', $3, '1', '1', 'h1', 0, $4, 1, 1)`, r.orgID, name, skillID, r.user)
	for _, version := range []string{"1", "2"} {
		r.exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest,
				source, rolled_back, pushed_by, pushed_at)
			VALUES ($1, 'entry', $1, $2, '', 1, '', '[]', 'cli', FALSE, $3, 1)`, version, "h"+version, r.user)
	}
	r.exec(`INSERT INTO registry_currents (id, entry_id, version_id, since) VALUES ('current', 'entry', '1', $1)`, store.Micros(since))
	return skillID
}

func (r *room) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

type object = map[string]any

// answer is what came back.
type answer struct {
	t      *testing.T
	what   string
	status int
	body   []byte
}

func (r *room) get(path string) answer {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodGet, path, nil)
	req.Header.Set("Authorization", "Bearer "+r.key)
	rec := httptest.NewRecorder()
	r.api.ServeHTTP(rec, req)
	return answer{r.t, "GET " + path, rec.Code, rec.Body.Bytes()}
}

func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

func (a answer) object() (o object) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	return o
}

// wantBody compares the body with one written as Go values.
func (a answer) wantBody(want any) {
	a.t.Helper()
	raw, err := json.Marshal(want)
	if err != nil {
		a.t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		a.t.Fatal(err)
	}
	if diff := cmp.Diff(plain, any(a.object())); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", a.what, diff)
	}
}

// skill is what the API says of a skill.
func (r *room) skill(name string) object {
	r.t.Helper()
	return r.get("/v1/skills/" + name).want(http.StatusOK).object()["skill"].(object)
}

// today is what the API says of a skill's last day.
func (r *room) today(name string) object {
	r.t.Helper()
	return r.get("/v1/skills/" + name + "?days=1").want(http.StatusOK).object()["daily_stats"].([]any)[0].(object)
}

// wantFields checks some fields of an object.
func wantFields(t *testing.T, got, want object) {
	t.Helper()
	some := object{}
	for key := range want {
		some[key] = got[key]
	}
	for key, value := range want {
		if n, ok := value.(int); ok {
			want[key] = float64(n)
		}
	}
	if diff := cmp.Diff(want, some); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// names lists the skills of an answer.
func (a answer) names() string {
	a.t.Helper()
	all := []string{}
	for _, s := range a.want(http.StatusOK).object()["skills"].([]any) {
		all = append(all, s.(object)["name"].(string))
	}
	return strings.Join(all, " ")
}

func share(f float64) *float64 { return &f }

// sorted are ids in their order.
func sorted(ids ...string) []string { return slices.Sorted(slices.Values(ids)) }
