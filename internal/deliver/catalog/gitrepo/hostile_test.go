package gitrepo_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// lines makes pkt-lines; "0000" and "0001" stay as they are.
func lines(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		if text != "0000" && text != "0001" {
			text = fmt.Sprintf("%04x%s\n", len(text)+5, text)
		}
		b.WriteString(text)
	}
	return b.String()
}

func zipped(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHostileRequests(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("pdf", "1", registrytest.Skill(t, "One."), public)
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		head := func(base string) string {
			t.Helper()
			a := w.Anonymous().Get(base + "/marketplace.git/info/refs?service=git-upload-pack").Want(http.StatusOK)
			return regexp.MustCompile(`[0-9a-f]{40} HEAD`).FindString(string(a.Body))[:40]
		}
		own := "/o/acme/" + token(ada)
		secret, open := head(own), head("/o/acme")
		if secret == open {
			t.Fatal("both shelves have the same commit")
		}
		const none = "0123456789012345678901234567890123456789"
		fetch := func(arguments ...string) string {
			return lines(append(append([]string{"command=fetch", "0001"}, arguments...), "0000")...)
		}
		many := strings.Repeat(lines("have "+none), 30_000)
		for _, c := range []struct {
			name, body string
			status     int
			answer     string
			headers    []string
		}{
			{"nothing", "", 400, "no command", nil},
			{"no length", "0", 400, "length", nil},
			{"no number", "zzzzhello", 400, "length", nil},
			{"a sign", "-001hello", 400, "length", nil},
			{"an unknown line", "0002", 400, "length", nil},
			{"a length below its own", "0003", 400, "length", nil},
			{"a length beyond the end", "0100command=fetch", 400, "length", nil},
			{"the largest length", "ffff" + strings.Repeat("x", 0xffff-4), 400, "length", nil},
			{"an unknown command", lines("command=push", "0000"), 400, "command", nil},
			{"no arguments", lines("command=fetch"), 400, "no wants", nil},
			{"no wants", fetch("done"), 400, "no wants", nil},
			{"no object", fetch("want x", "done"), 400, "object", nil},
			{"a long object", fetch("want "+none+"00", "done"), 400, "object", nil},
			{"an unknown object", fetch("want "+none, "done"), 200, "ERR upload-pack: not our ref " + none, nil},
			{"an object of the private shelf", fetch("want "+secret, "done"), 200, "ERR upload-pack: not our ref " + secret, nil},
			{"and one beside it", fetch("want "+open, "want "+secret, "done"), 200, "ERR upload-pack: not our ref " + secret, nil},
			{"the empty tree", fetch("want 4b825dc642cb6eb9a060e54bf8d69288fbee4904", "done"), 200, "not our ref", nil},
			{"many wants", fetch(append(slices.Repeat([]string{"want " + open}, 65), "done")...), 400, "more than 64", nil},
			{"a depth below", fetch("want "+open, "deepen -1", "done"), 400, "depth", nil},
			{"a depth beyond", fetch("want "+open, "deepen 99999999999999999999", "done"), 400, "depth", nil},
			{"a filter", fetch("want "+open, "filter blob:none", "done"), 400, "filter", nil},
			{"a date", fetch("want "+open, "deepen-since 1", "done"), 400, "deepen-since", nil},
			{"many haves", lines("command=fetch", "0001", "want "+open) + many[:900_000/50*50] + "0000", 200, "NAK", nil},
			{"too many haves", lines("command=fetch", "0001", "want "+open) + many + "0000", 413, "larger", nil},
			{"too many zipped haves", zipped(t, lines("command=fetch", "0001", "want "+open)+many+"0000"), 413, "larger", []string{"Content-Encoding: gzip"}},
			{"a bomb", zipped(t, strings.Repeat("0000", 10<<20)), 413, "larger", []string{"Content-Encoding: gzip"}},
			{"no gzip", strings.Repeat("hello", 10), 400, "gzip", []string{"Content-Encoding: gzip"}},
			{"half a gzip", zipped(t, fetch("want "+open, "done"))[:20], 400, "", []string{"Content-Encoding: gzip"}},
			{"what it is for", fetch("want "+open, "done"), 200, "PACK", nil},
		} {
			headers := append([]string{"Content-Type: application/x-git-upload-pack-request", "Git-Protocol: version=2"}, c.headers...)
			a := w.Anonymous().Do(http.MethodPost, "/o/acme/marketplace.git/git-upload-pack", c.body, headers...)
			if a.Status != c.status || !strings.Contains(string(a.Body), c.answer) || strings.Contains(string(a.Body), "PACK") != (c.answer == "PACK") {
				t.Errorf("%s: %d %.200q, want %d %s", c.name, a.Status, a.Body, c.status, c.answer)
			}
		}
		for name, body := range map[string]string{
			"an object of the private shelf": lines("want "+secret+" side-band-64k", "0000", "done"), "nothing": "", "only an end": "0000",
		} {
			if a := w.Anonymous().Do(http.MethodPost, "/o/acme/marketplace.git/git-upload-pack", body); strings.Contains(string(a.Body), "PACK") {
				t.Errorf("protocol 0, %s: %d %.200q", name, a.Status, a.Body)
			}
		}
		for _, query := range []string{"", "?service=git-receive-pack", "?service=x"} {
			w.Anonymous().Get("/o/acme/marketplace.git/info/refs" + query).Want(http.StatusForbidden)
		}
		for _, path := range []string{"/objects/info/packs", "/objects/info/alternates", ""} {
			w.Anonymous().Get("/o/acme/marketplace.git" + path).Want(http.StatusNotFound)
		}
		w.Anonymous().Do(http.MethodPost, "/o/acme/marketplace.git/git-receive-pack", "0000").Want(http.StatusNotFound) // git asks for the refs first, which is forbidden
		w.Anonymous().Do(http.MethodPost, own+"x/marketplace.git/git-upload-pack", fetch("want "+secret, "done"), "Git-Protocol: version=2").Want(http.StatusNotFound)
	})
}

// TestHostileNames has files that git would refuse, and with them the whole clone.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		for i, file := range []string{
			".git/config", ".GIT/hooks/post-checkout", "x/.git", "git~1", "a/GIT~1/config", ".gitmodules", "gitmod~1", ".git::$INDEX_ALLOCATION/x",
			".g\u200cit/config", "..", "../x", "/x", "a\\b", "CON", "x.",
		} {
			ada.Create(fmt.Sprintf("bad-%02d", i), "1", registrytest.Skill(t, "x", file, "x"), public)
		}
		ada.Create("two", "1", registrytest.Skill(t, "x", "Read.md", "x", "READ.md", "y"), public)
		ada.Made("everything", "1", registrytest.Skill(t, "Takes the name of the bundle."), public)
		ada.Made("plugins", "1", registrytest.Skill(t, "x", ".gitattributes", "* text eol=crlf\n", ".gitignore", "*\n", "skills/SKILL.md", "x"), public)
		for _, name := range []string{".git", ".claude-plugin", "..", "__proto__", "marketplace.json"} {
			ada.Create(name, "1", registrytest.Skill(t, "x"), public)
		}
		ada.Made("long", strings.Repeat("9", 128), registrytest.Skill(t, "\\\" \\n \u2028 </script> \U0001f600"), public)
		dir := clone(t, w, "/o/acme")
		got := mustGit(t, "-C", dir, "ls-tree", "--name-only", "HEAD:plugins")
		if want := "everything-skills\neverything\nlong\nplugins"; got != want {
			t.Errorf("plugins %q, want %q", got, want)
		}
		if status := mustGit(t, "-C", dir, "status", "--short"); status != "" {
			t.Errorf("a clone is changed: %s", status)
		}
	})
}
