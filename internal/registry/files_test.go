package registry_test

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", pack(t,
			file("demo/SKILL.md", skillText("A.")), file("demo/page.html", "<script>alert(1)</script>"),
			file("demo/docs/a b+ü.md", "text"), file("demo/logo.png", "\x89PNG\x00"), file("demo/empty", "")))
		const plain, binary = "text/plain; charset=utf-8", "application/octet-stream"
		for _, c := range []struct{ path, mediaType, content string }{
			{"SKILL.md", plain, skillText("A.")},
			{"page.html", plain, "<script>alert(1)</script>"},
			{"docs/a%20b+%C3%BC.md", plain, "text"},
			{"logo.png", binary, "\x89PNG\x00"},
			{"empty", plain, ""},
		} {
			a := ada.get(versionPath(id, "1") + "/files/" + c.path).want(http.StatusOK)
			if string(a.body) != c.content || a.header.Get("Content-Type") != c.mediaType {
				t.Errorf("%s: %s %q, want %s %q", c.path, a.header.Get("Content-Type"), a.body, c.mediaType, c.content)
			}
			if got := a.header.Get("Content-Security-Policy"); !strings.Contains(got, "sandbox") {
				t.Errorf("%s: Content-Security-Policy %q lets a browser act on it", c.path, got)
			}
		}
		for _, path := range []string{"demo/SKILL.md", "docs", "nothing", "skill.md"} {
			if a := ada.get(versionPath(id, "1") + "/files/" + path); a.status != http.StatusNotFound {
				t.Errorf("%s: status %d, want 404", path, a.status)
			}
		}
		ada.get(versionPath(id, "1")+"/files/nothing").wantError(http.StatusNotFound, "Version 1 has no file nothing")
		ada.get(versionPath(id, "9")+"/files/SKILL.md").wantError(http.StatusNotFound, "Version 9 not found")
		ada.get(versionPath(id, "1")+"/files/a%00b").wantInvalid("", "the path is not valid text")
	})
}

func TestDiff(t *testing.T) {
	t.Parallel()
	one := skill(t, "A.", "gone.md", "old\n", "logo", "\x00one", "same", "same", "note", "a\nb\nc\n")
	two := skill(t, "A.", "added.md", "new\n", "empty", "", "logo", "\x00two", "same", "same", "note", "a\nB\nc\n")
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", one)
		ada.push(id, "2", two).want(http.StatusCreated)

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
		path := func(version string) string { return versionPath(id, version) + "/diff" }
		a := ada.get(path("2")).want(http.StatusOK)
		if diff := cmp.Diff(want, string(a.body)); diff != "" {
			t.Errorf("diff (-want +got):\n%s", diff)
		}
		if got := a.header.Get("Content-Type"); got != "text/x-diff; charset=utf-8" {
			t.Errorf("Content-Type %q", got)
		}
		if from := ada.get(path("2") + "?from=1").want(http.StatusOK); string(from.body) != want {
			t.Errorf("from=1 gave another diff:\n%s", from.body)
		}
		first := string(ada.get(path("1")).want(http.StatusOK).body)
		for _, line := range []string{"diff /dev/null b/SKILL.md\n", "+# Demo\n", "Binary files /dev/null and b/logo differ\n"} {
			if !strings.Contains(first, line) {
				t.Errorf("the diff of the first version lacks %q:\n%s", line, first)
			}
		}
		if back := string(ada.get(path("1") + "?from=2").want(http.StatusOK).body); !strings.Contains(back, "-new\n") || !strings.Contains(back, "+old\n") {
			t.Errorf("the diff backwards:\n%s", back)
		}
		if same := ada.get(path("2") + "?from=2").want(http.StatusOK); len(same.body) != 0 {
			t.Errorf("a version differs from itself:\n%s", same.body)
		}
		ada.get(path("2")+"?from=9").wantError(http.StatusNotFound, "Version 9 not found")
		ada.get(path("9")).wantError(http.StatusNotFound, "Version 9 not found")
	})
}

// TestDiffOfLargeFile checks that a file over 1 MiB is named, not shown.
func TestDiffOfLargeFile(t *testing.T) {
	t.Parallel()
	large := skill(t, "A.", "large", hex.EncodeToString([]byte(noise(1<<19+1))))
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		id := ada.made("pdf", "1", large)
		ada.push(id, "2", skill(t, "A.")).want(http.StatusCreated)
		got := string(ada.get(versionPath(id, "2") + "/diff").want(http.StatusOK).body)
		if want := "Binary files a/large and /dev/null differ\n"; got != want {
			t.Errorf("got %.200q, want %q", got, want)
		}
	})
}
