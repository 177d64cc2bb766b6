package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// proposed makes a proposal and returns its path.
func (w *world) proposed(d proposals.Draft) string {
	w.T.Helper()
	d.OrgID, d.SkillName, d.ProposedBy = w.org.ID, "pdf", "improve_run"
	var id string
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) (err error) {
		id, err = (&proposals.Service{DB: w.DB}).Propose(w.T.Context(), tx, d)
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return "/proposals/" + id
}

func TestProposalPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	before, after := "---\nname: pdf\n---\nRead the table.\n", "---\nname: pdf\n---\nRead the whole table.\n"
	body := "Read the whole table.\n"
	p := 0.03
	path := w.proposed(proposals.Draft{
		Finding: "improve_run 1", Type: proposals.Body, Target: proposals.TargetBody, ProposedValue: &body, Reason: "Tables are cut.",
		Evidence: object{"improve_run_id": "gone", "suite_id": "s"}, Proved: true,
		Proof: &proposals.Proof{Cases: 10, Current: 0.6, Winner: 0.9, Better: 4, Worse: 1, P: &p, Interval: &[2]float64{0.02, 0.48}},
		Change: proposals.Change{
			BaseVersion: "1.2.0", SkillMD: after, Diff: string(compare.Texts("SKILL.md", before, after)),
			Edits: []proposals.Edit{{Op: "replace", Anchor: "the table", Text: "the whole table", Why: "Rows are missing " + payload, Cases: []string{"rows", "sums"}}},
		},
	})
	page := b.get(path).want(http.StatusOK).wantInert().wantText("pdf: change the body", "proved", "Changes to 1.2.0", "90", "4 better, 1 worse",
		"+2 to +48 points", "Proved to be better. A difference like this happens in 3 of 100", "Rows are missing", "For 2 cases: rows , sums", "Improve run View the improve run")
	checkPage(t, page)
	if got := page.texts("ins"); !slices.Equal(got, []string{"whole"}) {
		t.Errorf("the words %q are shown as added", got)
	}
	if got := page.texts("del"); !slices.Equal(got, []string{}) {
		t.Errorf("the words %q are shown as removed", got)
	}
	if hrefs := page.hrefs(); slices.Contains(hrefs, "/improve-runs/gone") {
		t.Errorf("the evidence leads to a run that is gone: %q", hrefs)
	}

	p = 0.4
	b.get(w.proposed(proposals.Draft{
		Finding: "improve_run 2", Type: proposals.Description, ProposedValue: &body, Reason: "r", Evidence: object{},
		Proof: &proposals.Proof{Cases: 4, Current: 0.5, Winner: 0.6, Better: 1, P: &p},
	})).want(http.StatusOK).wantText("not proved", "Not proved to be better. A difference like this happens in 40 of 100", "This proposal came without evidence")
}

// TestWriteProposal: a proposal without a text cannot be approved until a person has
// written one.
func TestWriteProposal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer := w.as(access.Owner), w.as(access.Viewer)
	b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables.", "Read it.\n")})
	path := w.proposed(proposals.Draft{Finding: "low_grade", Type: proposals.Body, Reason: "Many fail.", Evidence: object{}})
	empty := b.get(path).want(http.StatusOK).wantText("This proposal has a reason but no text yet", "You can approve it once its text is written")
	checkPage(t, empty)
	if text := strings.Join(empty.texts("pre"), ""); text != "" {
		t.Errorf("without a value the page shows %q", text)
	}
	viewer.get(path).want(http.StatusOK).wantForms()
	b.post(path, url.Values{"decision": {"approve"}}).want(http.StatusConflict).wantText("The proposal has no value to apply yet")
	viewer.post(path, url.Values{"decision": {"write"}, "value": {"x"}}).want(http.StatusForbidden)
	checkPage(t, b.post(path, url.Values{"decision": {"write"}, "value": {" "}}).want(http.StatusBadRequest))
	b.post(path, url.Values{"decision": {"write"}, "value": {"Read it.\r\nCheck it.\r\n"}}).wantLocation(path)
	written := b.get(path).want(http.StatusOK).wantText("The text is saved", "Changes to 1.0.0", "Write another text")
	checkPage(t, written)
	if got := written.texts("tr.add"); !slices.ContainsFunc(got, func(line string) bool { return strings.HasSuffix(line, "+ Check it.") }) {
		t.Errorf("the words %q are shown as added", got)
	}
	b.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables.", "Read it slowly.\n")})
	stale := b.get(path).want(http.StatusOK).wantText("This proposal is out of date", "Redo it for the current text", "You can't approve it while it's out of date")
	checkPage(t, stale)
	b.post(path, url.Values{"decision": {"refresh"}}).want(http.StatusConflict).wantText("A person wrote its value")
	b.post(path, url.Values{"decision": {"write"}, "value": {"Read it slowly.\nCheck it.\n"}}).wantLocation(path)
	b.post(path, url.Values{"decision": {"approve"}}).wantLocation(path)

	member := w.as(access.Member, access.Read, access.Write)
	member.get(path).want(http.StatusOK).wantNoText("Publish as a version")
	member.post(path+"/apply", url.Values{"as": {"version"}}).want(http.StatusForbidden)
	checkPage(t, b.get(path).want(http.StatusOK).wantText("Publish as a version", "The new version becomes current at once, unless it needs approvals: this skill has no gate.", "Download the patch").
		wantNoText("Open a pull request"))
	b.post(path+"/apply", url.Values{"as": {"letter"}}).want(http.StatusBadRequest)
	checkPage(t, b.post(path+"/apply", url.Values{"as": {"pull_request"}}).want(http.StatusConflict).wantText("No repository is connected to pdf"))
	patch := b.post(path+"/apply", url.Values{"as": {"patch"}}).want(http.StatusOK)
	if !strings.Contains(patch.body, "+Check it.") || !strings.Contains(patch.Header.Get("Content-Disposition"), ".patch") {
		t.Errorf("the patch is %q, %v", patch.body, patch.Header)
	}
	b.post(path+"/apply", url.Values{"as": {"version"}}).wantLocation(path)
	applied := b.eventually(path, "● published").wantText("Outcome", "version 1.1.1", "no graded sessions of this version yet").wantNoText("Publish as a version")
	checkPage(t, applied)
	b.get(applied.href("1.1.1")).want(http.StatusOK)
}

// TestProposalsSeveral answers several proposals at once; the message names the one that
// cannot be approved.
func TestProposalsSeveral(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer, other := w.as(access.Owner), w.as(access.Viewer), w.otherOrg(access.Team)
	b.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads tables.", "Read it.\n")})
	value := "Reads every table."
	ready := w.proposed(proposals.Draft{Finding: "a", Type: proposals.Description, ProposedValue: &value, Reason: "r", Evidence: object{}})
	empty := w.proposed(proposals.Draft{Finding: "b", Type: proposals.Body, Reason: "r", Evidence: object{}})
	p := b.get("/proposals").want(http.StatusOK)
	checkPage(t, p)
	if n := len(p.picks()); n != 2 {
		t.Fatalf("%d can be selected, want 2", n)
	}
	viewer.get("/proposals").want(http.StatusOK).wantForms()
	form := url.Values{"decision": {"approve"}, "selected": p.picks()}
	viewer.post("/proposals", form).want(http.StatusForbidden)
	other.post("/proposals", form).want(http.StatusNotFound)
	b.post("/proposals", url.Values{"decision": {"applied"}, "selected": p.picks()}).want(http.StatusBadRequest)
	b.post("/proposals", url.Values{"decision": {"approve"}}).wantLocation("/proposals")
	b.get("/proposals").wantText("Select the proposals first.")
	b.post("/proposals", form).wantLocation("/proposals")
	b.get("/proposals").wantText("1 approved. 1 not changed: pdf: The proposal has no value to apply yet")
	b.post("/proposals", url.Values{"decision": {"reject"}, "selected": {id(ready), id(empty)}}).wantLocation("/proposals")
	if p := b.get("/proposals").wantText("2 rejected."); len(p.picks()) != 0 {
		t.Errorf("%v can still be selected", p.picks())
	}
}
