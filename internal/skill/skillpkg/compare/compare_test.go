package compare_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// files are a package: contents by path.
type files map[string]string

func (f files) manifest() (all []skillpkg.ManifestEntry) {
	for _, path := range slices.Sorted(maps.Keys(f)) {
		all = append(all, skillpkg.ManifestEntry{Path: path, Hash: digest(f[path]), Size: int64(len(f[path]))})
	}
	return all
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// diff compares two packages, and hands out only what the plan asks for.
func diff(ctx context.Context, before, after files) (string, error) {
	plan := compare.NewPlan(before.manifest(), after.manifest())
	contents := map[string][]byte{}
	for side, wanted := range map[*files]map[string]int64{&before: plan.Before, &after: plan.After} {
		for _, content := range *side {
			if size, ok := wanted[digest(content)]; ok && size == int64(len(content)) {
				contents[digest(content)] = []byte(content)
			}
		}
	}
	got, err := plan.Diff(ctx, contents)
	return string(got), err
}

func TestDiff(t *testing.T) {
	old := files{"a.txt": "one\ntwo\n", "b.bin": "\x00", "gone.txt": "bye\n", "same.txt": "same\n"}
	now := files{"a.txt": "one\nthree\n", "b.bin": "\x00\x01", "empty.txt": "", "new.txt": "hi\n", "same.txt": "same\n"}
	got, err := diff(t.Context(), old, now)
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("- want, + got:\n%s", diff)
	}
	if got, err := diff(t.Context(), old, old); err != nil || len(got) > 0 {
		t.Errorf("a package differs from itself: %q, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := diff(ended, old, now); err == nil {
		t.Error("no error after the context ended")
	}
}

// numbered are lines, each another.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestDiffIsBounded compares packages that differ as much as they can.
func TestDiffIsBounded(t *testing.T) {
	many, other := files{}, files{}
	before, after := numbered(5_000, "%d a\n"), numbered(5_000, "%d b\n")
	for i := range 1000 {
		path := fmt.Sprintf("%s-%d", strings.Repeat("p", 400), i)
		many[path], other[path] = fmt.Sprint(i, before), fmt.Sprint(i, after)
	}
	for name, c := range map[string]struct {
		before, after files
		want          []string
	}{
		"unrelated files of 1 MiB": {
			files{"a": numbered(25_000, "%037d aaa\n")[:1<<20-1] + "\n"},
			files{"a": numbered(24_000, "%038d bbb\n")[:1_000_000]},
			[]string{"-0000000000000000000000000000000000000 aaa\n", "+00000000000000000000000000000000000000 bbb\n"},
		},
		"short lines":     {files{"a": strings.Repeat("a\n", 1<<19)}, files{"a": strings.Repeat("b\n", 1<<19)}, []string{"Files a/a and b/a differ: more than 50,000 lines\n"}},
		"many files":      {many, other, []string{"diff a/p", "Files a/p", " differ: the changes of all files are over 2 MiB\n"}},
		"over 1 MiB":      {files{"a": strings.Repeat("a", 1<<20+1)}, files{}, []string{"Files a/a and /dev/null differ: a file is over 1 MiB\n"}},
		"at the limits":   {files{"a": numbered(25_000, "%018d\n")}, files{"a": numbered(25_000, "%017d.\n")}, []string{"-000000000000024999\n", "+00000000000024999.\n"}},
		"small after all": {files{"a": strings.Repeat("a\n", 1<<19), "b": "x\n"}, files{"b": "y\n"}, []string{"Files a/a", "-x\n+y\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var start, end runtime.MemStats
			runtime.ReadMemStats(&start)
			got, err := diff(t.Context(), c.before, c.after)
			runtime.ReadMemStats(&end)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%.200q does not contain %q", got, want)
				}
			}
			if most := 2<<20 + 2000*1_100; len(got) > most {
				t.Errorf("the diff has %d bytes, want at most %d", len(got), most)
			}
			if used := end.TotalAlloc - start.TotalAlloc; len(c.before) == 1 && used > compare.MaxMemory {
				t.Errorf("%d MiB were allocated, want at most %d", used>>20, compare.MaxMemory>>20)
			}
		})
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
