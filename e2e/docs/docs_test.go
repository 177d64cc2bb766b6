// Package docs_test runs the commands of the documents as a reader would: all ```sh
// blocks of one, in order, in one shell with a clean home, against a server of its
// own. A block that cannot run in a test has a comment before it that says why.
package docs_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
)

// patience is how long the commands of a document may take, on a busy machine.
const patience = 4 * time.Minute

var all = flag.Bool("all", false, "run every document, not only the README and the tutorial")

// short are the documents that every test run tries: what a newcomer reads first.
var short = []string{"README.md", "docs/tutorial.md"}

func TestDocuments(t *testing.T) {
	root := filepath.Join("..", "..")
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if _, err := servertest.Build(bin); err != nil {
		t.Fatal(err)
	}
	run, skipped := 0, 0
	t.Cleanup(func() { t.Logf("%d blocks run, %d left out for a reason", run, skipped) })
	for _, path := range append([]string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}, paths...) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := blocks(string(text))
		for _, b := range found {
			if b.before != "" && !b.needs {
				t.Errorf("%s:%d: the test prepares something for the block that its reader does not see: begin the line before it with \"Needs: \"", name, b.line)
			}
		}
		todo := slices.DeleteFunc(slices.Clone(found), func(b block) bool { return b.skip != "" })
		skipped += len(found) - len(todo)
		if len(todo) == 0 || !*all && !slices.Contains(short, name) {
			continue
		}
		run += len(todo)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newReader(t, bin).follow(t, name, todo)
		})
	}
}

// A reader follows a document in a folder, with a server that runs there.
type reader struct {
	dir    string
	env    []string
	server *servertest.Server
	key    string
}

var firstKey = regexp.MustCompile(`st_live_\w+`)

func newReader(t *testing.T, bin string) *reader {
	t.Helper()
	sandboxtest.Bubblewrap(t)
	r := &reader{dir: t.TempDir()}
	writeSkill(t, r.dir)
	home := filepath.Join(r.dir, "home")
	writeSessions(t, home)
	r.env = []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=reader", "NO_COLOR=1"}
	printed, err := os.Create(filepath.Join(home, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	server, err := servertest.Start(servertest.Command{
		Path: filepath.Join(bin, "whetstone"), Args: []string{"serve", "--addr", "127.0.0.1:0"},
		Env: r.env, Dir: r.dir, Stdout: printed,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	text, err := os.ReadFile(printed.Name())
	if err != nil {
		t.Fatal(err)
	}
	r.server, r.key = server, firstKey.FindString(string(text))
	if r.key == "" {
		t.Fatalf("the server printed no key:\n%s", text)
	}
	r.env = append(r.env, "WHETSTONE_SERVER="+server.URL, "WHETSTONE_API_KEY="+r.key)
	return r
}

// write makes a file, and the folders above it.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeSkill makes the folder that documents suppose a reader to have.
func writeSkill(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "pdf-tables", "SKILL.md"),
		"---\nname: pdf-tables\ndescription: Extracts tables from PDF files as CSV. Use when the user asks for the tables of a PDF.\n---\n\n"+
			"# Tables\n\nFind the tables, and write each as CSV.\n")
	write(t, filepath.Join(dir, "pdf-tables", "scripts", "run.sh"), "pdftotext -layout \"$1\" -\n")
}

// writeSessions makes what Claude Code keeps of 13 sessions with two skills, in two of
// which the tests failed.
func writeSessions(t *testing.T, home string) {
	t.Helper()
	for n := range 13 {
		skill, result := "release-notes", `"content":"ok"`
		if n >= 8 {
			skill = "pdf-tables"
		} else if n%4 == 2 {
			result = `"content":"Exit code 1","is_error":true`
		}
		var lines strings.Builder
		for i, line := range []string{
			`"type":"user","message":{"role":"user","content":"Please do it"}`,
			`"type":"assistant","message":{"id":"a%d","content":[{"type":"tool_use","id":"s%[1]d","name":"Skill","input":{"skill":"` + skill + `"}}]}`,
			`"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"s%d","content":"ok"}]}`,
			`"type":"assistant","message":{"id":"b%d","content":[{"type":"tool_use","id":"t%[1]d","name":"Bash","input":{"command":"go test ./..."}}]}`,
			`"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d",` + result + `}]}`,
		} {
			at := time.Now().UTC().Add(time.Duration(i-60*n)*time.Second - time.Hour)
			if strings.Contains(line, "%") {
				line = fmt.Sprintf(line, n)
			}
			fmt.Fprintf(&lines, `{"uuid":"%d-%d","sessionId":"session-%02d","timestamp":%q,%s}`+"\n", n, i, n, at.Format(time.RFC3339Nano), line)
		}
		write(t, filepath.Join(home, ".claude", "projects", "-shop", fmt.Sprintf("session-%02d.jsonl", n)), lines.String())
	}
}

// ended is what the shell prints after each block, before its exit code.
const ended = "\x01"

// prelude is what the comments in documents can use beside the commands of a
// shell: field takes a value out of JSON, use reports a session that used a skill.
const prelude = `set -e
curl() { command curl -sS --fail-with-body "$@"; }
field() { sed -n 's/^ *"'"$1"'": "\(.*\)",\{0,1\}$/\1/p' | sed -n 1p; }
use() {
	curl -o /dev/null "$WHETSTONE_SERVER/api/v1/push" -H "Authorization: Bearer $WHETSTONE_API_KEY" -d '{
		"schema_version": "2.0", "canonical": {"skill_invocations": [{"skill_invocation_id": "'"$2-$1"'", "session_id": "'"$2"'",
		"occurred_at": "'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'", "skill_name": "'"$1"'", "invocation_mode": "implicit", "triggered": true}]}}'
}
`

// follow runs the blocks of a document in one shell, so that one can use what
// another has set, and stops at the first that fails.
func (r *reader) follow(t *testing.T, name string, todo []block) {
	t.Helper()
	var script strings.Builder
	script.WriteString(prelude)
	for _, b := range todo {
		commands := b.commands
		for name, command := range b.with {
			commands = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(commands, "$("+command+")")
		}
		commands = r.here(b.before + commands)
		if b.exit != 0 {
			commands = "set +e\n(set -e\n" + commands + ")\n(exit $?)\n"
		}
		fmt.Fprintf(&script, "%sprintf '%%b%%d\\n' '\\001' $?\nset -e\n", commands)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script.String())
	shell.Dir, shell.Env = r.dir, r.env
	output, failure := shell.CombinedOutput()
	printed := strings.Split(string(output), ended)
	for i, b := range todo {
		if i > 0 {
			_, printed[i], _ = strings.Cut(printed[i], "\n")
		}
		if i == len(printed)-1 {
			t.Fatalf("%s:%d: %v:\n%s\n%s\nlog of the server:\n%s", name, b.line, failure, b.commands, printed[i], r.server.Log())
		}
		if code, _, _ := strings.Cut(printed[i+1], "\n"); code != strconv.Itoa(b.exit) {
			t.Fatalf("%s:%d: exit code %s, want %d:\n%s\n%s", name, b.line, code, b.exit, b.commands, printed[i])
		}
		if line := missing(r.here(b.prints), printed[i]); line != "" && b.varies == "" {
			t.Errorf("%s:%d: not printed: %q\n%s\n%s", name, b.line, line, b.commands, printed[i])
		}
	}
}

// here puts the address and the key of the server into commands, where documents
// have the default and a placeholder.
func (r *reader) here(commands string) string {
	return strings.NewReplacer("http://127.0.0.1:8080", r.server.URL, "localhost:8080", r.server.URL, "st_live_...", r.key).Replace(commands)
}
