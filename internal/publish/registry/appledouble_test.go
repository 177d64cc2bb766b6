package registry_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestAppleDouble pushes what a Mac's tar packs.
func TestAppleDouble(t *testing.T) {
	t.Parallel()
	const attributes = "\x00\x05\x16\x07attributes"
	text := registrytest.SkillText("From a Mac.")
	archive := registrytest.Pack(t,
		registrytest.File("./._.", attributes), registrytest.File("./._SKILL.md", attributes), registrytest.File("./SKILL.md", text),
		registrytest.File("./._docs", attributes), registrytest.File("./docs/._a.md",
			attributes), registrytest.File("./docs/a.md", "a"))
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		files := map[string]string{"SKILL.md": text, "docs/a.md": "a"}
		id := ada.Made("pdf", "1", archive, object{"visibility": "public", "file_manifest": registrytest.Manifest(files)})
		wantFiles(ada, id, "1", archive, files)
		ada.Get(registrytest.VersionPath(id, "1") + "/files/._SKILL.md").Want(http.StatusNotFound)
		const index = "/.well-known/agent-skills/index.json"
		_, contents := registrytest.Unpack(t, w.Fetch(index, w.Anonymous().Get(index).List("skills")[0]))
		if diff := cmp.Diff(files, contents); diff != "" {
			t.Errorf("what installers get (-want +got):\n%s", diff)
		}
		_, v, err := w.Registry.Version(t.Context(), ada.Org.ID, id, "1")
		if err != nil {
			t.Fatal(err)
		}
		pkg, err := w.Registry.Open(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		defer pkg.Close()
		if diff := cmp.Diff(v.Manifest, pkg.Manifest()); diff != "" || pkg.TreeDigest() != v.TreeDigest {
			t.Errorf("what runs get (-want +got):\n%s", diff)
		}

		// One that the manifest names is a file; one that it gets wrong is not.
		files["docs/._a.md"] = attributes
		ada.Pushed(id, "2", archive, object{"file_manifest": registrytest.Manifest(files)})
		wantFiles(ada, id, "2", archive, files)
		files["docs/._a.md"] = "other"
		ada.Push(id, "3", archive, object{"file_manifest": registrytest.Manifest(files)}).
			WantIssueWith("file_manifest", `wrong about "docs/._a.md"`)
		delete(files, "docs/._a.md")
		files["._b.md"] = ""
		ada.Push(id, "3", archive, object{"file_manifest": registrytest.Manifest(files)}).
			WantIssueWith("file_manifest", `names "._b.md"`)
		// Without a manifest nothing says that they are not wanted.
		ada.Pushed(id, "4", archive)
		all := map[string]string{
			"._SKILL.md": attributes, "SKILL.md": text, "._docs": attributes, "docs/._a.md": attributes, "docs/a.md": "a",
		}
		wantFiles(ada, id, "4", archive, all)
	})
}
