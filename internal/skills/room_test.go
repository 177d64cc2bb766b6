package skills_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
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
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// room is the service with an organisation.
type room struct {
	t     *testing.T
	db    *store.DB
	s     *skills.Service
	auth  *auth.Service
	api   *httpapi.API
	orgID string
	user  string
	key   string

	registry *registry.Service
}

func newRoom(t *testing.T, db *store.DB) *room {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	r := &room{t: t, db: db, auth: &auth.Service{DB: db, Log: log}}
	blobs, err := blob.Open(t.Context(), blob.Options{
		Dir: t.TempDir(), Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "http://127.0.0.1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := jobs.New(jobs.Options{DB: db, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	r.registry = &registry.Service{DB: db, Blobs: blobs, Jobs: queue, Log: log}
	r.s = &skills.Service{DB: db, Window: 30, Versions: r.registry}
	r.api = httpapi.New(httpapi.Options{DB: db, Auth: r.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	r.s.Mount(r.api)
	return r.org("acme")
}

// org returns the room of another organisation.
func (r *room) org(name string) *room {
	r.t.Helper()
	other := *r
	other.orgID = newOrg(r.t, r.db, name)
	return other.member("ada")
}

// member returns the room of another user of the organisation.
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

// observe reports observations and returns the affected skills.
func (r *room) observe(all ...skills.Observation) []string {
	r.t.Helper()
	return r.report(skills.Report{Observations: all})
}

// grade reports gradings, each of another session.
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

// id returns the id of a record of this user.
func (r *room) id(natural string) string { return skills.ID(r.orgID, r.user, "test", natural) }

// check returns an observation of the skill pdf in the session s, now.
func (r *room) check(id string, change ...func(*skills.Observation)) skills.Observation {
	o := skills.Observation{ID: r.id(id), SkillName: "pdf", Session: "s", Triggered: true, At: time.Now(), NormalizedAt: time.Now()}
	for _, c := range change {
		c(&o)
	}
	return o
}

// publish adds a skill to the registry with a version that is current since a
// time, and one that becomes current an hour later.
func (r *room) publish(name string, since time.Time) (versions [2]registry.Version) {
	r.t.Helper()
	for i, from := range []time.Time{since, time.Now().Add(time.Hour)} {
		packed := archive(r.t, fmt.Sprint("Version ", i))
		p := registry.Publication{
			OrgID: r.orgID, UserID: r.user, Name: name, Type: registry.TypeSkill, Visibility: registry.Org, Source: registry.FromCLI,
			Version: fmt.Sprint(i), Archive: bytes.NewReader(packed), Size: int64(len(packed)),
		}
		var err error
		if i == 0 {
			_, versions[i], err = r.registry.Create(r.t.Context(), p)
		} else {
			_, versions[i], _, err = r.registry.Push(r.t.Context(), versions[0].EntryID, p)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		r.exec(`UPDATE registry_currents SET since = $2 WHERE version_id = $1`, versions[i].ID, store.Micros(from))
	}
	return versions
}

// archive packs a skill with a description.
func archive(t *testing.T, description string) []byte {
	t.Helper()
	text := "---\nname: pdf\ndescription: " + description + "\n---\n"
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: "SKILL.md", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (r *room) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.db.Exec(r.t.Context(), sql, args...); err != nil {
		r.t.Fatal(err)
	}
}

type object = map[string]any

// answer is a response.
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

// wantBody compares the body with Go values.
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

// skill returns the API's metrics of a skill.
func (r *room) skill(name string) object {
	r.t.Helper()
	return r.get("/v1/skills/" + name).want(http.StatusOK).object()["skill"].(object)
}

// today returns the API's metrics of a skill's last day.
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

// names lists the skills of a response.
func (a answer) names() string {
	a.t.Helper()
	all := []string{}
	for _, s := range a.want(http.StatusOK).object()["skills"].([]any) {
		all = append(all, s.(object)["name"].(string))
	}
	return strings.Join(all, " ")
}

func share(f float64) *float64 { return &f }

// sorted returns sorted ids.
func sorted(ids ...string) []string { return slices.Sorted(slices.Values(ids)) }
