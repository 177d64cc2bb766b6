package install_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// files are the paths and contents of a skill; a path that ends in ! is that
// of an executable file.
type files map[string]string

var (
	first = files{
		"SKILL.md": "---\nname: pdf\ndescription: one\n---\n", "scripts/run.sh!": "echo one\n", "docs/old.md": "gone later\n",
	}
	second = files{
		"SKILL.md": "---\nname: pdf\ndescription: two\n---\n", "scripts/run.sh!": "echo one\n", "docs/new.md": "came later\n",
	}
)

func pack(t testing.TB, content files) *skillpkg.Package {
	t.Helper()
	fsys := fstest.MapFS{}
	for path, text := range content {
		mode := fs.FileMode(0o644)
		path, executable := strings.CutSuffix(path, "!")
		if executable {
			mode = 0o755
		}
		fsys[path] = &fstest.MapFile{Data: []byte(text), Mode: mode}
	}
	// What Pack leaves out is brought back, so that a test can say what it means.
	fsys[".skillignore"] = &fstest.MapFile{Data: []byte("!.env*\n.skillignore\n"), Mode: 0o644}
	var archive bytes.Buffer
	limits := skillpkg.DefaultLimits()
	if _, err := skillpkg.Pack(t.Context(), fsys, &archive, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: limits}); err != nil {
		t.Fatal(err)
	}
	pkg, err := skillpkg.Read(t.Context(), &archive, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pkg.Close() })
	return pkg
}

func open(t testing.TB, dir string) *install.Folder {
	t.Helper()
	f, err := install.Open(t.Context(), dir, func() { t.Error("the folder is busy") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func record(version string) install.Record {
	return install.Record{
		Server: "http://127.0.0.1:8080", EntryID: "0199", Version: version, ContentHash: "hash of " + version,
		InstalledAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// put installs a version with force or without, and returns the backup.
func put(t testing.TB, f *install.Folder, content files, version string, force bool) string {
	t.Helper()
	backup, err := f.Install(t.Context(), "pdf", pack(t, content), record(version), force)
	if err != nil {
		t.Fatal(err)
	}
	return backup
}

// tree reads all files below a folder, the way files are written above.
func tree(t testing.TB, dir string) files {
	t.Helper()
	found := files{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			found[name] = "-> " + target
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o111 != 0 {
			name += "!"
		}
		content, err := os.ReadFile(path)
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantTree(t testing.TB, dir string, want files) {
	t.Helper()
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", dir, diff)
	}
}

// wantTidy checks that nothing half done is left in the folder.
func wantTidy(t testing.TB, dir string) {
	t.Helper()
	for name := range tree(t, filepath.Join(dir, ".whetstone")) {
		if name != "busy" && name != ".gitignore" && !strings.HasPrefix(name, "backups/") {
			t.Errorf(".whetstone/%s was left behind", name)
		}
	}
	for _, name := range []string{".whetstone/new", ".whetstone/old"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was left behind", name)
		}
	}
	temps, err := filepath.Glob(filepath.Join(dir, ".whetstone-*.tmp"))
	if err != nil || len(temps) > 0 {
		t.Errorf("left behind: %q, %v", temps, err)
	}
}

func inspect(t testing.TB, dir string) install.State {
	t.Helper()
	skills, err := install.ReadLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	state, err := install.Inspect(dir, "pdf", skills["pdf"])
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	f := open(t, dir)
	if backup := put(t, f, first, "1.0.0", false); backup != "" {
		t.Errorf("backup %q of nothing", backup)
	}
	wantTree(t, filepath.Join(dir, "pdf"), first)
	put(t, f, second, "2.0.0", false)
	wantTree(t, filepath.Join(dir, "pdf"), second)
	wantTidy(t, dir)
	if s := inspect(t, dir); s.Condition != install.Clean || len(s.Edits) != 0 || len(s.Digest) != 64 {
		t.Errorf("state %+v, want clean", s)
	}
	if got := f.Skills()["pdf"]; got.Version != "2.0.0" || len(got.Files) != 3 {
		t.Errorf("lock file has %+v", got)
	}
	put(t, f, first, "1.0.0", false) // back again
	wantTree(t, filepath.Join(dir, "pdf"), first)
}

func TestInstallOnlyMode(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	put(t, f, files{"SKILL.md": "x", "run.sh": "y"}, "1.0.0", false)
	put(t, f, files{"SKILL.md": "x", "run.sh!": "y"}, "1.0.1", false)
	wantTree(t, filepath.Join(dir, "pdf"), files{"SKILL.md": "x", "run.sh!": "y"})
}

// TestLockFile has the form that version control and people want.
func TestLockFile(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	pinned := record("1.0.0")
	pinned.Pinned = true
	if _, err := f.Install(t.Context(), "zip", pack(t, files{"SKILL.md": "z", "a & b.md": ""}), pinned, false); err != nil {
		t.Fatal(err)
	}
	put(t, f, files{"SKILL.md": "p"}, "2.0.0", false)
	got, err := os.ReadFile(filepath.Join(dir, install.LockName))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "skills": {
    "pdf": {
      "content_hash": "hash of 2.0.0",
      "entry_id": "0199",
      "files": {
        "SKILL.md": "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940"
      },
      "installed_at": "2026-01-02T03:04:05Z",
      "server": "http://127.0.0.1:8080",
      "version": "2.0.0"
    },
    "zip": {
      "content_hash": "hash of 1.0.0",
      "entry_id": "0199",
      "files": {
        "SKILL.md": "594e519ae499312b29433b7dd8a97ff068defcba9755b6d5d00e84c524d67b06",
        "a & b.md": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
      },
      "installed_at": "2026-01-02T03:04:05Z",
      "pinned": true,
      "server": "http://127.0.0.1:8080",
      "version": "1.0.0"
    }
  },
  "version": 1
}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("lock file (-want +got):\n%s", diff)
	}
}

func TestLockFileRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", "<<<<<<< HEAD", "is not a lock file"},
		{"of the future", `{"version":2,"skills":{}}`, "has the form 2"},
		{"way out", `{"version":1,"skills":{"../../.ssh":{}}}`, `has a skill "../../.ssh"`},
		{"absolute", `{"version":1,"skills":{"/etc":{}}}`, `has a skill "/etc"`},
		{"our own", `{"version":1,"skills":{".whetstone":{}}}`, `has a skill ".whetstone"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, install.LockName), c.text)
			for _, read := range []func() error{
				func() error { _, err := install.ReadLock(dir); return err },
				func() error { _, err := install.Open(t.Context(), dir, func() {}); return err },
			} {
				if err := read(); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want a conflict that says %q", err, c.want)
				}
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		if skills, err := install.ReadLock(filepath.Join(t.TempDir(), "none")); err != nil || len(skills) != 0 {
			t.Errorf("got %v, %v, want no skills", skills, err)
		}
	})
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"pdf", "pdf-tables", "PDF 2.0", "été", "console", "com10", "a..b"} {
		if err := install.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".whetstone", ".hidden", "a/b", `a\b`, "a\x00", "a\n", "c:", "con", "NUL.txt", "com1", "dot.", " space", "space ",
		strings.Repeat("a", 201), "\xff", "a*",
	} {
		if err := install.CheckName(name); !fault.Is(err, fault.Malformed) {
			t.Errorf("%q: %v, want it refused", name, err)
		}
	}
}

func TestNameTaken(t *testing.T) {
	f := open(t, t.TempDir())
	put(t, f, first, "1.0.0", false)
	if _, err := f.Install(t.Context(), "PDF", pack(t, second), record("1"), true); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if _, err := f.Install(t.Context(), "../pdf", pack(t, second), record("1"), true); !fault.Is(err, fault.Malformed) {
		t.Errorf("got %v, want the name refused", err)
	}
}

// TestBusy has two processes' worth of folders: locks are per open file.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	f, err := install.Open(t.Context(), dir, func() {})
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	opened := make(chan error)
	go func() {
		g, err := install.Open(t.Context(), dir, func() { close(waits) })
		if err == nil {
			err = g.Close()
		}
		opened <- err
	}()
	<-waits
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("got %v after the first was closed", err)
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func chmod(t testing.TB, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
