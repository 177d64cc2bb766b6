package skillpkg_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Whatever the bytes, reading them ends in a refusal, or in a package that is
// within the limits and unpacks below its folder only. Bytes that are neither
// gzip nor zip are taken for a tar: behind gzip's checksum no fuzzer gets at it.
func FuzzRead(f *testing.F) {
	for _, c := range hostiles(f) {
		if len(c.data) < 64<<10 {
			f.Add(c.data)
		}
	}
	good := []member{file("w/SKILL.md", skillText), file("w/a/b", "x"), symlink("w/l", "a"), symlink("w/a/c", "../SKILL.md")}
	f.Add(makeTarGz(f, good...))
	f.Add(makeZip(f, good...))
	f.Add(makeTar(f, append(good, file("w/d", "x"), hardLink("w/e", "w/d"))...))
	f.Add(append(append(tarHeader("h", 'x', 512), padded(pax("path", "a/b"))...), makeTar(f, file("x", "y"))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) && !bytes.HasPrefix(data, []byte("PK")) {
			data = compress(t, data)
		}
		limits := tight()
		p, err := skillpkg.Read(t.Context(), bytes.NewReader(data), limits)
		if err != nil {
			if _, ok := errors.AsType[*skillpkg.Error](err); !ok {
				t.Fatalf("got %v, want an *Error", err)
			}
			return
		}
		defer func() { _ = p.Close() }()
		checkLimits(t, p, limits)
		checkUnpacks(t, p)
		checkPicks(t, p, data)
		archive, err := p.Repack(t.Context(), skillpkg.Zip)
		if err != nil {
			t.Error(err)
		}
		_ = archive.Close() // it was only written
	})
}

// checkPicks finds every file by its digest, without the package.
func checkPicks(t *testing.T, p *skillpkg.Package, data []byte) {
	t.Helper()
	found, err := takeAll(t, bytes.NewReader(data), tight())
	for _, f := range p.Files {
		if _, ok := found[f.SHA256]; f.Kind == skillpkg.Regular && !ok {
			t.Errorf("%s was not picked: %v", f.Path, err)
		}
	}
}

func checkLimits(t *testing.T, p *skillpkg.Package, limits skillpkg.Limits) {
	t.Helper()
	total := int64(0)
	for _, f := range p.Installed() {
		total += f.Size
		if f.Size > limits.File || len(f.Path) > limits.PathLength || strings.Count(f.Path, "/") >= limits.Depth ||
			!filepath.IsLocal(f.Path) {
			t.Errorf("accepted %+v", f)
		}
	}
	if total > limits.Unpacked || len(p.Installed()) > limits.Files || len(p.Files) > limits.Files {
		t.Errorf("accepted %d files of %d bytes", len(p.Installed()), total)
	}
}

// checkUnpacks unpacks into one of two folders and looks at what is there.
func checkUnpacks(t *testing.T, p *skillpkg.Package) {
	t.Helper()
	parent := t.TempDir()
	inside := filepath.Join(parent, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if err := skillpkg.Unpack(t.Context(), p, root); err != nil {
		// A segment may be longer than the file system allows.
		t.Skip(err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 {
		t.Fatalf("wrote outside of the folder: %v, %v", entries, err)
	}
	for _, f := range p.Installed() {
		info, err := root.Lstat(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() || info.Size() != f.Size || info.Mode().Perm() != f.Mode {
			t.Errorf("got %v of %d bytes, want %+v", info.Mode(), info.Size(), f)
		}
	}
}

// Whatever the text, parsing ends soon and in an *Error or a Skill whose body
// is the end of the file.
func FuzzParseSkill(f *testing.F) {
	for _, seed := range []string{
		skillText,
		"\ufeff---\r\nname: a\r\n---\r\nbody",
		"---\nname: &a b\nmetadata: {x: *a, y: [1, 2]}\n---\n",
		"---\ndescription: Use when: now\nx: |\n  a: b: c\n---\n",
		"---\n? [a]\n: b\n---\n",
		"---\n<<: &a {b: c}\n---\n",
		"---\n" + aliasBomb() + "---\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		skill, err := skillpkg.ParseSkill(raw)
		if err != nil {
			if _, ok := errors.AsType[*skillpkg.Error](err); !ok {
				t.Fatalf("got %v, want an *Error", err)
			}
			return
		}
		if text := strings.ReplaceAll(string(raw), "\r\n", "\n"); !strings.HasSuffix(text, skill.Body) {
			t.Errorf("the body %q is not the end of the file", skill.Body)
		}
	})
}
