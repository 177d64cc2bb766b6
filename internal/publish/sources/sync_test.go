package sources_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// unreachable is a code host that is down.
type unreachable struct{ host.Host }

func (unreachable) Resolve(context.Context, host.Repo, string) (host.Commit, error) {
	return host.Commit{}, errors.New("connection refused by 10.0.0.1")
}

func TestSync(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		ada.Bind(7, "acme")
		repo := w.Repos.Create("acme/skills")
		repo.Git("checkout", "--quiet", "-b", "trunk")
		push := func(name, content string) (commit string) {
			return repo.Push(name, map[string]string{name: content})
		}
		body := object{
			"type": "repohost", "label": "x", "installation_id": 7, "repo_full_name": "acme/skills",
			"default_branch": "trunk", "skill_path": "skills/demo",
		}
		id := ada.Made(body)
		sync := func() answer { return ada.Post(sourcePath(id)+"/repohost-sync", nil) }
		sync().WantErrorWith(http.StatusNotFound, "trunk")

		commit := push("skills/demo/SKILL.md", skillText)
		first := sync().Want(http.StatusOK).Object()
		wantKeys(t, first, "snapshot", "validationReports")
		if at(first, "snapshot", "commitSha") != commit || at(first, "snapshot", "ref") != "trunk" ||
			at(first, "snapshot", "isCurrent") != true || at(first, "snapshot", "fileCount") != 1.0 {
			t.Errorf("snapshot %v", first["snapshot"])
		}
		push("README.md", "Outside of the skill's folder.")
		if diff := cmp.Diff(first, sync().Want(http.StatusOK).Object()); diff != "" {
			t.Errorf("the same content (-first +again):\n%s", diff)
		}
		commit = push("skills/demo/b", "b")
		second := sync().Want(http.StatusOK).Object()
		if text(second, "snapshot", "commitSha") != commit || text(second, "snapshot", "id") == text(first, "snapshot", "id") {
			t.Errorf("snapshot %v", second["snapshot"])
		}
		detail := ada.Detail(id)
		if text(detail, "currentSnapshot", "id") != text(second, "snapshot", "id") || len(objects(t, detail, "snapshots")) != 2 {
			t.Errorf("detail %v", detail)
		}

		upload := ada.Made(object{"type": "upload", "label": "x"})
		ada.Post(sourcePath(upload)+"/repohost-sync", nil).WantErrorWith(http.StatusConflict, "no repository")
		body["installation_id"] = 8
		unbound := ada.Made(body)
		ada.Post(sourcePath(unbound)+"/repohost-sync", nil).WantErrorWith(http.StatusConflict, "not bound")
		w.Repohost.Host = unreachable{w.Repohost.Host}
		sync().WantErrorWith(http.StatusBadGateway, "The code host cannot be reached")
	})
}
