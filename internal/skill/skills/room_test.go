package skills_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

type object = apptest.Object

// room is the service, called by a person of an organisation.
type room struct {
	*apptest.Caller
	s        *skills.Service
	registry *registry.Service
}

func newRoom(t *testing.T, db *store.DB) *room {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	r := &room{registry: &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Log: w.Log}}
	r.s = &skills.Service{DB: db, Window: 30, Versions: registry.History{}}
	r.s.Mount(w.API)
	(&curate.Service{DB: db, Jobs: w.Queue, Skills: r.s}).Mount(w.API)
	r.Caller = w.Org("acme")
	return r
}

// org returns the room of the owner of another organisation.
func (r *room) org(name string) *room {
	r.T.Helper()
	return &room{r.World.Org(name), r.s, r.registry}
}

// member returns the room of another person of the organisation.
func (r *room) member(role access.Role) *room {
	r.T.Helper()
	return &room{r.World.Member(r.Org, role), r.s, r.registry}
}

func (r *room) in(t *testing.T) *room { return &room{r.In(t), r.s, r.registry} }

// observe reports observations and returns the affected skills.
func (r *room) observe(all ...skills.Observation) []string {
	r.T.Helper()
	return r.report(skills.Report{Observations: all})
}

// grade reports gradings, each of another session.
func (r *room) grade(skill string, at time.Time, rates ...float64) {
	r.T.Helper()
	var all []skills.Grading
	for i, rate := range rates {
		id := fmt.Sprintf("%s %d %d", skill, at.Unix(), i)
		all = append(all, skills.Grading{ID: r.id(id), SkillName: skill, Session: id, PassRate: &rate, At: at})
	}
	r.report(skills.Report{Gradings: all})
}

func (r *room) report(report skills.Report) (touched []string) {
	r.T.Helper()
	report.OrgID, report.UserID = r.Org.ID, r.User.ID
	err := r.World.DB.InTx(r.T.Context(), func(tx *store.Tx) error {
		return r.s.Observe(r.T.Context(), tx, report, func(c skills.Changes) error {
			touched = c.SkillIDs
			return nil
		})
	})
	if err != nil {
		r.T.Errorf("%v", err) // perhaps not on the test's goroutine
	}
	return touched
}

// id returns the id of a record of this user.
func (r *room) id(natural string) string { return skills.ID(r.Org.ID, r.User.ID, "test", natural) }

// check returns an observation of the skill pdf in the session s, now.
func (r *room) check(id string, change ...func(*skills.Observation)) skills.Observation {
	o := skills.Observation{
		ID: r.id(id), SkillName: "pdf", Session: "s", Triggered: true, At: time.Now(), NormalizedAt: time.Now(),
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

// publish adds a skill to the registry with a version that is current since a
// time, and one that becomes current an hour later.
func (r *room) publish(name string, since time.Time) (versions [2]registry.Version) {
	r.T.Helper()
	for i, from := range []time.Time{since, time.Now().Add(time.Hour)} {
		packed := archive(r.T, fmt.Sprint("Version ", i))
		p := registry.Publication{
			OrgID: r.Org.ID, UserID: r.User.ID, Name: name, Type: registry.TypeSkill, Visibility: registry.Org,
			Source: registry.FromCLI, Version: fmt.Sprint(i), Archive: bytes.NewReader(packed), Size: int64(len(packed)),
		}
		var err error
		if i == 0 {
			_, versions[i], err = r.registry.Create(r.T.Context(), p)
		} else {
			_, versions[i], _, err = r.registry.Push(r.T.Context(), versions[0].EntryID, p)
		}
		if err != nil {
			r.T.Fatalf("%v", err)
		}
		r.World.Exec(`UPDATE registry_currents SET since = $2 WHERE version_id = $1`, versions[i].ID, store.Micros(from))
	}
	return versions
}

// archive packs a skill with a description.
func archive(t apptest.T, description string) []byte {
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
		t.Fatalf("%v", err)
	}
	return b.Bytes()
}

// skill returns the API's metrics of a skill.
func (r *room) skill(name string) object {
	r.T.Helper()
	return r.Get("/v1/skills/" + name).Want(http.StatusOK).Object()["skill"].(object)
}

// today returns the API's metrics of a skill's last day.
func (r *room) today(name string) object {
	r.T.Helper()
	return r.Get("/v1/skills/" + name + "?days=1").Want(http.StatusOK).Object()["daily_stats"].([]any)[0].(object)
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
func names(a apptest.Response) string {
	a.T.Helper()
	all := []string{}
	for _, s := range a.Want(http.StatusOK).List("skills") {
		all = append(all, s["name"].(string))
	}
	return strings.Join(all, " ")
}

func share(f float64) *float64 { return &f }

// sorted returns sorted ids.
func sorted(ids ...string) []string { return slices.Sorted(slices.Values(ids)) }
