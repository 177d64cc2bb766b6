package compare_test

import (
	"bytes"
	"context"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/compare"
)

func pack(t *testing.T, files map[string]string) *skillpkg.Package {
	t.Helper()
	folder := fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: a\ndescription: b\n---\n"), Mode: 0o644}}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	var out bytes.Buffer
	options := skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()}
	if _, err := skillpkg.Pack(t.Context(), folder, &out, options); err != nil {
		t.Fatal(err)
	}
	p, err := skillpkg.Open(t.Context(), bytes.NewReader(out.Bytes()), int64(out.Len()), skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestPackages(t *testing.T) {
	old := pack(t, map[string]string{"a.txt": "one\ntwo\n", "b.bin": "\x00", "gone.txt": "bye\n", "same.txt": "same\n"})
	now := pack(t, map[string]string{"a.txt": "one\nthree\n", "b.bin": "\x00\x01", "empty.txt": "", "new.txt": "hi\n", "same.txt": "same\n"})
	got, err := compare.Packages(t.Context(), old, now)
	if err != nil {
		t.Fatal(err)
	}
	want := `diff a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 one
-two
+three
Binary files a/b.bin and b/b.bin differ
diff /dev/null b/empty.txt
diff a/gone.txt /dev/null
--- a/gone.txt
+++ /dev/null
@@ -1,1 +0,0 @@
-bye
diff /dev/null b/new.txt
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,1 @@
+hi
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("- want, + got:\n%s", diff)
	}
	if got, err := compare.Packages(t.Context(), old, old); err != nil || len(got) > 0 {
		t.Errorf("a package differs from itself: %q, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := compare.Packages(ended, old, now); err == nil {
		t.Error("no error after the context ended")
	}
}

func TestTexts(t *testing.T) {
	const want = "diff a/note b/note\n--- a/note\n+++ b/note\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
	if got := string(compare.Texts("note", "one\ntwo\n", "one\nthree\n")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := compare.Texts("note", "one\n", "one\n"); len(got) != 0 {
		t.Errorf("equal texts differ: %q", got)
	}
}
