package sources_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

func TestSync(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		id := ada.made(object{
			"type": "repohost", "label": "x", "installation_id": 7, "repo_full_name": "acme/skills", "default_branch": "trunk", "skill_path": "skills/demo",
		})
		sync := func() answer { return ada.post(sourcePath(id)+"/repohost-sync", nil) }
		w.repos.archive, w.repos.commit = zipped(t, "SKILL.md", skillText), "c1"
		first := sync().want(http.StatusOK).object()
		wantKeys(t, first, "snapshot", "validationReports")
		if at(first, "snapshot", "commitSha") != "c1" || at(first, "snapshot", "ref") != "refs/heads/trunk" || at(first, "snapshot", "isCurrent") != true {
			t.Errorf("snapshot %v", first["snapshot"])
		}
		w.repos.commit = "c2"
		if diff := cmp.Diff(first, sync().want(http.StatusOK).object()); diff != "" {
			t.Errorf("the same content (-first +again):\n%s", diff)
		}
		w.repos.archive = zipped(t, "SKILL.md", skillText, "b", "b")
		second := sync().want(http.StatusOK).object()
		if text(second, "snapshot", "commitSha") != "c2" || text(second, "snapshot", "id") == text(first, "snapshot", "id") {
			t.Errorf("snapshot %v", second["snapshot"])
		}
		want := []string{"7 acme/skills trunk skills/demo", "7 acme/skills trunk skills/demo", "7 acme/skills trunk skills/demo"}
		if diff := cmp.Diff(want, w.repos.asked); diff != "" {
			t.Errorf("fetched (-want +got):\n%s", diff)
		}
		detail := ada.detail(id)
		if text(detail, "currentSnapshot", "id") != text(second, "snapshot", "id") || len(objects(t, detail, "snapshots")) != 2 {
			t.Errorf("detail %v", detail)
		}

		w.repos.err = errors.New("connection refused by 10.0.0.1")
		sync().wantError(http.StatusBadGateway, "The code host cannot be reached")
		w.repos.err = fault.New(fault.NotFound, "No branch trunk in acme/skills")
		sync().wantError(http.StatusNotFound, "No branch trunk")
		upload := ada.made(object{"type": "upload", "label": "x"})
		ada.post(sourcePath(upload)+"/repohost-sync", nil).wantError(http.StatusConflict, "no repository")
		w.sources.Repos = nil
		sync().wantError(http.StatusServiceUnavailable, "--repohost")
		ada.post(sourcePath(upload)+"/repohost-sync", nil).wantError(http.StatusConflict, "no repository")
	})
}
