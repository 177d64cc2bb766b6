package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// checkedFolder makes a folder named pdf with a good skill, and changes it.
func checkedFolder(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pdf")
	put(t, dir, "SKILL.md", "---\nname: pdf\ndescription: Extracts tables from PDF files. Use when the user asks for tables.\n---\n\nRun the script.\n")
	put(t, dir, "evals/evals.json", `{"evals": [{"prompt": "p", "expectations": ["e"]}]}`)
	for path, text := range changes {
		put(t, dir, path, text)
	}
	return dir
}

func TestCheck(t *testing.T) {
	const (
		warned = "[guide](guide.md)\n"
		failed = "os.system(f\"ls {name}\")\n"
	)
	for _, c := range []struct {
		name    string
		changes map[string]string
		args    []string
		code    int
		want    string
	}{
		{"good", nil, nil, term.ExitOK, "0 errors, 0 warnings, 0 notes: pass\n"},
		{"left out", map[string]string{".env": "x", "drafts/a.py": failed, ".skillignore": "drafts/\n"}, nil, term.ExitOK, "0 errors, 0 warnings, 0 notes: pass\n"},
		{"warning", map[string]string{"notes.md": warned}, nil, term.ExitOK, "notes.md:1  warning  qual.link.broken  The link leads to no file of the skill.\n" +
			"    | guide.md\n    Fix the link, or add the file.\n0 errors, 1 warning, 0 notes: warn\n"},
		{"strict", map[string]string{"notes.md": warned}, []string{"--strict"}, term.ExitFailed, ""},
		{"strict and good", nil, []string{"--strict"}, term.ExitOK, ""},
		{"error", map[string]string{"scripts/a.py": failed}, nil, term.ExitFailed, "scripts/a.py:1  error  sec.exec.os_system  A command is built as text and given to a shell.\n" +
			"    | os.system(f\"ls {name}\")\n    Start the program with a list of arguments.\n1 error, 0 warnings, 0 notes: fail\n"},
		{
			"other folder",
			map[string]string{"SKILL.md": "---\nname: word\ndescription: Extracts tables from PDF files. Use when the user asks for tables.\n---\n\nRun it.\n"},
			nil, term.ExitOK,
			"SKILL.md:2  warning  spec.name.directory_mismatch  The folder is \"pdf\" and the name is \"word\".\n    Give the folder the name of the skill.\n0 errors, 1 warning, 0 notes: warn\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, append([]string{"check", checkedFolder(t, c.changes)}, c.args...)...)
			if r.code != c.code || r.stderr != "" {
				t.Errorf("exit code %d and %q, want %d", r.code, r.stderr, c.code)
			}
			if diff := cmp.Diff(c.want, r.stdout); c.want != "" && diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckHere(t *testing.T) {
	t.Chdir(checkedFolder(t, nil))
	if r := run(t, "check"); r.code != term.ExitOK {
		t.Errorf("got %+v", r)
	}
}

func TestCheckJSON(t *testing.T) {
	var got map[string]any
	r := run(t, "check", checkedFolder(t, map[string]string{"scripts/a.py": "os.system(f\"ls {name}\")\n"}), "--json")
	r.decode(t, &got)
	apptest.WantKeys(t, got, "engine", "status", "counts", "findings")
	apptest.WantKeys(t, got["counts"].(map[string]any), "error", "warning", "info")
	apptest.WantKeys(t, got["findings"].([]any)[0].(map[string]any), "code", "category", "severity", "path", "line", "message", "evidence", "remediation")
	if r.code != term.ExitFailed || got["status"] != "fail" {
		t.Errorf("exit code %d and status %v, want 1 and fail", r.code, got["status"])
	}
}

func TestCheckSARIF(t *testing.T) {
	dir := checkedFolder(t, map[string]string{"scripts/a.py": "os.system(f\"ls {name}\")\n"})
	t.Chdir(filepath.Dir(dir))
	r := run(t, "check", "pdf", "--sarif")
	var log struct{ Version string }
	r.decode(t, &log)
	if r.code != term.ExitFailed || log.Version != "2.1.0" || !strings.Contains(r.stdout, `"uri": "pdf/scripts/a.py"`) {
		t.Errorf("got %+v", r)
	}
}

// What would be refused on upload is a report, too, if a rule is about it.
func TestCheckRefused(t *testing.T) {
	dir := checkedFolder(t, nil)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "users")); err != nil {
		t.Fatal(err)
	}
	if r := run(t, "check", dir); r.code != term.ExitFailed || !strings.Contains(r.stdout, "  error  sec.file.symlink  ") {
		t.Errorf("got %+v, want the link to be named", r)
	}
	if r := run(t, "check", filepath.Join(dir, "SKILL.md")); r.code != term.ExitFailed || !strings.Contains(r.stdout, "spec.root.not_directory") {
		t.Errorf("got %+v, want that a file is no folder", r)
	}
	run(t, "check", filepath.Join(dir, "nothing")).want(t, term.ExitUsage, "whetstone: There is no folder "+filepath.Join(dir, "nothing")+": name the folder of a skill, or make one with `whetstone init NAME`")
	put(t, dir, ".skillignore", "[\n")
	if err := os.Remove(filepath.Join(dir, "users")); err != nil {
		t.Fatal(err)
	}
	run(t, "check", dir).want(t, term.ExitUsage, ".skillignore")
}
