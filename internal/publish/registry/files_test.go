package registry_test

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Pack(t,
			registrytest.File("demo/SKILL.md", registrytest.SkillText("A.")),
			registrytest.File("demo/page.html", "<script>alert(1)</script>"),
			registrytest.File("demo/docs/a b+ü.md", "text"),
			registrytest.File("demo/logo.png", "\x89PNG\x00"),
			registrytest.File("demo/empty", "")))
		const plain, binary = "text/plain; charset=utf-8", "application/octet-stream"
		for _, c := range []struct{ path, mediaType, content string }{
			{"SKILL.md", plain, registrytest.SkillText("A.")},
			{"page.html", plain, "<script>alert(1)</script>"},
			{"docs/a%20b+%C3%BC.md", plain, "text"},
			{"logo.png", binary, "\x89PNG\x00"},
			{"empty", plain, ""},
		} {
			a := ada.Get(registrytest.VersionPath(id, "1") + "/files/" + c.path).Want(http.StatusOK)
			if string(a.Body) != c.content || a.Header.Get("Content-Type") != c.mediaType {
				t.Errorf("%s: %s %q, want %s %q", c.path, a.Header.Get("Content-Type"), a.Body, c.mediaType, c.content)
			}
			if got := a.Header.Get("Content-Security-Policy"); !strings.Contains(got, "sandbox") {
				t.Errorf("%s: Content-Security-Policy %q lets a browser act on it", c.path, got)
			}
		}
		for _, path := range []string{"demo/SKILL.md", "docs", "nothing", "skill.md"} {
			if a := ada.Get(registrytest.VersionPath(id, "1") + "/files/" + path); a.Status != http.StatusNotFound {
				t.Errorf("%s: status %d, want 404", path, a.Status)
			}
		}
		ada.Get(registrytest.VersionPath(id, "1")+"/files/nothing").WantErrorWith(http.StatusNotFound, "Version 1 has no file nothing")
		ada.Get(registrytest.VersionPath(id, "9")+"/files/SKILL.md").WantErrorWith(http.StatusNotFound, "Version 9 not found")
		ada.Get(registrytest.VersionPath(id, "1")+"/files/a%00b").WantIssueWith("", "the path is not valid text")
	})
}

func TestDiff(t *testing.T) {
	t.Parallel()
	one := registrytest.Skill(t, "A.", "gone.md", "old\n", "logo", "\x00one", "same", "same", "note", "a\nb\nc\n")
	two := registrytest.Skill(t, "A.", "added.md", "new\n", "empty", "", "logo", "\x00two", "same", "same", "note", "a\nB\nc\n")
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", one)
		ada.Pushed(id, "2", two)

		const want = `diff /dev/null b/added.md
--- /dev/null
+++ b/added.md
@@ -0,0 +1,1 @@
+new
diff /dev/null b/empty
diff a/gone.md /dev/null
--- a/gone.md
+++ /dev/null
@@ -1,1 +0,0 @@
-old
Binary files a/logo and b/logo differ
diff a/note b/note
--- a/note
+++ b/note
@@ -1,3 +1,3 @@
 a
-b
+B
 c
`
		path := func(version string) string { return registrytest.VersionPath(id, version) + "/diff" }
		a := ada.Get(path("2")).Want(http.StatusOK)
		if diff := cmp.Diff(want, string(a.Body)); diff != "" {
			t.Errorf("diff (-want +got):\n%s", diff)
		}
		if got := a.Header.Get("Content-Type"); got != "text/x-diff; charset=utf-8" {
			t.Errorf("Content-Type %q", got)
		}
		if from := ada.Get(path("2") + "?from=1").Want(http.StatusOK); string(from.Body) != want {
			t.Errorf("from=1 gave another diff:\n%s", from.Body)
		}
		first := string(ada.Get(path("1")).Want(http.StatusOK).Body)
		for _, line := range []string{"diff /dev/null b/SKILL.md\n", "+# Demo\n", "Binary files /dev/null and b/logo differ\n"} {
			if !strings.Contains(first, line) {
				t.Errorf("the diff of the first version lacks %q:\n%s", line, first)
			}
		}
		back := string(ada.Get(path("1") + "?from=2").Want(http.StatusOK).Body)
		if !strings.Contains(back, "-new\n") || !strings.Contains(back, "+old\n") {
			t.Errorf("the diff backwards:\n%s", back)
		}
		if same := ada.Get(path("2") + "?from=2").Want(http.StatusOK); len(same.Body) != 0 {
			t.Errorf("a version differs from itself:\n%s", same.Body)
		}
		ada.Get(path("2")+"?from=9").WantErrorWith(http.StatusNotFound, "Version 9 not found")
		ada.Get(path("9")).WantErrorWith(http.StatusNotFound, "Version 9 not found")
	})
}

// TestDiffOfLargeFile checks that a file over 1 MiB is named, not shown.
func TestDiffOfLargeFile(t *testing.T) {
	t.Parallel()
	large := registrytest.Skill(t, "A.", "large", hex.EncodeToString([]byte(registrytest.Noise(1<<19+1))))
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.Made("pdf", "1", large)
		ada.Pushed(id, "2", registrytest.Skill(t, "A."))
		got := string(ada.Get(registrytest.VersionPath(id, "2") + "/diff").Want(http.StatusOK).Body)
		if want := "Files a/large and /dev/null differ: a file is over 1 MiB\n"; got != want {
			t.Errorf("got %.200q, want %q", got, want)
		}
	})
}
