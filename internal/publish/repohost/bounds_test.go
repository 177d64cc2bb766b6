package repohost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// endless has so many alternatives that matching all of them takes forever.
var endless = strings.Repeat("{,}", 60) + "x"

// TestTagPatterns: a pattern with too many alternatives is refused, and one that
// is stored already is not expanded.
func TestTagPatterns(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, id := connected(t, db, object{"tag_pattern": "{v,release-}[0-9]*"})
		for _, pattern := range []string{endless, strings.Repeat("{a,b}", 7), "v{1", "v}", ""} {
			c.Do(http.MethodPatch, base+"/connections/"+id, object{"tag_pattern": pattern}).WantIssueWith("tag_pattern", "")
		}
		sha := work.Push("first", skillFiles("One."))
		long := "v1" + strings.Repeat("/long", 60)
		work.Git("push", "--quiet", "origin", sha+":refs/tags/v1.0.0", sha+":refs/tags/release-2", sha+":refs/tags/x3")
		w.repos.Git("acme/deploy", "update-ref", "refs/tags/"+long, sha)
		if got := c.sync(id); got["status"] != "published" {
			t.Fatalf("sync: got %v", got)
		}
		if n := w.Count(`repohost_attempts WHERE ref_kind = 'tag'`); n != 2 {
			t.Errorf("%d tags were tried, want 2", n)
		}

		for _, pattern := range []string{endless, "**/" + long} {
			w.Exec(`UPDATE repohost_connections SET tag_pattern = $1`, pattern)
			begun := time.Now()
			got := c.sync(id)
			w.hook("h"+fmt.Sprint(len(pattern)), "acme/deploy", "refs/tags/v1.0.0", sha)
			w.reconcileOnce()
			if took := time.Since(begun); took > 2*time.Minute {
				t.Errorf("a stored pattern took %s", took)
			}
			if got["status"] != "unchanged" || !strings.Contains(fmt.Sprint(got["message"]), "tag_pattern must be") {
				t.Errorf("sync with a stored pattern: got %v", got)
			}
			if n := len(c.versions(entry)); n != 4 {
				t.Errorf("%d versions, want 4", n)
			}
		}
		w.Exec(`UPDATE repohost_connections SET tag_pattern = $1`, endless)
		findings, err := w.service.Check(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if last := findings[len(findings)-1]; last.Status != invariants.Advice || !strings.Contains(last.Message, id+" publishes no tags") {
			t.Errorf("the doctor says %+v", last)
		}
	})
}

// reconcileOnce runs the queued jobs and stops.
func (w *world) reconcileOnce() {
	w.T.Helper()
	stop := w.Work()
	defer stop()
	w.reconcile()
}

// TestSyncDeadline: a sync with a slow code host times out.
func TestSyncDeadline(t *testing.T) {
	h := newHub(t, storetest.Open(t, "sqlite"))
	h.work.Push("first", skillFiles("One."))
	h.service.SetSyncTimeout(300 * time.Millisecond)
	hold := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	h.github.Break(hosttest.Fault{On: "tarball", Always: true, Answer: hold})
	h.c.Post(base+"/connections/"+h.connection+"/sync", nil).WantErrorWith(http.StatusServiceUnavailable, "in good time")
	_, _, err := h.service.Fetch(t.Context(), h.c.Org.ID, h.github.Installation, "acme/deploy", "main", ".")
	if err == nil || !strings.Contains(err.Error(), "in good time") {
		t.Errorf("fetch: got %v", err)
	}
	// The rest is published later, or by the next sync.
	h.github.Mend()
	h.service.SetSyncTimeout(0)
	if got := h.c.sync(h.connection); got["status"] != "published" {
		t.Errorf("then: got %v", got)
	}
}
