package install_test

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/local/install"
)

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
