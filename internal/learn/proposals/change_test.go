package proposals_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// fail sends sessions of three cohorts that went badly.
func (c *client) fail(skill string, sessions int) {
	c.T.Helper()
	for n := range sessions {
		c.Post("/api/v1/signals", object{
			"signal_type": "skill_session", "skill_name": skill, "user_cohort": string(rune('a' + n%3)),
			"signals": object{"execution_grade": "F"},
		}).Want(http.StatusCreated)
	}
}

// wantFields compares some fields of a proposal.
func wantFields(t *testing.T, p, want object) {
	t.Helper()
	for field, value := range want {
		if diff := cmp.Diff(value, p[field]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
}

// TestEmptyProposal: signals do not say what is wrong with a body. A person does, and
// only then it can be approved.
func TestEmptyProposal(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org()
		c.publish("pdf", "Reads PDF files")
		c.fail("pdf", 12)
		c.generate()
		p := c.one()
		wantFields(t, p, object{
			"finding": "low_grade", "proposal_type": "body", "current_value": "# pdf\n", "proposed_value": nil, "diff": nil,
			"base_version": "1.0.0", "stale": false,
		})
		c.patch(p, object{"status": "approved"}).WantError(http.StatusConflict,
			"The proposal has no value to apply yet: write one (PATCH proposed_value, or on its page), or reject it")
		p = c.patch(p, object{"proposed_value": "# pdf\n\nRead every page.\n"}).Want(http.StatusOK).Object()["proposal"].(object)
		wantFields(t, p, object{
			"status": "pending", "proposed_value": "# pdf\n\nRead every page.\n", "current_value": "# pdf\n",
			"diff": "diff a/SKILL.md b/SKILL.md\n--- a/SKILL.md\n+++ b/SKILL.md\n@@ -3,3 +3,5 @@\n description: Reads PDF files\n ---\n # pdf\n+\n+Read every page.\n",
		})
		c.fail("pdf", 3)
		c.generate() // the evidence grows, what a person wrote stays
		p = c.one()
		wantFields(t, p, object{"proposed_value": "# pdf\n\nRead every page.\n"})
		if got := p["evidence"].(object)["signals"]; got != 15.0 || !strings.HasPrefix(p["reason"].(string), "15 of 15 signals") {
			t.Errorf("evidence %v, reason %v", p["evidence"], p["reason"])
		}
		p = c.patch(p, object{"status": "approved", "proposed_value": "# pdf\n\nRead all.\n"}).Want(http.StatusOK).Object()["proposal"].(object)
		wantFields(t, p, object{"status": "approved", "proposed_value": "# pdf\n\nRead all.\n", "reviewed_by": c.User.ID})
		c.patch(p, object{"status": "rejected"}).Want(http.StatusOK)
		c.patch(p, object{"proposed_value": "x"}).WantError(http.StatusConflict, "A proposal that is rejected cannot be changed")
	})
}

// TestReopened: what an earlier version let people approve without a value is pending
// again.
func TestReopened(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		c.publish("pdf", "Reads PDF files")
		c.fail("pdf", 12)
		c.generate()
		full := c.propose("full")
		c.patch(object{"id": full}, object{"status": "approved"}).Want(http.StatusOK)
		w.Exec(`UPDATE proposals SET status = 'approved'`)
		w.Work()
		apptest.Eventually(t, "the approval to be taken back", func() bool {
			return len(c.list(path+"?status=pending")) == 1 && len(c.list(path+"?status=approved")) == 1
		})
	})
}

func TestBadValues(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org()
		c.publish("pdf", "Reads PDF files")
		c.miss("pdf", 10, 3)
		c.generate()
		p := c.one()
		for name, value := range map[string]any{
			"empty": "", "blank": " \n", "too long for a description": strings.Repeat("word ", 300), "no text": 5,
			"too large": strings.Repeat("x", 70_000),
		} {
			a := c.patch(p, object{"proposed_value": value}).Want(http.StatusBadRequest).Object()
			if got := a["details"].(object)["path"]; !cmp.Equal(got, any([]any{"proposed_value"})) {
				t.Errorf("%s: %v", name, a)
			}
		}
		if diff := cmp.Diff(p, c.one()); diff != "" {
			t.Errorf("it changed (-before +after):\n%s", diff)
		}
	})
}

// TestStale: a proposal made for other words says so, cannot be approved, and is made
// anew.
func TestStale(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		e := c.publish("pdf", "Reads PDF files")
		c.miss("pdf", 10, 3)
		c.generate()
		p := c.one()
		refresh := path + "/" + p["id"].(string) + "/refresh"
		c.push(e, "1.0.1", skillMD("pdf", "Reads PDF files")) // the same words
		if p = c.one(); p["stale"] != false {
			t.Errorf("stale: %v", p["stale_reason"])
		}
		c.push(e, "1.1.0", skillMD("pdf", "Reads and writes PDF files"))
		wantFields(t, c.one(), object{
			"stale": true, "stale_reason": "It was made for the words of version 1.0.0, and version 1.1.0 has others",
		})
		c.patch(p, object{"status": "approved"}).WantError(http.StatusConflict,
			"It was made for the words of version 1.0.0, and version 1.1.0 has others: refresh the proposal, or write its value again")
		w.org().Post(refresh, nil).WantError(http.StatusNotFound, "Proposal not found")
		p = c.Post(refresh, nil).Want(http.StatusOK).Object()["proposal"].(object)
		wantFields(t, p, object{
			"stale": false, "stale_reason": nil, "base_version": "1.1.0", "current_value": "Reads and writes PDF files",
			"proposed_value": "Reads and writes PDF files. Use it also for search.",
		})
		c.push(e, "1.2.0", skillMD("pdf", "Reads PDF"))
		c.generate()
		wantFields(t, c.one(), object{"stale": false, "proposed_value": "Reads PDF. Use it also for search."})
		c.patch(p, object{"proposed_value": "Reads it all."}).Want(http.StatusOK)
		c.push(e, "1.3.0", skillMD("pdf", "Reads"))
		c.generate()
		wantFields(t, c.one(), object{"stale": true, "proposed_value": "Reads it all."})
		c.Post(refresh, nil).WantError(http.StatusConflict, "A person wrote its value: write it again for the current words")
		p = c.patch(p, object{"proposed_value": "Reads it all."}).Want(http.StatusOK).Object()["proposal"].(object)
		wantFields(t, p, object{"stale": false, "base_version": "1.3.0", "current_value": "Reads"})
	})
}

// TestStaleAfterApproval: a proposal whose words change after its approval is pending
// again, and not applied; one whose client pushed the proposed words is.
func TestStaleAfterApproval(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		e := c.publish("pdf", "Reads PDF files")
		c.miss("pdf", 10, 3)
		c.generate()
		p := c.one()
		c.patch(p, object{"status": "approved"}).Want(http.StatusOK)
		c.push(e, "1.1.0", skillMD("pdf", "Reads and writes PDF files"))
		c.patch(p, object{"status": "applied"}).WantError(http.StatusConflict,
			"It was made for the words of version 1.0.0, and version 1.1.0 has others: refresh the proposal, or write its value again")
		if approved := c.Get(path + "?status=approved").List("proposals"); len(approved) != 0 {
			t.Errorf("still handed out: %v", approved)
		}
		p = c.Get(path + "?status=pending").List("proposals")[0]
		wantFields(t, p, object{"status": "pending", "stale": true, "reviewed_by": nil, "reviewed_at": nil})
		p = c.Post(path+"/"+p["id"].(string)+"/refresh", nil).Want(http.StatusOK).Object()["proposal"].(object)
		c.patch(p, object{"status": "approved"}).Want(http.StatusOK)
		c.push(e, "1.2.0", skillMD("pdf", p["proposed_value"].(string))) // by the client that applies it
		wantFields(t, c.one(), object{"status": "approved", "stale": false})
		c.patch(p, object{"status": "applied"}).Want(http.StatusOK)
	})
}

// TestSourceWords: a skill outside the registry has its words in a cloud source.
func TestSourceWords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		c.miss("pdf", 10, 3)
		c.generate()
		p := c.one()
		wantFields(t, p, object{"current_value": nil, "proposed_value": nil, "entry_id": nil})
		snapshot := func(text string) *skillpkg.Package {
			pkg, err := skillpkg.FromParts(t.Context(), []skillpkg.Part{skillpkg.TextPart("SKILL.md", text)}, skillpkg.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pkg.Close() })
			return pkg
		}
		skill, by := p["skill_id"].(string), access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}
		made, err := w.sources.CreateFrom(t.Context(), by, sources.NewSource{Type: sources.Upload, Label: "pdf", SkillID: &skill},
			snapshot(skillMD("pdf", "Reads PDF")))
		if err != nil {
			t.Fatal(err)
		}
		c.generate()
		wantFields(t, c.one(), object{
			"current_value": "Reads PDF", "proposed_value": "Reads PDF. Use it also for search.", "entry_id": nil, "base_version": nil,
			"stale": false,
		})
		if _, err := w.sources.AddSnapshot(t.Context(), by, made.Source.ID, snapshot(skillMD("pdf", "Reads"))); err != nil {
			t.Fatal(err)
		}
		wantFields(t, c.one(), object{"stale": true})
		c.generate()
		wantFields(t, c.one(), object{"stale": false, "proposed_value": "Reads. Use it also for search."})
	})
}

// TestUnknownWords: where nobody knows the words, what a person wrote is taken as it
// is.
func TestUnknownWords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org()
		c.miss("pdf", 10, 3)
		c.generate()
		p := c.patch(c.one(), object{"proposed_value": "Reads.", "status": "approved"}).Want(http.StatusOK).Object()["proposal"].(object)
		wantFields(t, p, object{"status": "approved", "proposed_value": "Reads.", "diff": nil})
	})
}
