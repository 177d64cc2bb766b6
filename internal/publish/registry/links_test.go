package registry_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// wantFiles checks that a version has exactly these files, in its manifest and
// one by one, and that its archive is what was sent.
func wantFiles(c *registrytest.Client, id, version string, archive []byte, files map[string]string) {
	c.T.Helper()
	got := map[string]string{}
	for _, f := range apptest.List(c.T, c.Versions(id)[version], "file_manifest") {
		path := apptest.Text(f, "path")
		content := c.Get(registrytest.VersionPath(id, version) + "/files/" + path).Want(http.StatusOK).Body
		got[path] = string(content)
		if f["hash"] != registrytest.Sum(content) || f["size"] != float64(len(content)) {
			c.T.Errorf("%s: the manifest says %v of %q", version, f, content)
		}
	}
	if diff := cmp.Diff(files, got); diff != "" {
		c.T.Errorf("%s: files (-want +got):\n%s", version, diff)
	}
	a := c.Get(registrytest.VersionPath(id, version) + "/download")
	registrytest.WantDownload(a, registrytest.Sum(archive))
	if !bytes.Equal(a.Body, archive) {
		c.T.Errorf("%s: the archive is not what was sent", version)
	}
}

// TestLinks pushes archives with symbolic links, whose senders list them with
// the hash and size of the files that they point to.
func TestLinks(t *testing.T) {
	t.Parallel()
	text := registrytest.SkillText("Linked.")
	archive := registrytest.Pack(t,
		registrytest.File("demo/SKILL.md", text), registrytest.File("demo/docs/a.md", "a"),
		registrytest.Symlink("demo/latest.md", "docs/a.md"), registrytest.Symlink("demo/docs/up.md", "../latest.md"),
		registrytest.Symlink("demo/docs/skill.md", "../SKILL.md"))
	files := map[string]string{"SKILL.md": text, "docs/a.md": "a", "latest.md": "a", "docs/up.md": "a", "docs/skill.md": text}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", archive, object{"visibility": "public", "file_manifest": registrytest.Manifest(files)})
		wantFiles(ada, id, "1", archive, files)
		skills := w.Anonymous().Get("/.well-known/skills/index.json").Want(http.StatusOK).List("skills")
		if diff := cmp.Diff([]any{"SKILL.md", "docs/a.md", "docs/skill.md", "docs/up.md", "latest.md"},
			skills[0]["files"]); diff != "" {
			t.Errorf("files of the index (-want +got):\n%s", diff)
		}
		if got := w.Anonymous().Get("/.well-known/skills/pdf/docs/up.md").Want(http.StatusOK); string(got.Body) != "a" {
			t.Errorf("the link holds %q", got.Body)
		}

		// Another target of a link is a change of the file.
		other := registrytest.Pack(t, registrytest.File("SKILL.md", text), registrytest.File("docs/a.md", "a"),
			registrytest.File("docs/b.md", "b"), registrytest.Symlink("latest.md", "docs/b.md"))
		listed := map[string]string{"SKILL.md": text, "docs/a.md": "a", "docs/b.md": "b"}
		ada.Pushed(id, "2", other, object{"file_manifest": registrytest.Manifest(listed)}) // links may be left out
		listed["latest.md"] = "b"
		wantFiles(ada, id, "2", other, listed)
		diff := string(ada.Get(registrytest.VersionPath(id, "2") + "/diff").Want(http.StatusOK).Body)
		if !strings.Contains(diff, "--- a/latest.md\n+++ b/latest.md\n@@ -1,1 +1,1 @@\n-a") {
			t.Errorf("the diff does not show the link:\n%s", diff)
		}

		for name, content := range map[string]string{"latest.md": "docs/b.md", "docs/c.md": "c"} {
			claimed := map[string]string{"SKILL.md": text, "docs/a.md": "a", "docs/b.md": "b", name: content}
			ada.Push(id, "3", other, object{"file_manifest": registrytest.Manifest(claimed)}).
				WantIssueWith("file_manifest", fmt.Sprintf("%q", name))
		}
	})
}

func TestRefusedLinks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		text := registrytest.SkillText("A.")
		skill := registrytest.File("SKILL.md", text)
		chain := []registrytest.Member{skill, registrytest.Symlink("l0", "SKILL.md")}
		for i := range 60 {
			chain = append(chain, registrytest.Symlink(fmt.Sprintf("l%d", i+1), fmt.Sprintf("l%d", i)))
		}
		for _, c := range []struct {
			name    string
			members []registrytest.Member
			text    string
		}{
			{"out", []registrytest.Member{skill, registrytest.Symlink("l", "../x")}, "leaves the skill's folder"},
			{"out of the wrapper", []registrytest.Member{
				registrytest.File("w/SKILL.md", text), registrytest.File("._w", "x"), registrytest.Symlink("w/l", "../._w"),
			}, "leaves the skill's folder"},
			{"absolute", []registrytest.Member{skill, registrytest.Symlink("l", "/etc/passwd")}, "absolute"},
			{"dangling", []registrytest.Member{skill, registrytest.Symlink("l", "nothing")}, "points at nothing"},
			{"loop", []registrytest.Member{skill, registrytest.Symlink("a", "b"), registrytest.Symlink("b", "a")}, "back to itself"},
			{"its own folder", []registrytest.Member{skill, registrytest.Symlink("d/l", ".")}, "a folder it is in"},
			{"long chain", chain, "too many links"},
			{"SKILL.md", []registrytest.Member{registrytest.File("x.md", text), registrytest.Symlink("SKILL.md", "x.md")}, "SKILL.md is a link"},
		} {
			t.Run(c.name, func(t *testing.T) {
				claimed := registrytest.Manifest(map[string]string{"SKILL.md": text, "l": text})
				for _, fields := range []object{{}, {"file_manifest": claimed}} {
					ada.In(t).Create("pdf", "1", registrytest.Pack(t, c.members...), fields).Want(http.StatusBadRequest)
				}
				ada.In(t).Create("pdf", "1", registrytest.Pack(t, c.members...)).WantIssueWith("archive", c.text)
			})
		}
		wantNothing(w)
	})
}
