package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
)

func TestDoctor(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, i installation)
		code    int
		want    map[string]invariants.Status // of what is not in order
		says    string                       // in a message
	}{
		{
			"healthy", func(*testing.T, installation) {}, term.ExitOK,
			map[string]invariants.Status{"secret key": invariants.Advice}, // the first start makes it
			"sqlite answers",
		},
		{
			"open to others", func(t *testing.T, i installation) { chmod(t, i.data, 0o755) }, term.ExitOK,
			map[string]invariants.Status{"data": invariants.Advice, "secret key": invariants.Advice},
			"chmod 700",
		},
		{
			"no folder", func(t *testing.T, i installation) { remove(t, i.data) }, term.ExitOK,
			map[string]invariants.Status{"data": invariants.Advice, "database": invariants.Advice},
			"`whetstone serve` makes it",
		},
		{
			"empty folder", func(t *testing.T, i installation) { empty(t, i.data) }, term.ExitOK,
			map[string]invariants.Status{"database": invariants.Advice},
			"whetstone.db does not exist yet",
		},
		{
			"file in place of the folder",
			func(t *testing.T, i installation) { remove(t, i.data); write(t, i.data, "x") }, term.ExitFailed,
			map[string]invariants.Status{"data": invariants.Broken, "database": invariants.Broken},
			"is not a folder; set --data",
		},
		{
			"spoilt database",
			func(t *testing.T, i installation) {
				empty(t, i.data)
				write(t, filepath.Join(i.data, "whetstone.db"), strings.Repeat("no database ", 1000))
			},
			term.ExitFailed,
			map[string]invariants.Status{"database": invariants.Broken},
			"check --database-url and --data",
		},
		{
			"blobs in the way",
			func(t *testing.T, i installation) { write(t, filepath.Join(i.data, "blobs"), "x") }, term.ExitFailed,
			map[string]invariants.Status{"blobs": invariants.Broken, "secret key": invariants.Advice},
			"check --blob-url",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstallation(t)
			chmod(t, i.data, 0o700)
			c.prepare(t, i)
			before := tree(t, i.data)
			r := i.run(t, "doctor", "--json")
			findings := map[string]invariants.Status{}
			var all []invariants.Finding
			r.decode(t, &all)
			for _, f := range all {
				// Not every machine that tests has a sandbox, or room.
				if f.Status != invariants.Good && f.Check != "sandbox" && f.Check != "disk" {
					findings[f.Check] = f.Status
				}
			}
			if diff := cmp.Diff(c.want, findings); diff != "" || r.code != c.code {
				t.Errorf("exit code %d, want %d; findings (-want +got):\n%s", r.code, c.code, diff)
			}
			if !strings.Contains(r.stdout, c.says) {
				t.Errorf("no %q in %s", c.says, r.stdout)
			}
			if c.name != "healthy" && c.name != "open to others" {
				if diff := cmp.Diff(before, tree(t, i.data)); diff != "" {
					t.Errorf("the doctor changed the installation (-before +after):\n%s", diff)
				}
			}
			if text := i.run(t, "doctor", "--verbose"); text.code != c.code || strings.Count(text.stdout, "\n") != len(all)+1 { // and the headings
				t.Errorf("for people: %+v", text)
			}
			bad := slices.DeleteFunc(all, func(f invariants.Finding) bool { return f.Status == invariants.Good })
			short := i.run(t, "doctor").stdout
			if strings.Contains(short, string(invariants.Good)+" ") || !strings.Contains(short, "found nothing wrong") ||
				len(bad) > 0 && strings.Count(short, "\n") != len(bad)+2 {
				t.Errorf("short: %s", short)
			}
		})
	}
}

func TestDoctorWithoutAnswer(t *testing.T) {
	r := installation{t.TempDir()}.run(t, "doctor", "--database-url", "postgres://ada:hunter2@127.0.0.1:1/w")
	if r.code != term.ExitFailed || !strings.Contains(r.stdout, "cannot be opened") {
		t.Errorf("got %+v, want a broken database", r)
	}
	if strings.Contains(r.stdout+r.stderr, "hunter2") {
		t.Errorf("the password is shown: %+v", r)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// empty makes a new folder in place of the old one.
func empty(t *testing.T, dir string) {
	t.Helper()
	remove(t, dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tree lists what is in the folder, without what SQLite keeps beside a
// database that is open.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		if !strings.HasSuffix(path, "-wal") && !strings.HasSuffix(path, "-shm") {
			names = append(names, path)
		}
		return nil
	})
	return names
}
