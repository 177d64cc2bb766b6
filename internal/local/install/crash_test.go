package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "install-and-die" {
		installAndDie(os.Args[2], os.Args[3])
	}
	os.Exit(m.Run())
}

// installAndDie installs the archive on standard input with force, and is
// killed before the step of that number. It ends well if there is none.
func installAndDie(dir, number string) {
	ctx := context.Background()
	pkg, err := skillpkg.Read(ctx, os.Stdin, skillpkg.DefaultLimits())
	if err != nil {
		panic(err)
	}
	f, err := install.Open(ctx, dir, func() {})
	if err != nil {
		panic(err)
	}
	steps := 0
	f.Before(func(name string) {
		if steps++; fmt.Sprint(steps) == number {
			fmt.Println(name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	if _, err := f.Install(ctx, "pdf", pkg, record("2.0.0"), true); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// crash runs installAndDie and returns the step at which it died, or "".
func crash(t *testing.T, dir string, number int, archive io.Reader) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "install-and-die", dir, fmt.Sprint(number))
	cmd.Stdin = archive
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return strings.TrimSpace(string(out))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

// TestCrash kills the process before every step of an installation: the next
// one finds the skill as it was or as it should be, and nothing in between.
func TestCrash(t *testing.T) {
	archive, err := pack(t, second).Repack(t.Context(), skillpkg.TarGz)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	users := files{".env": "KEY=1", "scripts/.env": "KEY=2"}
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, skill string)
		keeps   files // of the user, beside the new files
		edited  bool
		steps   []string
	}{
		{
			"first installation", func(t *testing.T, skill string) {
				remove(t, skill)
				remove(t, filepath.Join(filepath.Dir(skill), install.LockName))
			}, nil, false,
			[]string{"unpack", "journal", "move away", "move in", "lock file", "dispose", "end"},
		},
		{
			"update", func(t *testing.T, skill string) {
				for path, text := range users {
					write(t, filepath.Join(skill, path), text)
				}
			}, users, false,
			[]string{"unpack", "journal", "move away", "carry", "carry", "move in", "lock file", "dispose", "end"},
		},
		{
			"over edits", func(t *testing.T, skill string) { write(t, skill+"/SKILL.md", "mine") }, nil, true,
			[]string{"unpack", "journal", "move away", "move in", "lock file", "dispose", "end"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := 1; ; n++ {
				dir := t.TempDir()
				skill := filepath.Join(dir, "pdf")
				f := open(t, dir)
				put(t, f, first, "1.0.0", false)
				if err := f.Close(); err != nil { // else the other process waits
					t.Fatal(err)
				}
				c.prepare(t, skill)
				before := treeIfAny(t, skill)
				after := maps.Clone(second)
				maps.Copy(after, c.keeps)

				step := crash(t, dir, n, archive.Reader())
				if want := append(c.steps, "")[n-1]; step != want {
					t.Fatalf("died before %q, want %q", step, want)
				}
				f = open(t, dir)
				got := treeIfAny(t, skill)
				wantTidy(t, dir)
				switch version := f.Skills()["pdf"].Version; {
				case cmp.Equal(got, before) && version != "2.0.0":
				case cmp.Equal(got, after) && version == "2.0.0":
					if s := inspect(t, dir); s.Condition != install.Clean {
						t.Errorf("%s: state %+v, want clean", step, s)
					}
					wantBackup(t, dir, c.edited, before)
				default:
					t.Errorf("%s: version %q and %v, want all of the old or all of the new", step, version, got)
				}
				put(t, f, second, "2.0.0", true) // and it works from here on
				if diff := cmp.Diff(after, treeIfAny(t, skill)); diff != "" {
					t.Errorf("%s: installed again (-want +got):\n%s", step, diff)
				}
				if step == "" {
					return
				}
			}
		})
	}
}

func treeIfAny(t *testing.T, dir string) files {
	t.Helper()
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return files{}
	}
	return tree(t, dir)
}

func wantBackup(t *testing.T, dir string, wanted bool, content files) {
	t.Helper()
	backups, err := filepath.Glob(filepath.Join(dir, ".whetstone", "backups", "*"))
	if err != nil || (len(backups) == 1) != wanted {
		t.Fatalf("backups %q, %v; want one: %v", backups, err, wanted)
	}
	if wanted {
		wantTree(t, backups[0], content)
	}
}

// TestHalfDone has states that a crash of another program leaves.
func TestHalfDone(t *testing.T) {
	t.Run("an old folder of nobody", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir+"/.whetstone/old/SKILL.md", "precious")
		open(t, dir)
		wantTidy(t, dir)
		wantBackup(t, dir, true, files{"SKILL.md": "precious"})
	})
	t.Run("a new folder where the old one should go back", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir+"/.whetstone/journal.json", `{"name":"pdf"}`)
		write(t, dir+"/.whetstone/new/SKILL.md", "new")
		write(t, dir+"/.whetstone/old/SKILL.md", "old")
		write(t, dir+"/pdf/SKILL.md", "by hand")
		open(t, dir)
		wantTidy(t, dir)
		wantTree(t, dir+"/pdf", files{"SKILL.md": "by hand"})
		wantBackup(t, dir, true, files{"SKILL.md": "old"})
	})
	t.Run("half of the old folder removed", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir+"/.whetstone/journal.json", `{"name":"pdf","record":{"version":"2.0.0"}}`)
		write(t, dir+"/.whetstone/old/half.md", "old")
		write(t, dir+"/pdf/SKILL.md", "new")
		if got := open(t, dir).Skills()["pdf"].Version; got != "2.0.0" {
			t.Errorf("version %q", got)
		}
		wantTidy(t, dir)
	})
	t.Run("half-written files", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir+"/.whetstone-X.tmp", "{")
		write(t, dir+"/.whetstone/.whetstone-X.tmp", "{")
		open(t, dir)
		wantTidy(t, dir)
	})
}

// TestHostileFolder is a folder that came with an untrusted repository.
func TestHostileFolder(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir, outside string)
	}{
		{"journal with a way out", func(t *testing.T, dir, _ string) {
			write(t, dir+"/.whetstone/journal.json", `{"name":"../outside"}`)
		}},
		{"journal that carries from outside", func(t *testing.T, dir, _ string) {
			write(t, dir+"/.whetstone/journal.json", `{"name":"pdf","carry":["../../../outside/secret"]}`)
			write(t, dir+"/.whetstone/new/a", "")
			write(t, dir+"/.whetstone/old/a", "")
		}},
		{"journal with a backup outside", func(t *testing.T, dir, _ string) {
			write(t, dir+"/.whetstone/journal.json", `{"name":"pdf","backup":"../outside/x"}`)
		}},
		{"journal of nonsense", func(t *testing.T, dir, _ string) {
			write(t, dir+"/.whetstone/journal.json", `{`)
		}},
		{"state folder is a link", func(t *testing.T, dir, outside string) {
			symlink(t, outside, dir+"/.whetstone")
		}},
		{"new folder is a link", func(t *testing.T, dir, outside string) {
			write(t, dir+"/.whetstone/journal.json", `{"name":"pdf","carry":["secret"]}`)
			write(t, dir+"/.whetstone/old/a", "")
			symlink(t, outside, dir+"/.whetstone/new")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := t.TempDir()
			dir, outside := filepath.Join(top, "skills"), filepath.Join(top, "outside")
			write(t, outside+"/secret", "mine")
			write(t, outside+"/new/a", "mine")
			mkdir(t, dir)
			c.prepare(t, dir, outside)
			before := tree(t, outside)
			if _, err := install.Open(t.Context(), dir, func() {}); err == nil {
				t.Error("the folder was opened")
			}
			if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
				t.Errorf("outside (-before +after):\n%s", diff)
			}
		})
	}
}
