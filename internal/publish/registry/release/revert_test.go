package release_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// reverter does what alerts do with the registry.
type reverter struct{ *registrytest.World }

// grade counts n sessions with a grade for the version that is current.
func (r reverter) grade(c *registrytest.Client, skill string, grade float64, n int) {
	r.T.Helper()
	report := skills.Report{OrgID: c.Org.ID, UserID: c.User.ID}
	for range n {
		id := uuid.NewString()
		report.Gradings = append(report.Gradings,
			skills.Grading{ID: id, SkillName: skill, Session: id, PassRate: &grade, At: time.Now()})
	}
	err := r.DB.InTx(r.T.Context(), func(tx *store.Tx) error {
		return r.Skills.Observe(r.T.Context(), tx, report, nil)
	})
	if err != nil {
		r.T.Fatal(err)
	}
}

// skillID is the id of a skill, which is made if it is new.
func (r reverter) skillID(c *registrytest.Client, name string) (id string) {
	r.T.Helper()
	err := r.DB.InTx(r.T.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(r.T.Context(), tx, c.Org.ID, name)
		return err
	})
	if err != nil {
		r.T.Fatal(err)
	}
	return id
}

// revert asks for it in a transaction that then may do more: an earlier version holds
// unless it has graded sessions of which less than 80 % passed.
func (r reverter) revert(c *registrytest.Client, skillID, versionID string, then func() error) (note string, err error) {
	r.T.Helper()
	err = r.DB.InTx(r.T.Context(), func(tx *store.Tx) (err error) {
		done, err := r.Release.Revert(r.T.Context(), tx, release.Revert{
			OrgID: c.Org.ID, SkillID: skillID, UserID: c.User.ID, VersionID: versionID, Reason: "alert 7",
			Holds: func(v registry.Version) (bool, error) {
				quality, err := r.Skills.Quality(r.T.Context(), tx, []string{v.ID})
				rate := quality[v.ID].PassRate
				return rate == nil || *rate >= 0.8, err
			},
		})
		if note = string(done.Blocked); done.Result != nil {
			note = done.Result.String()
		}
		if err != nil || then == nil {
			return err
		}
		return then()
	})
	return note, err
}

// current is the id of the skill's current version, "" for none.
func (r reverter) current(c *registrytest.Client, skillID string) string {
	r.T.Helper()
	found, err := registry.LineagesOfSkills(r.T.Context(), r.DB, c.Org.ID, []string{skillID})
	if err != nil {
		r.T.Fatal(err)
	}
	return found[skillID].CurrentID
}

// reverted is revert of the current version, which must not fail.
func (r reverter) reverted(c *registrytest.Client, skillID string) string {
	r.T.Helper()
	note, err := r.revert(c, skillID, r.current(c, skillID), nil)
	if err != nil {
		r.T.Fatal(err)
	}
	return note
}

func (r reverter) wantCurrent(c *registrytest.Client, skillID string, want *string) {
	r.T.Helper()
	got, err := r.Registry.CurrentVersion(r.T.Context(), r.DB, c.Org.ID, skillID)
	if err != nil {
		r.T.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.T.Errorf("current version (-want +got):\n%s", diff)
	}
}

// rollbacks lists an entry's rollbacks, newest first.
func rollbacks(c *registrytest.Client, id string) []string {
	c.T.Helper()
	all := []string{}
	for _, r := range c.Get(registrytest.EntryPath(id)).Want(http.StatusOK).List("rollbacks") {
		if apptest.Text(r, "rolled_back_by") != c.User.ID {
			c.T.Errorf("rolled back by %v", r)
		}
		all = append(all, fmt.Sprintf("%s>%s %v", r["from_version"], r["to_version"], r["reason"]))
	}
	return all
}

func TestRevert(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := reverter{registrytest.New(t, db)}
		ada := r.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		skill3 := registrytest.Skill(t, "pdf 3")
		r.grade(ada, "pdf", 0.9, 5)
		ada.Pushed(id, "3", skill3)
		r.grade(ada, "pdf", 0.79, 5)
		pdf := r.skillID(ada, "pdf")
		r.wantCurrent(ada, pdf, new("3"))

		// What the transaction does not commit has not happened.
		failure := errors.New("the event could not be written")
		if _, err := r.revert(ada, pdf, r.current(ada, pdf), func() error { return failure }); !errors.Is(err, failure) {
			t.Errorf("got %v", err)
		}
		if now := ada.Flags(id); now != " 3c 2 1" {
			t.Errorf("versions%s, want no change", now)
		}

		if note, want := r.reverted(ada, pdf), "Rolled back from version 3 to 2."; note != want {
			t.Errorf("note %q, want %q", note, want)
		}
		if now := ada.Flags(id); now != " 3r 2c 1" {
			t.Errorf("versions%s", now)
		}
		r.wantCurrent(ada, pdf, new("2"))

		// Once for each version; never the bad one that a person made current again.
		if note := r.reverted(ada, pdf); note != "Rolled back from version 2 to 1." {
			t.Errorf("a second bad version: %q", note)
		}
		if note := r.reverted(ada, pdf); note != string(release.NoGoodVersion) {
			t.Errorf("nothing is left: %q", note)
		}
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "3", "reason": "forward"}).Want(http.StatusOK)
		r.grade(ada, "pdf", 0, 20)
		if note := r.reverted(ada, pdf); note != string(release.AlreadyRolledBack) {
			t.Errorf("reverted what a person had decided: %q", note)
		}
		if diff := cmp.Diff([]string{"1>3 forward", "2>1 alert 7", "3>2 alert 7"}, rollbacks(ada, id)); diff != "" {
			t.Errorf("rollbacks (-want +got):\n%s", diff)
		}
	})
}

// TestRevertTarget has what a bad version is taken back to.
func TestRevertTarget(t *testing.T) {
	t.Parallel()
	type graded struct {
		grade float64
		n     int
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := reverter{registrytest.New(t, db)}
		ada, eve := r.Org("acme", access.Pro), r.Org("evil", access.Pro)
		for i, c := range []struct {
			name     string
			versions []graded
			want     string
		}{
			{"the version before was not healthy", []graded{{0.79, 5}, {0, 5}}, "no_good_version"},
			{"nothing is known against the version before", []graded{{1, 0}, {0, 5}}, "Rolled back from version 2 to 1."},
			{"there is no version before", []graded{{0, 5}}, "no_good_version"},
			{"an older version was healthy", []graded{{1, 5}, {0.5, 5}, {0, 5}}, "Rolled back from version 3 to 1."},
		} {
			t.Run(c.name, func(t *testing.T) {
				name := fmt.Sprintf("skill-%d", i)
				var id string
				for n, v := range c.versions {
					version, archive := fmt.Sprint(n+1), registrytest.Skill(t, fmt.Sprintf("%s %d", name, n))
					if n == 0 {
						id = ada.In(t).Made(name, version, archive)
					} else {
						ada.In(t).Pushed(id, version, archive)
					}
					r.grade(ada, name, v.grade, v.n)
				}
				if note := r.reverted(ada, r.skillID(ada, name)); note != c.want {
					t.Errorf("note %q, want %q", note, c.want)
				}
			})
		}
		t.Run("the content was taken back as another version", func(t *testing.T) {
			good, same := registrytest.Skill(t, "good"), registrytest.Skill(t, "same")
			id := ada.In(t).Made("again", "1", good)
			for n, archive := range [][]byte{same, registrytest.Skill(t, "other"), same} {
				ada.In(t).Pushed(id, fmt.Sprint(n+2), archive)
			}
			// 4 has the content of 2, which is out with it.
			again := r.skillID(ada, "again")
			if note := r.reverted(ada, again); note != "Rolled back from version 4 to 3." {
				t.Errorf("note %q", note)
			}
			if note := r.reverted(ada, again); note != "Rolled back from version 3 to 1." {
				t.Errorf("note %q", note)
			}
		})
		t.Run("there is no entry", func(t *testing.T) {
			r.grade(ada, "loose", 0, 5)
			if note := r.reverted(ada, r.skillID(ada, "loose")); note != "" {
				t.Errorf("note %q, want none", note)
			}
			r.wantCurrent(ada, r.skillID(ada, "loose"), nil)
		})
		t.Run("it is another's", func(t *testing.T) {
			ada.EntryOf("theirs", 1)
			r.wantCurrent(eve, r.skillID(ada, "theirs"), nil)
			if note := r.reverted(eve, r.skillID(ada, "theirs")); note != "" {
				t.Errorf("note %q, want none", note)
			}
		})
	})
}

// TestRevertAndPush: a push at the same time comes before or after, and is
// never what is rolled back.
func TestRevertAndPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := reverter{registrytest.New(t, db)}
		ada := r.Org("acme", access.Pro)
		for round := range 5 {
			name := fmt.Sprintf("skill-%d", round)
			id := ada.Made(name, "1", registrytest.Skill(t, name+" 1"))
			r.grade(ada, name, 1, 5)
			ada.Pushed(id, "2", registrytest.Skill(t, name+" 2"))
			r.grade(ada, name, 0, 5)
			skillID, third := r.skillID(ada, name), registrytest.Skill(t, name+" 3")
			judged := r.current(ada, skillID)
			var wg sync.WaitGroup
			wg.Go(func() { ada.Push(id, "3", third) })
			note, err := r.revert(ada, skillID, judged, nil)
			wg.Wait()
			if err != nil {
				t.Error(err)
			}
			if now := ada.Current(id); now != "3" {
				t.Errorf("current %s after note %q, want the version that was pushed", now, note)
			}
		}
	})
}
