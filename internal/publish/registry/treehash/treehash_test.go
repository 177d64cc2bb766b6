package treehash_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// packed makes a package of files: path, content, path, content...
func packed(t *testing.T, files ...string) *skillpkg.Package {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := skillpkg.Read(t.Context(), &b, skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func hashes(t *testing.T, p *skillpkg.Package) map[treehash.Kind]string {
	t.Helper()
	all, err := treehash.Of(p, "a")
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[treehash.Kind]string{}
	for _, h := range slices.Backward(all) { // the first of a kind is that of its newest client
		byKind[h.Kind] = h.Hex
	}
	return byKind
}

var two = []string{"SKILL.md", "---\nname: a\n---\n", "scripts/x.sh", "echo hi\n"}

// TestOf has the values that the clients' own programs compute.
func TestOf(t *testing.T) {
	t.Parallel()
	want := map[treehash.Kind]string{
		treehash.ClawHub:       "52e0a96a4f749666593447e69292abd777c62eded15d2c3912f690643cf995e0",
		treehash.ClawHubSource: "ed0815a60869f1c2192b1c8cc1859b4bc592388bd4ba3e8ed4037c8322bfdeba",
		treehash.SkillsLock:    "ea7dc7213262b38d355b217a43c843f781ccd040d0610c82175c53b710937534",
		treehash.WellKnown:     "4a543a66ed7114997945ca4f3eb7d6d7ff2f656fdf963486461113d8d35a1518",
		treehash.ToolHive:      treehash.Parse(treehash.ToolHive, "sha256:ce5696f810501599b3978fc9dc01b40fa51e224ca03021fe2fb27f7f29a584a2"),
		treehash.DirHash:       treehash.Parse(treehash.DirHash, "h1:W3wFdP+PpDuY/VW8IztquG8FGfRiGyf38z0thUWiHNs="),
		treehash.Plugin:        "653bd71944f887d93512fe1a340da72e62a1198f524b8b289ce37f94a1930c0f",
		treehash.GitTree:       "2c665218c1269e0229479ad9cc8b5033eaa82f67", // git write-tree
	}
	if diff := cmp.Diff(want, hashes(t, packed(t, two...))); diff != "" {
		t.Errorf("(- want, + got):\n%s", diff)
	}
}

// TestOmitted adds files that some clients do not look at.
func TestOmitted(t *testing.T) {
	t.Parallel()
	plain := hashes(t, packed(t, two...))
	for _, c := range []struct {
		path string
		same []treehash.Kind
	}{
		{".hidden", []treehash.Kind{treehash.ClawHub, treehash.ClawHubSource}},
		{"docs/.x/y", []treehash.Kind{treehash.ClawHub, treehash.ClawHubSource}},
		{"node_modules/x", []treehash.Kind{treehash.ClawHub, treehash.ClawHubSource, treehash.SkillsLock}},
		{".git/x", []treehash.Kind{treehash.ClawHub, treehash.ClawHubSource, treehash.SkillsLock}},
		{"x", nil},
	} {
		var same []treehash.Kind
		with := hashes(t, packed(t, append([]string{c.path, "x"}, two...)...))
		for _, kind := range []treehash.Kind{
			treehash.ClawHub, treehash.ClawHubSource, treehash.SkillsLock, treehash.WellKnown, treehash.ToolHive, treehash.DirHash,
		} {
			if with[kind] == plain[kind] {
				same = append(same, kind)
			}
		}
		if diff := cmp.Diff(c.same, same); diff != "" {
			t.Errorf("with %s (- want, + got):\n%s", c.path, diff)
		}
	}
}

// TestOrder has an order that was taken from localeCompare of a JavaScript engine.
func TestOrder(t *testing.T) {
	t.Parallel()
	paths := []string{
		"_x", "~y", "1", "a_b", "a-b", "a.b", "a/c", "a+b", "a1",
		"ab", "Ac/d", "README.md", "references/x.md", "scripts/a.sh", "scripts/B.sh", "SKILL.md", "Zeta",
	}
	var files, lines []string
	for _, path := range paths {
		files = append(files, path, path)
		sum := sha256.Sum256([]byte(path))
		lines = append(lines, path+":"+hex.EncodeToString(sum[:]))
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	if got, want := hashes(t, packed(t, files...))[treehash.ClawHub], hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestOlder has what releases of clawhub compute that look at text only.
func TestOlder(t *testing.T) {
	t.Parallel()
	all, err := treehash.Of(packed(t, append([]string{"a.dat", "x", "LICENSE", "y", "logo.png", "z"}, two...)...), "a")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range all {
		if h.Kind == treehash.ClawHub {
			got = append(got, h.Hex)
		}
	}
	want := []string{
		hashes(t, packed(t, append([]string{"a.dat", "x", "LICENSE", "y", "logo.png", "z"}, two...)...))[treehash.ClawHub],
		hashes(t, packed(t, two...))[treehash.ClawHub],
		hashes(t, packed(t, append([]string{"a.dat", "x", "LICENSE", "y"}, two...)...))[treehash.ClawHub],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- want, + got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	const digest = "ce5696f810501599b3978fc9dc01b40fa51e224ca03021fe2fb27f7f29a584a2"
	for _, c := range []struct {
		kind       treehash.Kind
		text, want string
	}{
		{treehash.ClawHub, digest, digest},
		{treehash.ClawHub, strings.ToUpper(digest), digest},
		{treehash.WellKnown, "sha256:" + digest, digest},
		{treehash.ToolHive, "sha256-zlaW-BBQFZmzl4_J3AG0D6UeIkygMCH-L7J_fymlhKI", digest},
		{treehash.ClawHub, "", ""},
		{treehash.ClawHub, digest[1:], ""},
		{treehash.ClawHub, digest + "00", ""},
		{treehash.ClawHub, "' OR 1=1 --", ""},
		{treehash.DirHash, "h1:", ""},
		{treehash.ToolHive, "sha256-!", ""},
	} {
		if got := treehash.Parse(c.kind, c.text); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.kind, c.text, got, c.want)
		}
	}
}
