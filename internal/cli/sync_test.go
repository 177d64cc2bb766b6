package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// drift runs status and returns the drift of each skill.
func (m machine) drift(t *testing.T, code int, args ...string) map[string]string {
	t.Helper()
	var all []map[string]any
	if r := m.answers(t, &all, append([]string{"status"}, args...)...); r.code != code {
		t.Errorf("status: exit code %d, want %d: %s", r.code, code, r.stderr)
	}
	out := map[string]string{}
	for _, s := range all {
		apptest.WantKeys(t, s, "name", "status", "version", "latest_version", "pinned", "server", "entry_id", "path", "edits")
		out[s["name"].(string)] = s["status"].(string) + " " + s["version"].(string) + " " + s["latest_version"].(string)
	}
	return out
}

func (m machine) wantDrift(t *testing.T, code int, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, m.drift(t, code)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestSync follows a skill through updates, edits and a rollback on two
// machines.
func TestSync(t *testing.T) {
	s := startService(t)
	author, user := s.loggedIn(t), s.loggedIn(t)
	pdf := skillFolder(t, "pdf", "one")
	author.push(t, pdf)
	author.push(t, skillFolder(t, "csv", "one"))
	if got := user.must(t, "status"); got != "Nothing is installed in "+user.skills()+"\n" {
		t.Errorf("status %q", got)
	}
	if got := user.must(t, "sync"); got != "Nothing is installed in "+user.skills()+"\n" {
		t.Errorf("sync %q", got)
	}
	if _, err := os.Stat(user.skills()); err == nil {
		t.Error("asking made the folder")
	}
	user.must(t, "install", "pdf")
	user.must(t, "install", "csv")
	user.wantDrift(t, term.ExitOK, map[string]string{"pdf": "up_to_date 1.0.0 1.0.0", "csv": "up_to_date 1.0.0 1.0.0"})

	writeSkill(t, pdf, "pdf", "two")
	author.push(t, pdf)
	user.wantDrift(t, term.ExitOutdated, map[string]string{"pdf": "behind 1.0.0 1.0.1", "csv": "up_to_date 1.0.0 1.0.0"})
	if got, want := user.must(t, "sync", "--dry-run"), "csv  1.0.0           up to date\npdf  1.0.0 -> 1.0.1  would update\n2 skills: 1 would update, 1 up to date\n"; got != want {
		t.Errorf("sync --dry-run:\n%s", got)
	}
	if got, want := user.must(t, "sync"), "csv  1.0.0           up to date\npdf  1.0.0 -> 1.0.1  updated\n2 skills: 1 updated, 1 up to date\n"; got != want {
		t.Errorf("sync:\n%s", got)
	}
	if got := user.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "two\n") {
		t.Errorf("SKILL.md %q", got)
	}

	t.Run("back after a rollback", func(t *testing.T) {
		if got := author.must(t, "rollback", "pdf", "--reason", "it fails"); got != "Rolled back pdf from 1.0.1 to 1.0.0; installations follow with their next sync.\n" {
			t.Errorf("rollback %q", got)
		}
		user.wantDrift(t, term.ExitOutdated, map[string]string{"pdf": "behind 1.0.1 1.0.0", "csv": "up_to_date 1.0.0 1.0.0"})
		user.must(t, "sync", "pdf")
		if got := user.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "one\n") {
			t.Errorf("SKILL.md %q", got)
		}
		history := strings.Split(author.must(t, "history", "pdf"), "\n")
		for i, want := range []string{"rolled back from 1.0.1 to 1.0.0 it fails", "1.0.1 pushed by cli, rolled back", "1.0.0 pushed by cli, current"} {
			if line := strings.Join(strings.Fields(history[i+1]), " "); !strings.HasSuffix(line, " "+want) { // after the headings
				t.Errorf("history has %q, want %q", line, want)
			}
		}
		author.run(t, "rollback", "pdf").want(t, term.ExitFailed, "Nothing to roll back to: 1.0.0 is the first version")
		if got := author.must(t, "rollback", "pdf", "--list"); !strings.Contains(got, "VERSION  PASS RATE  BASIS") ||
			!strings.Contains(got, "`whetstone rollback pdf --undo` makes 1.0.1 current again") || !strings.Contains(got, "rolled back") {
			t.Errorf("the choices are %q", got)
		}
		author.run(t, "rollback", "pdf", "1.0.0", "--undo").want(t, term.ExitUsage, "--undo goes back to the version before the rollback")
		if got := author.must(t, "rollback", "pdf", "--undo"); got != "Undid the rollback of pdf from 1.0.0 to 1.0.1; installations follow with their next sync.\n" {
			t.Errorf("undo %q", got)
		}
		author.run(t, "rollback", "pdf", "--undo").want(t, term.ExitFailed, "was undone already")
		if got := author.must(t, "history", "pdf"); !strings.Contains(got, "rolled back from 1.0.1 to 1.0.0, undone") {
			t.Errorf("history %q", got)
		}
		author.must(t, "rollback", "pdf", "--reason", "it fails")
		author.run(t, "rollback", "pdf", "9").want(t, term.ExitFailed, "whetstone: Version 9 not found\n")
	})
	t.Run("edits stay", func(t *testing.T) {
		put(t, user.skills(), "pdf/SKILL.md", "mine")
		user.wantDrift(t, term.ExitOutdated, map[string]string{"pdf": "modified 1.0.0 1.0.0", "csv": "up_to_date 1.0.0 1.0.0"})
		writeSkill(t, pdf, "pdf", "three")
		author.push(t, pdf)
		r := user.run(t, "sync")
		r.want(t, term.ExitEdited, "")
		if want := "pdf  1.0.0  modified: SKILL.md changed; kept, --force replaces it and keeps a copy\n2 skills: 1 up to date, 1 modified\n"; !strings.HasSuffix(r.stdout, want) {
			t.Errorf("sync %q, want %q", r.stdout, want)
		}
		if user.file(t, "pdf/SKILL.md") != "mine" {
			t.Error("the edit is gone")
		}
		var detail struct{ Installations []map[string]any }
		s.api(t).Get("/api/v1/registry/installed").Want(200).Into(&detail)
		if !hasStatus(detail.Installations, "modified") {
			t.Errorf("the server does not know of the edit: %v", detail)
		}
	})
	t.Run("force", func(t *testing.T) {
		var out []map[string]any
		user.answers(t, &out, "sync", "--force")
		if len(out) != 2 || out[1]["status"] != "updated" || out[1]["previous_version"] != "1.0.0" || out[1]["version"] != "1.0.2" {
			t.Errorf("sync --force: %v", out)
		}
		content, err := os.ReadFile(filepath.Join(out[1]["backup"].(string), "SKILL.md"))
		if err != nil || string(content) != "mine" {
			t.Errorf("backup %q, %v", content, err)
		}
		var detail struct{ Installations []map[string]any }
		s.api(t).Get("/api/v1/registry/installed").Want(200).Into(&detail)
		if hasStatus(detail.Installations, "modified") {
			t.Errorf("the server has not heard of the update: %v", detail)
		}
	})
	t.Run("missing folder", func(t *testing.T) {
		remove(t, filepath.Join(user.skills(), "pdf"))
		user.wantDrift(t, term.ExitOutdated, map[string]string{"pdf": "missing 1.0.2 1.0.2", "csv": "up_to_date 1.0.0 1.0.0"})
		user.must(t, "sync")
		user.file(t, "pdf/SKILL.md")
	})
	t.Run("not installed", func(t *testing.T) {
		for _, command := range []string{"sync", "status"} {
			user.run(t, command, "none").want(t, term.ExitFailed, "whetstone: none is not installed in "+user.skills()+"\n")
		}
	})
	t.Run("gone from the registry", func(t *testing.T) {
		var entries []map[string]any
		author.answers(t, &entries, "list", "csv")
		s.api(t).Do(http.MethodDelete, "/api/v1/registry/"+entries[0]["id"].(string), nil).Want(204)
		user.wantDrift(t, term.ExitOutdated, map[string]string{"pdf": "up_to_date 1.0.2 1.0.2", "csv": "gone 1.0.0 "})
		if got := user.must(t, "sync"); !strings.Contains(got, "csv  1.0.0  gone from the registry, kept\n") {
			t.Errorf("sync %q", got)
		}
		user.file(t, "csv/SKILL.md")
	})
}

func hasStatus(installations []map[string]any, status string) bool {
	for _, i := range installations {
		if i["sync_status"] == status {
			return true
		}
	}
	return false
}

func TestSyncPinned(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	m.push(t, dir)
	writeSkill(t, dir, "pdf", "two")
	m.push(t, dir)
	m.must(t, "install", "pdf@1.0.0")
	m.wantDrift(t, term.ExitOK, map[string]string{"pdf": "pinned 1.0.0 1.0.1"})
	if got := m.must(t, "sync"); got != "pdf  1.0.0  pinned, latest is 1.0.1\n1 skill: 1 pinned\n" {
		t.Errorf("sync %q", got)
	}
	remove(t, filepath.Join(m.skills(), "pdf"))
	m.must(t, "sync")
	if got := m.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "one\n") {
		t.Errorf("SKILL.md %q, want the pinned version back", got)
	}
	put(t, m.skills(), "pdf/SKILL.md", "mine")
	m.must(t, "sync", "--force")
	m.wantDrift(t, term.ExitOK, map[string]string{"pdf": "pinned 1.0.0 1.0.1"})
	if got := m.must(t, "sync", "--unpin"); !strings.HasPrefix(got, "pdf  1.0.0 -> 1.0.1  updated\n") {
		t.Errorf("sync --unpin %q", got)
	}
	m.wantDrift(t, term.ExitOK, map[string]string{"pdf": "up_to_date 1.0.1 1.0.1"})
	m.must(t, "install", "pdf@1.0.1")
	m.wantDrift(t, term.ExitOK, map[string]string{"pdf": "pinned 1.0.1 1.0.1"})
	m.must(t, "sync", "--unpin")
	m.wantDrift(t, term.ExitOK, map[string]string{"pdf": "up_to_date 1.0.1 1.0.1"})
	m.must(t, "install", "pdf@1.0.0")
	m.must(t, "install", "pdf")
	m.wantDrift(t, term.ExitOK, map[string]string{"pdf": "up_to_date 1.0.1 1.0.1"})
}

// TestSyncManyAtOnce has one download that fails, and others that do not mind.
func TestSyncManyAtOnce(t *testing.T) {
	s := startService(t)
	var spoil atomic.Bool
	var now, most atomic.Int32
	front := s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/download") {
			next.ServeHTTP(w, r)
			return
		}
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		if spoil.Load() && strings.Contains(r.URL.Path, "/1.0.1/") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
	m := front.loggedIn(t)
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, name := range names {
		m.push(t, skillFolder(t, name, "one"))
		m.must(t, "install", name)
		m.push(t, skillFolder(t, name, "two"))
	}
	m.must(t, "install", "g@1.0.1") // which then is fetched by its version
	remove(t, filepath.Join(m.skills(), "g"))
	spoil.Store(true)
	r := m.run(t, "sync")
	r.want(t, term.ExitFailed, "")
	if !strings.Contains(r.stdout, "g  1.0.1           failed: the server answered 500 Internal Server Error\n7 skills: 6 updated, 1 failed\n") {
		t.Errorf("sync:\n%s", r.stdout)
	}
	for _, name := range names[:6] {
		if got := m.file(t, name+"/SKILL.md"); !strings.HasSuffix(got, "two\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d downloads at once", most.Load())
	}
}

// TestExpiredLink has a queue of downloads that outlasts their links.
func TestExpiredLink(t *testing.T) {
	var byKey atomic.Int32
	s := startService(t).behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/download") {
			byKey.Add(1)
		}
		if !strings.HasSuffix(r.URL.Path, "/sync") {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		w.WriteHeader(rec.Code)
		_, _ = w.Write(bytes.ReplaceAll(rec.Body.Bytes(), []byte("sig="), []byte("sig=x")))
	})
	m := s.loggedIn(t)
	m.push(t, skillFolder(t, "pdf", "one"))
	m.must(t, "install", "pdf")
	m.push(t, skillFolder(t, "pdf", "two"))
	before := byKey.Load()
	m.must(t, "sync")
	if got := m.file(t, "pdf/SKILL.md"); !strings.HasSuffix(got, "two\n") || byKey.Load() != before+1 {
		t.Errorf("SKILL.md %q after %d downloads with the key", got, byKey.Load()-before)
	}
}

// TestOtherServer keeps the skills, and the key, of one server from another.
func TestOtherServer(t *testing.T) {
	first, second := startService(t), startService(t)
	m := first.loggedIn(t)
	m.push(t, skillFolder(t, "pdf", "one"))
	m.must(t, "install", "pdf")
	m.must(t, "login", "--server", second.url, "--api-key", second.key)
	m.push(t, skillFolder(t, "csv", "one"))
	m.must(t, "install", "csv")
	m.wantDrift(t, term.ExitOK, map[string]string{"pdf": "other_server 1.0.0 ", "csv": "up_to_date 1.0.0 1.0.0"})
	if got := m.must(t, "sync"); !strings.Contains(got, "pdf  1.0.0  from another server, kept\n") {
		t.Errorf("sync %q", got)
	}
	if got := m.must(t, "status", "--server", first.url); !strings.Contains(got, "pdf   1.0.0      1.0.0   up to date\n") || !strings.Contains(got, "from "+second.url+"\n") {
		t.Errorf("status %q", got)
	}
}

// TestLockFileOfSomebody came with a repository, and names a server that the
// user has never logged in at.
func TestLockFileOfSomebody(t *testing.T) {
	s := startService(t)
	m := s.loggedIn(t)
	var asked atomic.Int32
	stranger := s.behind(t, func(_ http.ResponseWriter, _ *http.Request, _ http.Handler) { asked.Add(1) })
	put(t, m.skills(), ".whetstone-lock.json", `{"version":1,"skills":{"pdf":{"server":"`+stranger.url+`","entry_id":"x","version":"1"}}}`)
	m.must(t, "sync")
	m.must(t, "status")
	if asked.Load() > 0 {
		t.Error("the stranger's server was asked")
	}
	put(t, m.skills(), ".whetstone-lock.json", `{"version":1,"skills":{"../evil":{}}}`)
	m.run(t, "sync").want(t, term.ExitFailed, `has a skill "../evil", which cannot be a folder; remove it there`)
}
