package sources_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// together makes calls at the same time and returns their answers.
func together(calls ...func() answer) []answer {
	answers := make([]answer, len(calls))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			<-start
			answers[i] = call()
		})
	}
	close(start)
	wg.Wait()
	return answers
}

// TestReviewersAtOnce decide on one suggestion: one of them has the last word,
// whole.
func TestReviewersAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob := w.member(ada.org, access.Member)
		id := ada.made(object{"type": "upload", "label": "x"})
		suite := w.suites.add(ada.org.ID, id, "llm_judge")
		for range 10 {
			suggestion := uuid.NewString()
			got := together(
				func() answer { return ada.review(id, object{"suggestion_id": suggestion, "rationale": "ada"}) },
				func() answer {
					return bob.review(id, object{"suggestion_id": suggestion, "review_status": "rejected", "rationale": "bob"})
				},
				func() answer { return bob.apply(id, suggestion, suite, object{"query": suggestion}) },
				func() answer { return ada.apply(id, suggestion, suite, object{"query": suggestion}) })
			for _, a := range got {
				a.want(http.StatusOK)
			}
			reviews := ada.reviewed(id)
			if n := w.count("source_reviews WHERE suggestion_id = $1", suggestion); n != 1 {
				t.Fatalf("%d reviews of one suggestion", n)
			}
			r := reviews[slices.IndexFunc(reviews, func(r object) bool { return r["suggestionId"] == suggestion })]
			whole := r["reviewStatus"] == "accepted" && r["acceptTarget"] == "draft" && r["rationale"] == "ada" && r["reviewedBy"] == ada.user.ID && r["appliedSuiteId"] == nil ||
				r["reviewStatus"] == "rejected" && r["acceptTarget"] == nil && r["rationale"] == "bob" && r["reviewedBy"] == bob.user.ID ||
				r["acceptTarget"] == "saved_suite" && r["appliedSuiteId"] == suite && r["query"] == suggestion
			if !whole {
				t.Errorf("a mixture: %v", r)
			}
		}
		if n := len(w.suites.cases(suite)); n != 10 {
			t.Errorf("%d cases of ten suggestions", n)
		}
		// Of two that clear, one comes too late.
		ada.review(id, nil).want(http.StatusOK)
		undo := func() answer { return ada.clear(id, "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70") }
		if diff := cmp.Diff([]int{204, 404}, statuses(together(undo, undo))); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
	})
}

func statuses(answers []answer) []int {
	all := []int{}
	for _, a := range answers {
		all = append(all, a.status)
	}
	slices.Sort(all)
	return all
}

// TestApplyAgainstPatch loses neither case.
func TestApplyAgainstPatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		id := ada.made(object{"type": "upload", "label": "x"})
		suite := w.suites.add(ada.org.ID, id, "llm_judge")
		for i := range 10 {
			query := fmt.Sprint("applied ", i)
			got := together(
				func() answer { return ada.apply(id, uuid.NewString(), suite, object{"query": query}) },
				func() answer {
					if err := w.suites.patch(suite, object{"query": fmt.Sprint("patched ", i)}); err != nil {
						t.Error(err)
					}
					return answer{}
				})
			got[0].want(http.StatusOK)
		}
		if n := len(w.suites.cases(suite)); n != 20 {
			t.Errorf("%d cases, want 20", n)
		}
	})
}

// TestUploadsAtOnce of one content are one snapshot.
func TestUploadsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme")
		id := ada.made(object{"type": "upload", "label": "x"})
		for round := range 5 {
			archive := zipped(t, "SKILL.md", skillText, "round", fmt.Sprint(round))
			upload := func() answer { return ada.upload(uploadPath, field("source_id", id), archivePart(archive)) }
			got := together(upload, upload, upload)
			for _, a := range got {
				a.want(http.StatusCreated)
				if text(a.object(), "snapshot", "id") != text(got[0].object(), "snapshot", "id") {
					t.Error("one content has two snapshots")
				}
			}
			if n := w.count("source_snapshots"); n != round+1 {
				t.Errorf("%d snapshots after round %d", n, round)
			}
		}
		w.settle()
		w.wantNoOrphans()
	})
}

// wantNoOrphans checks that every snapshot has its bytes and its source, and
// that there are no others.
func (w *world) wantNoOrphans() {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `SELECT DISTINCT source_id || '/' || content_hash FROM source_snapshots ORDER BY 1`)
	want, err := store.All(rows, err, store.Value[string])
	if err != nil {
		w.t.Fatal(err)
	}
	got := []string{}
	for _, key := range w.blobKeys() {
		got = append(got, strings.TrimPrefix(key, "sources/"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("bytes (-snapshots +blobs):\n%s", diff)
	}
	for _, table := range ownTables[1:] {
		column := "source_id NOT IN (SELECT id FROM cloud_sources)"
		if table == "source_reports" {
			column = "snapshot_id NOT IN (SELECT id FROM source_snapshots)"
		}
		if n := w.count(table + " WHERE " + column); n != 0 {
			w.t.Errorf("%s has %d orphans", table, n)
		}
	}
}

// TestDeleteAgainstOthers deletes a source while others work on it.
func TestDeleteAgainstOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme")
		second := zipped(t, "SKILL.md", skillText, "b", "b")
		for range 10 {
			id := ada.linked("pdf")
			ada.upload(uploadPath, field("source_id", id), filePart("SKILL.md", skillText)).want(http.StatusCreated)
			got := together(
				func() answer { return ada.do(http.MethodDelete, sourcePath(id), nil) },
				func() answer { return ada.upload(uploadPath, field("source_id", id), archivePart(second)) },
				func() answer { return ada.review(id, nil) },
				func() answer { return ada.get(sourcePath(id)) })
			for i, allowed := range [][]int{{204}, {201, 404}, {200, 404}, {200, 404}} {
				if !slices.Contains(allowed, got[i].status) {
					t.Errorf("%s: status %d, want one of %v: %s", got[i].what, got[i].status, allowed, got[i].body)
				}
			}
		}
		w.settle()
		w.wantNothing()
	})
}
