package checks_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
)

// TestPullRequests: pull requests can be listed by what they belong to and what
// became of them.
func TestPullRequests(t *testing.T) {
	t.Parallel()
	onBoth(t, testPullRequests)
}

func testPullRequests(t *testing.T, w *world) {
	t.Helper()
	w.Work()
	head := w.branch("topic", "bad")
	w.event(w.host.OpenPull("acme/pdf", "acme/pdf", "topic"), "opened")
	w.Settle() // the list is by when we saw them, and events are handled side by side
	w.branch("draft", "good")
	draft := w.host.OpenPull("acme/pdf", "acme/pdf", "draft")
	draft.Set(func(p *hosttest.OpenedPull) { p.Draft = true })
	w.event(draft, "opened")
	w.Settle()
	closed := w.host.OpenPull("acme/pdf", "acme/pdf", "draft")
	closed.Set(func(p *hosttest.OpenedPull) { p.Closed = true })
	w.event(closed, "closed")
	w.Settle()
	list := func(query string) (numbers []any) {
		t.Helper()
		for _, p := range w.Get(base + "/pull-requests?" + query).Want(http.StatusOK).List("pull_requests") {
			numbers = append(numbers, p["number"])
		}
		return numbers
	}
	one, two, three := float64(1), float64(2), float64(3)
	for query, want := range map[string][]any{
		"": {three, two, one}, "state=open": {two, one}, "state=closed": {three}, "status=decided": {one}, "status=skipped": {two},
		"connection_id=" + w.connection: {three, two, one}, "connection_id=" + w.entry: nil,
		"entry_id=" + w.entry + "&state=open&per_page=1&page=2": {one},
	} {
		if diff := cmp.Diff(want, list(query)); diff != "" {
			t.Errorf("%s (- want, + got):\n%s", query, diff)
		}
	}
	w.Get(base + "/pull-requests?state=merged").Want(http.StatusBadRequest)
	w.Get(base + "/pull-requests/" + w.entry).Want(http.StatusNotFound)

	listed := w.Get(base + "/pull-requests?status=decided").Want(http.StatusOK).List("pull_requests")[0]
	got := w.Get(fmt.Sprint(base, "/pull-requests/", listed["id"])).Want(http.StatusOK).Field("pull_request")
	if diff := cmp.Diff(listed, got); diff != "" {
		t.Errorf("listed and read differ:\n%s", diff)
	}
	gate := w.Get("/api/v1/gates").Want(http.StatusOK).List("gates")[0]
	want := object{
		"id": got["id"], "connection_id": w.connection, "entry_id": w.entry, "number": one, "title": "Change topic", "url": got["url"],
		"state": "open", "head": head, "status": "decided", "message": "Block: better on 0, worse on 2 of 10 cases",
		"gate_id": gate["id"], "verdict": "block", "comment_id": float64(w.host.Comments()[0].ID),
		"write_back_status": "success", "write_back_detail": "", "created_at": got["created_at"], "updated_at": got["updated_at"],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- want, + got):\n%s", diff)
	}
	skipped := w.Get(base + "/pull-requests?status=skipped").Want(http.StatusOK).List("pull_requests")[0]
	if skipped["gate_id"] != nil || skipped["verdict"] != nil || skipped["comment_id"] != nil {
		t.Errorf("a draft: got %v", skipped)
	}
}
