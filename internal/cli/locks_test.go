package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

const secretToken = "ct_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"

// locked runs status --lock and returns e.g. "pdf 1.0.0 of 1.0.1 behind".
func (m machine) locked(t *testing.T, code int, args ...string) (all []string) {
	t.Helper()
	var files []struct {
		File, Client string
		Skills       []map[string]any
	}
	if r := m.answers(t, &files, append([]string{"status"}, args...)...); r.code != code {
		t.Errorf("status: exit code %d, want %d: %s", r.code, code, r.stderr)
	}
	for _, f := range files {
		for _, s := range f.Skills {
			all = append(all, fmt.Sprintf("%s: %s %s of %s %s", f.Client, s["name"], s["version"], s["latest_version"], s["status"]))
		}
	}
	return all
}

// TestStatusOfLockFiles has a project that several clients have installed skills in.
func TestStatusOfLockFiles(t *testing.T) {
	s := startService(t)
	var mu sync.Mutex
	var sent bytes.Buffer // by the client
	s = s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		fmt.Fprintf(&sent, "%s %s\n", r.URL, body)
		mu.Unlock()
		next.ServeHTTP(w, r)
	})
	author, user := s.loggedIn(t), s.loggedIn(t)
	pdf := skillFolder(t, "pdf", "one")
	author.push(t, pdf)
	var listed struct{ Entries []struct{ ID string } }
	s.api(t).Get("/api/v1/registry").Into(&listed)
	v := s.api(t).Get("/api/v1/registry/" + listed.Entries[0].ID).Want(http.StatusOK).List("versions")[0]
	project := t.TempDir()
	content, err := os.ReadFile(filepath.Join(pdf, "SKILL.md"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, project, ".claude/skills/pdf/SKILL.md", string(content))
	address := s.url + "/o/default/" + secretToken
	put(t, project, "skills-lock.json", fmt.Sprintf(`{"version":1,"skills":{
		"pdf":{"sourceUrl":%q,"sourceType":"well-known","wellKnownDigest":"sha256:%s"},
		"theirs":{"sourceUrl":"https://github.com/acme/skills","computedHash":"%064d"}}}`, address, v["content_hash"], 1))
	put(t, project, ".clawhub/lock.json", `{"version":1,"skills":{"pdf":{"version":"1.0.0","ownerHandle":"default"},"gone":{"version":"1.0.0","ownerHandle":"default"}}}`)
	// A plugin with two skills, one of them edited; its folder also has files of the client.
	cache := filepath.Join(project, ".claude/plugins/cache/whetstone-default/everything/0123456789ab")
	put(t, cache, "skills/pdf/SKILL.md", string(content))
	put(t, cache, "skills/pdf/.in_use/1", "x")
	put(t, cache, "skills/other/SKILL.md", "---\nname: other\n---\n")
	put(t, project, ".claude/plugins/installed_plugins.json", fmt.Sprintf(
		`{"version":2,"plugins":{"everything@whetstone-default":[{"version":"0123456789ab","installPath":%q}],"etc@x":[{"version":"1","installPath":"/etc"}]}}`, cache))
	put(t, project, ".claude/plugins/known_marketplaces.json", fmt.Sprintf(`{"whetstone-default":{"source":{"source":"url","url":"%s/marketplace.json"}}}`, address))

	want := func(when string, code int, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, user.locked(t, code, "--lock", project)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	const github = "skills: theirs  of  unknown"
	want("installed", term.ExitOK,
		"skills: pdf 1.0.0 of 1.0.0 up_to_date", github, "clawhub: gone 1.0.0 of  unknown", "clawhub: pdf 1.0.0 of 1.0.0 up_to_date",
		"claude-code: etc 1 of  unknown", "claude-code: other  of  unknown", "claude-code: pdf 1.0.0 of 1.0.0 up_to_date")
	writeSkill(t, pdf, "pdf", "two")
	author.push(t, pdf)
	want("pushed", term.ExitOutdated,
		"skills: pdf 1.0.0 of 1.0.1 behind", github, "clawhub: gone 1.0.0 of  unknown", "clawhub: pdf 1.0.0 of 1.0.1 behind",
		"claude-code: etc 1 of  unknown", "claude-code: other  of  unknown", "claude-code: pdf 1.0.0 of 1.0.1 behind")

	t.Run("reported twice", func(t *testing.T) {
		for range 2 {
			user.locked(t, term.ExitOutdated, "--lock", project, "--report")
		}
		var got []string
		for _, i := range s.api(t).Get("/api/v1/registry/installed").Want(http.StatusOK).List("installations") {
			path, _ := strings.CutPrefix(apptest.Text(i, "install_path"), project)
			got = append(got, fmt.Sprintf("%s %s %s %s", i["client"], i["version"], i["sync_status"], path))
		}
		want := []string{
			"skills 1.0.0 behind /.claude/skills/pdf", "clawhub 1.0.0 behind /.clawhub/lock.json",
			"claude-code 1.0.0 behind /.claude/plugins/cache/whetstone-default/everything/0123456789ab/skills/pdf",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	put(t, project, ".claude/skills/pdf/SKILL.md", string(content)+"mine\n")
	author.must(t, "rollback", "pdf")
	author.must(t, "withdraw", "pdf", "1.0.1", "--reason", "bad")
	lock := filepath.Join(project, "skills-lock.json")
	if diff := cmp.Diff([]string{"skills: pdf 1.0.0 of 1.0.0 modified", github}, user.locked(t, term.ExitOutdated, "--lock", lock, "--lock", lock)); diff != "" {
		t.Errorf("edited (-want +got):\n%s", diff)
	}
	writeSkill(t, filepath.Join(project, ".claude/skills/pdf"), "pdf", "two") // other files than the lock file says
	r := user.run(t, "status", "--lock", lock)
	r.want(t, term.ExitOutdated, "skills-lock.json or a file that belongs to it has a catalog token in an address")
	if !strings.Contains(r.stderr, "`whetstone catalog-token rotate ID`") {
		t.Errorf("stderr %q", r.stderr)
	}
	wantTable := lock + " (skills)\nNAME    CLIENT  INSTALLED  CURRENT  STATUS\npdf     skills  1.0.1      1.0.0    withdrawn\n" +
		"theirs  skills  -          -        not from this server\nTo update: DISABLE_TELEMETRY=1 npx skills update\n"
	if diff := cmp.Diff(wantTable, r.stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mu.Lock()
	defer mu.Unlock()
	for where, text := range map[string]string{"output": r.stdout + r.stderr, "requests": sent.String()} {
		if strings.Contains(text, "ct_") {
			t.Errorf("the token is in the %s", where)
		}
	}
}

func TestStatusOfHostileLockFiles(t *testing.T) {
	s := startService(t)
	user := s.loggedIn(t)
	dir := t.TempDir()
	lock := filepath.Join(dir, "skills-lock.json")
	put(t, dir, "skills-lock.json", `{"skills":{"a\u001b[2J\u202eb\tc\nd":{},"../../../etc":{},"`+strings.Repeat("x", 900)+`":{}}}`)
	r := user.run(t, "status", "--lock", lock)
	if r.code != term.ExitOK || strings.ContainsAny(r.stdout, "\x1b\u202e\t") || strings.Count(r.stdout, "\n") != 5 || len(r.stdout) > 1_000 {
		t.Errorf("%d %q", r.code, r.stdout)
	}
	for content, message := range map[string]string{
		`{"skills":{"p\u001b[2Jdf":{"computedHash":"x"}}}`: "skills-lock.json: skills.p [2Jdf.computedHash is not 64 hex digits",
		strings.Repeat("x", 10<<20):                        "skills-lock.json is larger than 8 MiB",
		`{"skills":`:                                       "skills-lock.json is not valid JSON",
	} {
		put(t, dir, "skills-lock.json", content)
		user.run(t, "status", "--lock", lock).want(t, term.ExitUsage, message)
	}
	user.run(t, "status", "--lock", filepath.Join(dir, "none.json")).want(t, term.ExitUsage, "no such file")
	put(t, dir, "package-lock.json", "{}")
	user.run(t, "status", "--lock", filepath.Join(dir, "package-lock.json")).want(t, term.ExitUsage, "is no lock file that whetstone reads")
	user.run(t, "status", "--lock", lock, "pdf").want(t, term.ExitUsage, "leave out names")
	user.run(t, "status", "--report").want(t, term.ExitUsage, "--report needs --lock")
	empty := t.TempDir()
	if got := user.must(t, "status", "--lock", empty); got != "No lock file in "+empty+"\n" {
		t.Errorf("of an empty folder %q", got)
	}
}

// TestInstallFrozen restores a folder of skills from its lock file.
func TestInstallFrozen(t *testing.T) {
	s := startService(t)
	author, user, ci := s.loggedIn(t), s.loggedIn(t), s.loggedIn(t)
	pdf := skillFolder(t, "pdf", "one")
	author.push(t, pdf)
	author.push(t, skillFolder(t, "csv", "one"))
	dir := ci.skills()
	ci.run(t, "install", "--frozen").want(t, term.ExitFailed, install.LockName+" does not exist; `whetstone install NAME` writes it")
	ci.run(t, "install").want(t, term.ExitUsage, "name what to install")
	user.must(t, "install", "pdf")
	user.must(t, "install", "csv")
	writeSkill(t, pdf, "pdf", "two")
	author.push(t, pdf)
	lock := user.file(t, install.LockName)
	put(t, dir, install.LockName, lock)
	name := filepath.Join(dir, install.LockName)
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	ci.run(t, "install", "--frozen", "other").want(t, term.ExitFailed, "other is not in "+name)
	if got := ci.must(t, "install", "--frozen", "csv"); got != "csv  1.0.0  installed\n" {
		t.Errorf("%q", got)
	}
	if got := ci.must(t, "install", "--frozen"); got != "csv  1.0.0  unchanged\npdf  1.0.0  installed\n" {
		t.Errorf("%q", got)
	}
	if got := ci.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "one\n") {
		t.Errorf("SKILL.md %q", got)
	}
	put(t, dir, "pdf/SKILL.md", "mine")
	if r := ci.run(t, "install", "--frozen"); r.code != term.ExitEdited || !strings.Contains(r.stdout, "pdf  1.0.0  modified: kept, --force") {
		t.Errorf("%d %s", r.code, r.stdout)
	}
	var out []map[string]any
	if r := ci.answers(t, &out, "install", "--frozen", "--force"); r.code != term.ExitOK || out[1]["status"] != "installed" || out[1]["backup"] == "" {
		t.Errorf("%v %v", r, out)
	}
	for _, o := range out {
		for _, key := range []string{"name", "status", "version", "content_hash", "path", "edits"} {
			if _, ok := o[key]; !ok {
				t.Errorf("%v has no %s", o, key)
			}
		}
	}
	after, err := os.Stat(name)
	if err != nil || ci.file(t, install.LockName) != lock || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Errorf("the lock file was written: %v", err)
	}

	refused := func(old, fresh, message string) {
		t.Helper()
		put(t, dir, install.LockName, strings.ReplaceAll(lock, old, fresh))
		if err := os.RemoveAll(filepath.Join(dir, "pdf")); err != nil {
			t.Fatal(err)
		}
		ci.run(t, "install", "--frozen").want(t, term.ExitFailed, message)
		if _, err := os.Stat(filepath.Join(dir, "pdf")); err == nil {
			t.Errorf("%s: it was installed", message)
		}
		put(t, dir, install.LockName, lock)
	}
	var records struct {
		Skills map[string]struct {
			ContentHash string `json:"content_hash"`
			EntryID     string `json:"entry_id"`
			Files       map[string]string
		}
	}
	if err := json.Unmarshal([]byte(lock), &records); err != nil {
		t.Fatal(err)
	}
	r := records.Skills["pdf"]
	refused(r.ContentHash, strings.Repeat("0", 64), "pdf 1.0.0 has another content in the registry than in the lock file")
	refused(r.EntryID, "00000000-0000-7000-8000-000000000000", "pdf is gone from the registry, or not visible with this key")
	refused(r.Files["SKILL.md"], strings.Repeat("0", 64), "the lock file has other files of pdf 1.0.0 than the version itself")
	refused(s.url, "https://other.example.com", "csv is from https://other.example.com; install it with --server https://other.example.com")
	refused(`"version": "1.0.0"`, `"version": ""`, "the lock file has no entry_id, version or content_hash of csv")
	author.must(t, "withdraw", "pdf", "1.0.0", "--reason", "bad")
	refused("", "", "pdf 1.0.0 was withdrawn; `whetstone sync pdf` installs 1.0.1; nothing was installed")
}
