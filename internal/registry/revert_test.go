package registry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// reverter is the part of the registry that alerts know, with the skills that
// it judges by.
type reverter struct {
	*world
	service *registry.Service
	skills  *skills.Service
}

func newReverter(t *testing.T, db *store.DB) *reverter {
	t.Helper()
	r := &reverter{world: newWorld(t, db), skills: &skills.Service{DB: db, Window: 30}}
	r.service = &registry.Service{DB: db, Blobs: r.blobs, Jobs: r.queue, Skills: r.skills, Log: slog.New(slog.DiscardHandler)}
	r.skills.Versions = r.service
	return r
}

// grade counts n sessions with a grade for the version that is current.
func (r *reverter) grade(c *client, skill string, grade float64, n int) {
	r.t.Helper()
	report := skills.Report{OrgID: c.org.ID, UserID: c.user.ID}
	for range n {
		id := uuid.NewString()
		report.Gradings = append(report.Gradings, skills.Grading{ID: id, SkillName: skill, Session: id, PassRate: &grade, At: time.Now()})
	}
	err := r.db.InTx(r.t.Context(), func(tx *store.Tx) error {
		_, err := r.skills.Observe(r.t.Context(), tx, report)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// skillID is the id of a skill, which is made if it is new.
func (r *reverter) skillID(c *client, name string) (id string) {
	r.t.Helper()
	err := r.db.InTx(r.t.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(r.t.Context(), tx, c.org.ID, name)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// revert asks for it in a transaction that then may do more.
func (r *reverter) revert(c *client, skillID string, then func() error) (note string, err error) {
	r.t.Helper()
	err = r.db.InTx(r.t.Context(), func(tx *store.Tx) (err error) {
		note, err = r.service.Revert(r.t.Context(), tx, skills.Revert{
			OrgID: c.org.ID, SkillID: skillID, UserID: c.user.ID, Threshold: 0.8, Reason: "alert 7",
		})
		if err != nil || then == nil {
			return err
		}
		return then()
	})
	return note, err
}

// reverted is revert that must not fail.
func (r *reverter) reverted(c *client, skillID string) string {
	r.t.Helper()
	note, err := r.revert(c, skillID, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return note
}

func (r *reverter) wantCurrent(c *client, skillID string, want *string) {
	r.t.Helper()
	got, err := r.service.CurrentVersion(r.t.Context(), r.db, c.org.ID, skillID)
	if err != nil {
		r.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("current version (-want +got):\n%s", diff)
	}
}

// rollbacks lists an entry's rollbacks, newest first.
func (c *client) rollbacks(id string) []string {
	c.t.Helper()
	all := []string{}
	for _, r := range c.get(entryPath(id)).want(http.StatusOK).list("rollbacks") {
		if text(r, "rolled_back_by") != c.user.ID {
			c.t.Errorf("rolled back by %v", r)
		}
		all = append(all, fmt.Sprintf("%s>%s %v", r["from_version"], r["to_version"], r["reason"]))
	}
	return all
}

func TestRevert(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newReverter(t, db)
		ada := r.org("acme", access.Pro)
		id := ada.entryOf("pdf", 2)
		skill3 := skill(t, "pdf 3")
		r.grade(ada, "pdf", 0.9, 5)
		ada.push(id, "3", skill3).want(http.StatusCreated)
		r.grade(ada, "pdf", 0.79, 5)
		pdf := r.skillID(ada, "pdf")
		r.wantCurrent(ada, pdf, new("3"))

		// What the transaction does not commit has not happened.
		failure := errors.New("the event could not be written")
		if _, err := r.revert(ada, pdf, func() error { return failure }); !errors.Is(err, failure) {
			t.Errorf("got %v", err)
		}
		if now := ada.flags(id); now != " 3c 2 1" {
			t.Errorf("versions%s, want no change", now)
		}

		if note, want := r.reverted(ada, pdf), "Rolled back from version 3 to 2."; note != want {
			t.Errorf("note %q, want %q", note, want)
		}
		if now := ada.flags(id); now != " 3r 2c 1" {
			t.Errorf("versions%s", now)
		}
		r.wantCurrent(ada, pdf, new("2"))

		// Never twice: neither from the version that is good, nor from the bad
		// one that a person made current again.
		if note := r.reverted(ada, pdf); note != "" {
			t.Errorf("reverted again: %q", note)
		}
		ada.post(entryPath(id)+"/rollback", object{"target_version": "3", "reason": "forward"}).want(http.StatusOK)
		r.grade(ada, "pdf", 0, 20)
		if note := r.reverted(ada, pdf); note != "" {
			t.Errorf("reverted what a person had decided: %q", note)
		}
		if diff := cmp.Diff([]string{"2>3 forward", "3>2 alert 7"}, ada.rollbacks(id)); diff != "" {
			t.Errorf("rollbacks (-want +got):\n%s", diff)
		}
	})
}

// TestRevertRefused has all reasons not to.
func TestRevertRefused(t *testing.T) {
	t.Parallel()
	type graded struct {
		grade float64
		n     int
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newReverter(t, db)
		ada, eve := r.org("acme", access.Pro), r.org("evil", access.Pro)
		for i, c := range []struct {
			name     string
			versions []graded
		}{
			{"the version before was not healthy", []graded{{0.79, 5}, {0, 5}}},
			{"the version before had few sessions", []graded{{1, 4}, {0, 5}}},
			{"the version before had none", []graded{{1, 0}, {0, 5}}},
			{"the current version has few sessions", []graded{{1, 5}, {0, 4}}},
			{"the current version is at the threshold", []graded{{1, 5}, {0.8, 5}}},
			{"there is no version before", []graded{{0, 5}}},
			{"an older version was healthy", []graded{{1, 5}, {0.5, 5}, {0, 5}}},
		} {
			t.Run(c.name, func(t *testing.T) {
				name := fmt.Sprintf("skill-%d", i)
				var id string
				for n, v := range c.versions {
					version, archive := fmt.Sprint(n+1), skill(t, fmt.Sprintf("%s %d", name, n))
					if n == 0 {
						id = ada.in(t).made(name, version, archive)
					} else {
						ada.in(t).push(id, version, archive).want(http.StatusCreated)
					}
					r.grade(ada, name, v.grade, v.n)
				}
				before := ada.flags(id)
				if note := r.reverted(ada, r.skillID(ada, name)); note != "" {
					t.Errorf("note %q, want none", note)
				}
				if now := ada.flags(id); now != before {
					t.Errorf("versions%s, before%s", now, before)
				}
			})
		}
		t.Run("there is no entry", func(t *testing.T) {
			r.grade(ada, "loose", 0, 5)
			if note := r.reverted(ada, r.skillID(ada, "loose")); note != "" {
				t.Errorf("note %q, want none", note)
			}
			r.wantCurrent(ada, r.skillID(ada, "loose"), nil)
		})
		t.Run("it is another's", func(t *testing.T) {
			ada.entryOf("theirs", 1)
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
		r := newReverter(t, db)
		ada := r.org("acme", access.Pro)
		for round := range 5 {
			name := fmt.Sprintf("skill-%d", round)
			id := ada.made(name, "1", skill(t, name+" 1"))
			r.grade(ada, name, 1, 5)
			ada.push(id, "2", skill(t, name+" 2")).want(http.StatusCreated)
			r.grade(ada, name, 0, 5)
			skillID, third := r.skillID(ada, name), skill(t, name+" 3")
			var wg sync.WaitGroup
			wg.Go(func() { ada.push(id, "3", third) })
			note := r.reverted(ada, skillID)
			wg.Wait()
			if now := ada.current(id); now != "3" {
				t.Errorf("current %s after note %q, want the version that was pushed", now, note)
			}
		}
	})
}
