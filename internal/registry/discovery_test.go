package registry_test

import (
	"archive/tar"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

const (
	newIndex = "/.well-known/agent-skills/index.json"
	oldIndex = "/.well-known/skills/index.json"
)

// base is the path of an organisation's index, with a key or without.
func base(org string, key ...string) string {
	return "/o/" + url.PathEscape(org) + strings.Join(append([]string{""}, key...), "/")
}

// TestDiscoveryIndexes reads both indexes at the three bases, as every kind of client
// who may have a key or not.
func TestDiscoveryIndexes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.org("acme inc", access.Pro), w.org("other", access.Pro)
		for _, v := range []string{"public", "org", "unlisted"} {
			ada.made(v+"-skill", "1", skill(t, v+" of acme"), object{"visibility": v})
		}
		bob.made("org-skill", "1", skill(t, "Of other."), object{"visibility": "public"})
		bob.made("public-skill", "1", skill(t, "Of other."), object{"visibility": "public"})
		noRead := w.key(ada.org, ada.user, access.Write)
		revoked := w.key(ada.org, ada.user)
		if err := w.auth.RevokeKey(t.Context(), ada.org.ID, revoked.keyID); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, base string
			want       []string // nil: not found
		}{
			{"all", "", []string{"org-skill Of other.", "public-skill public of acme"}},
			{"one organisation", base("acme inc"), []string{"public-skill public of acme"}},
			{"other organisation", base("other"), []string{"org-skill Of other.", "public-skill Of other."}},
			{"with a key", base("acme inc", ada.key), []string{"org-skill org of acme", "public-skill public of acme"}},
			{"unknown organisation", base("nobody"), []string{}},
			{"key of another", base("acme inc", bob.key), nil},
			{"key without the permission", base("acme inc", noRead.key), nil},
			{"revoked key", base("acme inc", revoked.key), nil},
			{"no key", base("acme inc", "st_live_nothing"), nil},
			{"no text", "/o/a%00b", nil},
			{"broken text", "/o/a%ffb", nil},
		} {
			for _, index := range []string{newIndex, oldIndex} {
				t.Run(c.name+index, func(t *testing.T) {
					a := w.anonymous().in(t).get(c.base + index)
					if a.header.Get("Access-Control-Allow-Origin") != "*" {
						t.Error("no CORS header")
					}
					if c.want == nil {
						a.want(http.StatusNotFound)
						return
					}
					got := []string{}
					for _, s := range a.want(http.StatusOK).list("skills") {
						got = append(got, text(s, "name")+" "+text(s, "description"))
					}
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("skills (-want +got):\n%s", diff)
					}
					wantCache := "public, max-age=60"
					if strings.Contains(c.base, ada.key) {
						wantCache = "private, max-age=60"
					}
					if got := a.header.Get("Cache-Control"); got != wantCache {
						t.Errorf("Cache-Control %q, want %q", got, wantCache)
					}
				})
			}
		}
	})
}

// TestDiscoveryIsSelective has entries that installers would not take.
func TestDiscoveryIsSelective(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		public := object{"visibility": "public"}
		plain := skill(t, "A.")
		for _, name := range []string{"Pdf", "pdf_tables", "-pdf", "pdf-", "pdf--x", "pdf tables", "pdf.x", "größe", strings.Repeat("a", 65)} {
			ada.made(name, "1", plain, public)
		}
		ada.made("no-skill", "1", plain, public, object{"entry_type": "agent"})
		ada.made("no-description", "1", pack(t, file("SKILL.md", "# Text\n")), public)
		ada.made("lower-case", "1", pack(t, file("skill.md", skillText("A."))), public)
		ada.made("not-ustar", "1", skill(t, "A.", "é.md", "x"), public)
		ada.made(strings.Repeat("b", 64), "1", plain, public)
		ada.made("described", "1", pack(t, file("SKILL.md", "# Text\n")), public, object{"description": strings.Repeat("ü", 1025)})
		want := []string{strings.Repeat("b", 64), "described"}
		for _, index := range []string{newIndex, oldIndex} {
			list := w.anonymous().get(index).want(http.StatusOK).list("skills")
			if diff := cmp.Diff(want, names(list)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", index, diff)
			}
			if got := text(list[1], "description"); got != strings.Repeat("ü", 1024) {
				t.Errorf("%s: the description has %d bytes, want 1024 characters", index, len(got))
			}
		}
	})
}

// TestDiscoveryArchive installs by the new index, as an installer would.
func TestDiscoveryArchive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", pack(t,
			file("./pdf/scripts/run.sh", "echo hi\n"), file("./pdf/SKILL.md", skillText("One.")),
			member{name: "./pdf/link.md", link: "SKILL.md", typ: tar.TypeSymlink}))
		index := base("acme", ada.key) + newIndex
		a := w.anonymous().get(index).want(http.StatusOK)
		if got := a.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type %q", got)
		}
		wantKeys(t, a.object(), "$schema", "skills")
		if got := text(a.object(), "$schema"); got != "https://schemas.agentskills.io/discovery/0.2.0/schema.json" {
			t.Errorf("$schema %q", got)
		}
		first := a.list("skills")[0]
		wantKeys(t, first, "name", "type", "description", "url", "digest")
		if text(first, "name") != "pdf" || text(first, "type") != "archive" {
			t.Errorf("skill %v", first)
		}
		archive := fetch(t, w, index, first)
		members, contents, headers := unpack(t, archive)
		if diff := cmp.Diff([]string{"SKILL.md", "link.md", "scripts/run.sh"}, members); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
		if contents["link.md"] != skillText("One.") {
			t.Errorf("link.md holds %q", contents["link.md"])
		}
		if i := slices.IndexFunc(headers, func(h *tar.Header) bool { return h.Format != tar.FormatUSTAR || h.Typeflag != tar.TypeReg }); i >= 0 {
			t.Errorf("%s is no plain ustar member", headers[i].Name)
		}

		// What a client read before a push still works; what was deleted does not.
		ada.push(id, "2", skill(t, "Two.")).want(http.StatusCreated)
		fetch(t, w, index, first)
		second := w.anonymous().get(index).list("skills")[0]
		if text(second, "description") != "Two." || text(second, "url") == text(first, "url") {
			t.Errorf("after a push: %v", second)
		}
		fetch(t, w, index, second)
		ada.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent)
		w.settle()
		w.anonymous().get(resolve(t, index, second)).want(http.StatusNotFound)
		if got := w.contents(); len(got) != 0 {
			t.Errorf("contents %v, want none", got)
		}
	})
}

// resolve is the URL of a skill, which is relative to that of the index.
func resolve(t *testing.T, index string, skill object) string {
	t.Helper()
	at, err := url.Parse(index)
	if err != nil {
		t.Fatal(err)
	}
	link, err := at.Parse(text(skill, "url"))
	if err != nil {
		t.Fatal(err)
	}
	return link.String()
}

// fetch downloads a skill of an index and verifies its digest.
func fetch(t *testing.T, w *world, index string, skill object) []byte {
	t.Helper()
	a := w.anonymous().get(resolve(t, index, skill))
	hash, ok := strings.CutPrefix(text(skill, "digest"), "sha256:")
	if !ok {
		t.Errorf("digest %v", skill["digest"])
	}
	wantDownload(t, a, hash)
	if a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Error("no CORS header on the archive")
	}
	return a.body
}

// TestDiscoveryFiles installs by the old index.
func TestDiscoveryFiles(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		ada.made("pdf", "1", skill(t, "One.", "docs/a.md", "a", "logo.png", "\x89PNG\x00"), object{"visibility": "public"})
		ada.made("mine", "1", skill(t, "Mine."))
		got := w.anonymous().get(oldIndex).want(http.StatusOK).object()
		want := object{"skills": []any{object{"name": "pdf", "description": "One.", "files": []any{"SKILL.md", "docs/a.md", "logo.png"}}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("index (-want +got):\n%s", diff)
		}
		for _, c := range []struct {
			path, content string
			status        int
		}{
			{"pdf/SKILL.md", skillText("One."), 200},
			{"pdf/docs/a.md", "a", 200},
			{"pdf/logo.png", "\x89PNG\x00", 200},
			{"pdf/nothing.md", "", 404},
			{"pdf/docs", "", 404},
			{"mine/SKILL.md", "", 404},
			{"nothing/SKILL.md", "", 404},
		} {
			a := w.anonymous().get("/.well-known/skills/" + c.path).want(c.status)
			if c.status == http.StatusOK && string(a.body) != c.content {
				t.Errorf("%s: %q, want %q", c.path, a.body, c.content)
			}
		}
		if got := w.anonymous().get("/.well-known/skills/pdf/SKILL.md").header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("Content-Type %q", got)
		}
		w.anonymous().get(base("acme", ada.key) + "/.well-known/skills/mine/SKILL.md").want(http.StatusOK)
	})
}

func TestDiscoveryProtocol(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		ada.made("pdf", "1", skill(t, "One."), object{"visibility": "public"})
		archive := resolve(t, newIndex, w.anonymous().get(newIndex).list("skills")[0])
		for _, path := range []string{newIndex, oldIndex, archive, "/.well-known/skills/pdf/SKILL.md"} {
			get := w.anonymous().get(path).want(http.StatusOK)
			head := w.anonymous().do(http.MethodHead, path, nil).want(http.StatusOK)
			if fmt.Sprint(len(get.body)) != head.header.Get("Content-Length") || len(head.body) != 0 {
				t.Errorf("HEAD %s: Content-Length %q, want %d", path, head.header.Get("Content-Length"), len(get.body))
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("If-None-Match", get.header.Get("ETag"))
			resp, err := w.server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if get.header.Get("ETag") == "" || resp.StatusCode != http.StatusNotModified {
				t.Errorf("GET %s again: status %d with ETag %q", path, resp.StatusCode, get.header.Get("ETag"))
			}
		}
		for _, path := range []string{
			"/.well-known/agent-skills/pdf/x.tar.gz", "/.well-known/agent-skills/pdf/" + strings.Repeat("0", 64) + ".tar.gz",
			"/.well-known/agent-skills/pdf/SKILL.md", strings.TrimSuffix(archive, ".tar.gz"), strings.Replace(archive, "pdf", "docx", 1),
			"/.well-known/agent-skills/a%00/x.tar.gz", "/o/acme/x" + archive,
		} {
			w.anonymous().get(path).want(http.StatusNotFound)
		}
	})
}
