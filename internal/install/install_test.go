package install_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/install"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
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

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(t *testing.T, skill string)
		want []install.Edit
	}{
		{"none", func(*testing.T, string) {}, nil},
		{"changed", func(t *testing.T, skill string) { write(t, skill+"/SKILL.md", "mine") }, []install.Edit{{Path: "SKILL.md", Change: install.Changed}}},
		{"added", func(t *testing.T, skill string) { write(t, skill+"/notes/mine.md", "x") }, []install.Edit{{Path: "notes/mine.md", Change: install.Added}}},
		{"removed", func(t *testing.T, skill string) { remove(t, skill+"/docs") }, []install.Edit{{Path: "docs/old.md", Change: install.Removed}}},
		{
			"renamed", func(t *testing.T, skill string) { rename(t, skill+"/SKILL.md", skill+"/skill2.md") },
			[]install.Edit{{Path: "SKILL.md", Change: install.Removed}, {Path: "skill2.md", Change: install.Added}},
		},
		{
			"file became a link", func(t *testing.T, skill string) {
				rename(t, skill+"/SKILL.md", skill+".copy")
				symlink(t, skill+".copy", skill+"/SKILL.md")
			},
			[]install.Edit{{Path: "SKILL.md", Change: install.Changed}},
		},
		{
			"folder became a link", func(t *testing.T, skill string) {
				rename(t, skill, skill+".mine")
				symlink(t, skill+".mine", skill)
			},
			[]install.Edit{
				{Path: ".", Change: install.Added},
				{Path: "SKILL.md", Change: install.Removed},
				{Path: "docs/old.md", Change: install.Removed},
				{Path: "scripts/run.sh", Change: install.Removed},
			},
		},
		{"executable", func(t *testing.T, skill string) { chmod(t, skill+"/SKILL.md", 0o755) }, nil},
		{"empty folder", func(t *testing.T, skill string) { mkdir(t, skill+"/empty") }, nil},
		{
			"what systems leave behind", func(t *testing.T, skill string) {
				write(t, skill+"/.DS_Store", "x")
				write(t, skill+"/scripts/__pycache__/run.pyc", "x")
			}, nil,
		},
		{
			"what the user needs", func(t *testing.T, skill string) {
				write(t, skill+"/.env", "KEY=1")
				write(t, skill+"/scripts/.env.local", "KEY=2")
				write(t, skill+"/node_modules/a/index.js", "x")
				write(t, skill+"/.git/HEAD", "x")
			}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			put(t, f, first, "1.0.0", false)
			c.edit(t, filepath.Join(dir, "pdf"))
			state := inspect(t, dir)
			if diff := cmp.Diff(c.want, state.Edits); diff != "" {
				t.Errorf("edits (-want +got):\n%s", diff)
			}
			before := tree(t, dir)
			_, err := f.Install(t.Context(), "pdf", pack(t, second), record("2.0.0"), false)
			if c.want == nil {
				if err != nil || state.Condition != install.Clean {
					t.Errorf("got %v in state %+v, want an installation", err, state)
				}
				return
			}
			edited, ok := errors.AsType[*install.EditedError](err)
			if !ok || state.Condition != install.Modified || edited.Foreign || !cmp.Equal(edited.Edits, c.want) {
				t.Fatalf("got %v in state %+v, want the edits as an error", err, state)
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Errorf("a refused installation changed something (-before +after):\n%s", diff)
			}
		})
	}
}

// TestDigestOfEdits lets a server see that a folder has no version's content.
func TestDigestOfEdits(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), first, "1.0.0", false)
	clean := inspect(t, dir).Digest
	write(t, filepath.Join(dir, "pdf", "SKILL.md"), "mine")
	if edited := inspect(t, dir).Digest; edited == clean || len(edited) != 64 {
		t.Errorf("digest %q before and %q after an edit", clean, edited)
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	put(t, f, first, "1.0.0", false)
	remove(t, filepath.Join(dir, "pdf"))
	if s := inspect(t, dir); s.Condition != install.Missing || s.Digest != "" {
		t.Errorf("state %+v, want missing", s)
	}
	put(t, f, first, "1.0.0", false)
	wantTree(t, filepath.Join(dir, "pdf"), first)
	if s, err := install.Inspect(filepath.Join(dir, "none"), "pdf", record("1")); err != nil || s.Condition != install.Missing {
		t.Errorf("state %+v, %v without a folder, want missing", s, err)
	}
}

func TestForce(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	put(t, f, first, "1.0.0", false)
	mine := maps.Clone(first)
	mine["SKILL.md"], mine["notes.md"] = "mine", "mine"
	write(t, filepath.Join(dir, "pdf", "SKILL.md"), "mine")
	write(t, filepath.Join(dir, "pdf", "notes.md"), "mine")
	backup := put(t, f, second, "2.0.0", true)
	wantTree(t, filepath.Join(dir, "pdf"), second)
	wantTree(t, backup, mine)
	if filepath.Dir(backup) != filepath.Join(dir, ".whetstone", "backups") {
		t.Errorf("backup in %s", backup)
	}
	write(t, filepath.Join(dir, "pdf", "SKILL.md"), "mine again")
	if again := put(t, f, first, "1.0.0", true); again == backup {
		t.Errorf("the second backup replaced the first")
	}
	if backup := put(t, f, second, "2.0.0", true); backup != "" {
		t.Errorf("backup %s of what nobody edited", backup)
	}
	wantTidy(t, dir)
}

func TestForeignFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pdf", "SKILL.md"), "mine")
	write(t, filepath.Join(dir, "pdf", ".git", "HEAD"), "mine")
	f := open(t, dir)
	_, err := f.Install(t.Context(), "pdf", pack(t, first), record("1.0.0"), false)
	if edited, ok := errors.AsType[*install.EditedError](err); !ok || !edited.Foreign {
		t.Errorf("got %v, want it to be foreign", err)
	}
	backup := put(t, f, first, "1.0.0", true)
	wantTree(t, backup, files{"SKILL.md": "mine", ".git/HEAD": "mine"})
	wantTree(t, filepath.Join(dir, "pdf"), first)
}

// TestAdopt takes a folder that has the right content already, say from
// version control, whatever the lock file says.
func TestAdopt(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, f *install.Folder, dir string)
	}{
		{"unknown", func(*testing.T, *install.Folder, string) {}},
		{"known with other content", func(t *testing.T, f *install.Folder, dir string) {
			put(t, f, first, "1.0.0", false)
			remove(t, filepath.Join(dir, "pdf"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			c.prepare(t, f, dir)
			for path, text := range second {
				path, executable := strings.CutSuffix(path, "!")
				write(t, filepath.Join(dir, "pdf", path), text)
				if executable {
					chmod(t, filepath.Join(dir, "pdf", path), 0o755)
				}
			}
			f.Before(func(step string) { t.Errorf("step %q, want nothing to do", step) })
			if backup := put(t, f, second, "2.0.0", false); backup != "" {
				t.Errorf("backup %q", backup)
			}
			if s := inspect(t, dir); s.Condition != install.Clean || f.Skills()["pdf"].Version != "2.0.0" {
				t.Errorf("state %+v, lock file %+v", s, f.Skills())
			}
		})
	}
}

// TestUsersFiles stay where they are when a version comes that has none of them.
func TestUsersFiles(t *testing.T) {
	dir := t.TempDir()
	skill := filepath.Join(dir, "pdf")
	f := open(t, dir)
	put(t, f, first, "1.0.0", false)
	write(t, skill+"/.env", "KEY=1")
	write(t, skill+"/docs/deep/.env.local", "KEY=2")
	write(t, skill+"/node_modules/a/index.js", "x")
	write(t, skill+"/__pycache__/a.pyc", "x")
	if backup := put(t, f, second, "2.0.0", false); backup != "" {
		t.Errorf("backup %q", backup)
	}
	want := maps.Clone(second)
	want[".env"], want["docs/deep/.env.local"], want["node_modules/a/index.js"] = "KEY=1", "KEY=2", "x"
	wantTree(t, skill, want)
	wantTidy(t, dir)
	t.Run("unless they are in the way", func(t *testing.T) {
		third := files{"SKILL.md": "three", ".env": "KEY=example"}
		backup := put(t, f, third, "3.0.0", false)
		if got := tree(t, skill)[".env"]; got != "KEY=example" {
			t.Errorf(".env %q, want the package's", got)
		}
		if got := tree(t, backup)[".env"]; got != "KEY=1" {
			t.Errorf(".env %q in the backup, want the user's", got)
		}
	})
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
