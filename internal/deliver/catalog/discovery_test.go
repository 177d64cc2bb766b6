package catalog_test

import (
	"archive/tar"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

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
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme inc", access.Pro), w.Org("other", access.Pro)
		for _, v := range []string{"public", "org", "unlisted"} {
			ada.Made(v+"-skill", "1", registrytest.Skill(t, v+" of acme"), object{"visibility": v})
		}
		bob.Made("org-skill", "1", registrytest.Skill(t, "Of other."), object{"visibility": "public"})
		bob.Made("public-skill", "1", registrytest.Skill(t, "Of other."), object{"visibility": "public"})
		noRead := w.WithKey(ada.Org, ada.User, access.Write)
		revoked := w.WithKey(ada.Org, ada.User)
		if err := w.Auth.RevokeKey(t.Context(), ada.Org.ID, revoked.KeyID); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, base string
			want       []string // nil: not found
		}{
			{"all", "", []string{"org-skill Of other.", "public-skill public of acme"}},
			{"one organisation", base("acme inc"), []string{"public-skill public of acme"}},
			{"other organisation", base("other"), []string{"org-skill Of other.", "public-skill Of other."}},
			{"with a key", base("acme inc", ada.Key), []string{"org-skill org of acme", "public-skill public of acme"}},
			{"unknown organisation", base("nobody"), []string{}},
			{"key of another", base("acme inc", bob.Key), nil},
			{"key without the permission", base("acme inc", noRead.Key), nil},
			{"revoked key", base("acme inc", revoked.Key), nil},
			{"no key", base("acme inc", "st_live_nothing"), nil},
			{"no text", "/o/a%00b", nil},
			{"broken text", "/o/a%ffb", nil},
		} {
			for _, index := range []string{newIndex, oldIndex} {
				t.Run(c.name+index, func(t *testing.T) {
					a := w.Anonymous().In(t).Get(c.base + index)
					if a.Header.Get("Access-Control-Allow-Origin") != "*" {
						t.Error("no CORS header")
					}
					if c.want == nil {
						a.Want(http.StatusNotFound)
						return
					}
					got := []string{}
					for _, s := range a.Want(http.StatusOK).List("skills") {
						got = append(got, apptest.Text(s, "name")+" "+apptest.Text(s, "description"))
					}
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("skills (-want +got):\n%s", diff)
					}
					wantCache := "public, no-cache"
					if strings.Contains(c.base, ada.Key) {
						wantCache = "private, no-cache"
					}
					if got := a.Header.Get("Cache-Control"); got != wantCache {
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
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		public := object{"visibility": "public"}
		plain := registrytest.Skill(t, "A.")
		for _, name := range []string{
			"Pdf", "pdf_tables", "-pdf", "pdf-", "pdf--x", "pdf tables", "pdf.x", "größe", strings.Repeat("a", 65),
		} {
			ada.Made(name, "1", plain, public)
		}
		ada.Made("no-skill", "1", plain, public, object{"entry_type": "agent"})
		ada.Made("no-description", "1", registrytest.Pack(t, registrytest.File("SKILL.md", "# Text\n")), public)
		ada.Made("lower-case", "1", registrytest.Pack(t, registrytest.File("skill.md", registrytest.SkillText("A."))), public)
		ada.Made("not-ustar", "1", registrytest.Skill(t, "A.", "é.md", "x"), public)
		ada.Made(strings.Repeat("b", 64), "1", plain, public)
		ada.Made("described", "1", registrytest.Pack(t, registrytest.File("SKILL.md", "# Text\n")), public,
			object{"description": strings.Repeat("ü", 1025)})
		want := []string{strings.Repeat("b", 64), "described"}
		for _, index := range []string{newIndex, oldIndex} {
			list := w.Anonymous().Get(index).Want(http.StatusOK).List("skills")
			if diff := cmp.Diff(want, registrytest.Names(list)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", index, diff)
			}
			if got := apptest.Text(list[1], "description"); got != strings.Repeat("ü", 1024) {
				t.Errorf("%s: the description has %d bytes, want 1024 characters", index, len(got))
			}
		}
	})
}

// TestDiscoveryArchive installs by the new index, as an installer would.
func TestDiscoveryArchive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Pack(t,
			registrytest.File("./pdf/scripts/run.sh", "echo hi\n"), registrytest.File("./pdf/SKILL.md", registrytest.SkillText("One.")),
			registrytest.Symlink("./pdf/link.md", "SKILL.md")))
		index := base("acme", ada.Key) + newIndex
		a := w.Anonymous().Get(index).Want(http.StatusOK)
		if got := a.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type %q", got)
		}
		apptest.WantKeys(t, a.Object(), "$schema", "skills")
		if got := apptest.Text(a.Object(), "$schema"); got != "https://schemas.agentskills.io/discovery/0.2.0/schema.json" {
			t.Errorf("$schema %q", got)
		}
		first := a.List("skills")[0]
		apptest.WantKeys(t, first, "name", "type", "description", "url", "digest")
		if apptest.Text(first, "name") != "pdf" || apptest.Text(first, "type") != "archive" {
			t.Errorf("skill %v", first)
		}
		archive := w.Fetch(index, first)
		headers, contents := registrytest.Unpack(t, archive)
		var members []string
		for _, h := range headers {
			members = append(members, h.Name)
			if h.Format != tar.FormatUSTAR || h.Typeflag != tar.TypeReg {
				t.Errorf("%s is no plain ustar member", h.Name)
			}
		}
		if diff := cmp.Diff([]string{"SKILL.md", "link.md", "scripts/run.sh"}, members); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
		if contents["link.md"] != registrytest.SkillText("One.") {
			t.Errorf("link.md holds %q", contents["link.md"])
		}

		// What a client read before a push still works; what was deleted does not.
		ada.Pushed(id, "2", registrytest.Skill(t, "Two."))
		w.Fetch(index, first)
		wantIndex(w, "after a push", index, func(body string) bool { return strings.Contains(body, "Two.") })
		second := w.Anonymous().Get(index).List("skills")[0]
		if apptest.Text(second, "description") != "Two." || apptest.Text(second, "url") == apptest.Text(first, "url") {
			t.Errorf("after a push: %v", second)
		}
		w.Fetch(index, second)
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		w.Settle()
		w.Anonymous().Get(registrytest.Resolve(t, index, second)).Want(http.StatusNotFound)
		if got := w.Contents(); len(got) != 0 {
			t.Errorf("contents %v, want none", got)
		}
	})
}

// TestDiscoveryFiles installs by the old index.
func TestDiscoveryFiles(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("pdf", "1", registrytest.Skill(t, "One.", "docs/a.md", "a", "logo.png", "\x89PNG\x00"), object{"visibility": "public"})
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		got := w.Anonymous().Get(oldIndex).Want(http.StatusOK).Object()
		want := object{"skills": []any{
			object{"name": "pdf", "description": "One.", "files": []any{"SKILL.md", "docs/a.md", "logo.png"}},
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("index (-want +got):\n%s", diff)
		}
		for _, c := range []struct {
			path, content string
			status        int
		}{
			{"pdf/SKILL.md", registrytest.SkillText("One."), 200},
			{"pdf/docs/a.md", "a", 200},
			{"pdf/logo.png", "\x89PNG\x00", 200},
			{"pdf/nothing.md", "", 404},
			{"pdf/docs", "", 404},
			{"mine/SKILL.md", "", 404},
			{"nothing/SKILL.md", "", 404},
		} {
			a := w.Anonymous().Get("/.well-known/skills/" + c.path).Want(c.status)
			if c.status == http.StatusOK && string(a.Body) != c.content {
				t.Errorf("%s: %q, want %q", c.path, a.Body, c.content)
			}
		}
		if got := w.Anonymous().Get("/.well-known/skills/pdf/SKILL.md").Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("Content-Type %q", got)
		}
		w.Anonymous().Get(base("acme", ada.Key) + "/.well-known/skills/mine/SKILL.md").Want(http.StatusOK)
	})
}

func TestDiscoveryProtocol(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("pdf", "1", registrytest.Skill(t, "One."), object{"visibility": "public"})
		archive := registrytest.Resolve(t, newIndex, w.Anonymous().Get(newIndex).List("skills")[0])
		for _, path := range []string{newIndex, oldIndex, archive, "/.well-known/skills/pdf/SKILL.md"} {
			get := w.Anonymous().Get(path).Want(http.StatusOK)
			head := w.Anonymous().Do(http.MethodHead, path, nil).Want(http.StatusOK)
			if fmt.Sprint(len(get.Body)) != head.Header.Get("Content-Length") || len(head.Body) != 0 {
				t.Errorf("HEAD %s: Content-Length %q, want %d", path, head.Header.Get("Content-Length"), len(get.Body))
			}
			again := w.Anonymous().Do(http.MethodGet, path, nil, "If-None-Match: "+get.Header.Get("ETag"))
			if get.Header.Get("ETag") == "" || again.Status != http.StatusNotModified {
				t.Errorf("GET %s again: status %d with ETag %q", path, again.Status, get.Header.Get("ETag"))
			}
		}
		for _, path := range []string{
			"/.well-known/agent-skills/pdf/x.tar.gz", "/.well-known/agent-skills/pdf/" + strings.Repeat("0", 64) + ".tar.gz",
			"/.well-known/agent-skills/pdf/SKILL.md", strings.TrimSuffix(archive, ".tar.gz"), strings.Replace(archive, "pdf", "docx", 1),
			"/.well-known/agent-skills/a%00/x.tar.gz", "/o/acme/x" + archive,
		} {
			w.Anonymous().Get(path).Want(http.StatusNotFound)
		}
	})
}
