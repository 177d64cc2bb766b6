package clawhub_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

const path = "/api/v1/skills"

// folder is a skill as clients send it.
func folder(description string) []string {
	return []string{"SKILL.md", registrytest.SkillText(description), "scripts/x.sh", "#!/bin/sh\necho hi\n"}
}

// form is a publish as older clients send it.
func form(c *registrytest.Client, base string, payload object, files ...string) apptest.Response {
	c.T.Helper()
	parts := []apptest.Part{apptest.JSONPart(c.T, "payload", apptest.With(object{
		"slug": "pdf", "displayName": "PDF", "version": "1.0.0", "changelog": "", "tags": []string{"latest"},
	}, payload))}
	for i := 0; i < len(files); i += 2 {
		parts = append(parts, apptest.Part{Name: "files", File: files[i], Content: []byte(files[i+1])})
	}
	return c.Upload(base+path, parts...)
}

// TestPublish publishes in both ways, at all bases.
func TestPublish(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		for way, publish := range map[string]func(*registrytest.Client, string, object, ...string) apptest.Response{
			"uploads": published, "form": form,
		} {
			for at, base := range map[string]string{"root": "", "org": base("acme"), "token": base("acme", ada.Key)} {
				slug := way + "-" + at
				a := publish(ada, base, object{"slug": slug, "ownerHandle": "ACME", "changelog": "First.", "source": object{
					"kind": "github", "repo": "acme/skills", "ref": "main", "commit": "0123456789", "path": ".", "importedAt": 1,
				}}, folder("One.")...).Want(http.StatusOK).Object()
				apptest.WantKeys(t, a, "ok", "skillId", "versionId", "slug", "version", "status", "publicationStatus")
				if a["ok"] != true || apptest.Text(a, "publicationStatus") != "published" {
					t.Errorf("%s: %v", slug, a)
				}
				v := ada.Versions(apptest.Text(a, "skillId"))["1.0.0"]
				if v["is_current"] != true || apptest.Text(v, "change_summary") != "First." || apptest.Text(v, "source_repo") != "acme/skills" ||
					apptest.Text(v, "source_ref") != "0123456789" {
					t.Errorf("%s: version %v", slug, v)
				}
				want := map[string]string{"SKILL.md": registrytest.SkillText("One."), "scripts/x.sh": "#!/bin/sh\necho hi\n"}
				if diff := cmp.Diff(want, unzipped(t, ada.Get(base+"/api/v1/download?slug="+slug).Want(http.StatusOK).Body)); diff != "" {
					t.Errorf("%s: files (- want, + got):\n%s", slug, diff)
				}
				w.Anonymous().Get("/api/v1/skills/" + slug).Want(http.StatusNotFound) // only the organisation sees it

				publish(ada, base, object{"slug": slug}, folder("One.")...).Want(http.StatusOK) // again
				wantText(publish(ada, base, object{"slug": slug}, folder("Two.")...), http.StatusConflict,
					"Version 1.0.0 exists with other content; versions never change, so push a new one")
				publish(ada, base, object{"slug": slug, "version": "1.0.1"}, folder("Two.")...).Want(http.StatusOK)
				if got := ada.Current(apptest.Text(a, "skillId")); got != "1.0.1" {
					t.Errorf("%s: %s is current", slug, got)
				}
			}
		}
		if n := w.Count("clawhub_uploads"); n != 6 {
			t.Errorf("%d uploads are left, want those of the three that failed", n)
		}
	})
}

// TestPublishRefused has who may not, and what may not.
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob, free := w.Org("acme", access.Pro), w.Org("other", access.Pro), w.Org("poor", access.Free)
		reader := w.Member(ada.Org, access.Viewer)
		bob.Made("taken", "1.0.0", registrytest.Skill(t, "Of other."), public)
		ada.Made("agent", "1.0.0", registrytest.Skill(t, "A."), object{"entry_type": "agent"})
		for _, publish := range []func(*registrytest.Client, string, object, ...string) apptest.Response{published, form} {
			good := folder("One.")
			wantText(publish(w.Anonymous(), "", nil, good...), http.StatusUnauthorized, "This needs an API key: run clawhub login")
			wantText(publish(free, "", nil, good...), http.StatusForbidden, "This needs the pro plan or higher; the organisation is on free")
			wantText(publish(reader, "", nil, good...), http.StatusForbidden, "This needs the permission registry:push")
			wantText(publish(ada, base("other"), nil, good...), http.StatusForbidden, "Your key belongs to acme, not to other")
			wantText(publish(ada, "", object{"ownerHandle": "other"}, good...), http.StatusForbidden,
				"Your key belongs to @acme, so you cannot publish for @other")
			for _, slug := range []string{
				"", "PDF", "a b", "a/b", "..", ".", "-a", "a--b", "a_b", "p\u0434f", "pdf\u200b", "p\u00f6f", strings.Repeat("a", 65), "a\x00b",
			} {
				if a := publish(ada, "", object{"slug": slug}, good...); a.Status != http.StatusBadRequest {
					t.Errorf("slug %q: %d %s", slug, a.Status, a.Body)
				}
			}
			for _, version := range []string{"", "1", "v1.0.0", "1.0.0/../2", "latest", "1.0.0\n", "0.0.0-repohost.0123456"} {
				wantText(publish(ada, "", object{"version": version}, good...), http.StatusBadRequest,
					"The version must be a semantic version, e.g. 1.0.0")
			}
			for name, files := range map[string][]string{
				"none":            {},
				"no SKILL.md":     {"README.md", "x"},
				"lower case":      {"skill.md", registrytest.SkillText("One.")},
				"outside":         {"SKILL.md", registrytest.SkillText("One."), "../x", "x"},
				"absolute":        {"SKILL.md", registrytest.SkillText("One."), "/etc/x", "x"},
				"backslash":       {"SKILL.md", registrytest.SkillText("One."), `a\b`, "x"},
				"twice":           {"SKILL.md", registrytest.SkillText("One."), "x", "x", "x", "y"},
				"case":            {"SKILL.md", registrytest.SkillText("One."), "x", "x", "X", "y"},
				"file and folder": {"SKILL.md", registrytest.SkillText("One."), "x", "x", "x/y", "y"},
				"device":          {"SKILL.md", registrytest.SkillText("One."), "aux", "x"},
				"not in a tar":    {"SKILL.md", registrytest.SkillText("One."), "é.md", "x"},
			} {
				if a := publish(ada, "", nil, files...); a.Status != http.StatusBadRequest {
					t.Errorf("%s: %d %s", name, a.Status, a.Body)
				}
			}
			publish(ada, "", object{"slug": "taken"}, good...).Want(http.StatusOK) // a name of its own organisation
		}
		for name, body := range map[string]string{"no JSON": "{", "an array": "[]", "wrong type": `{"slug":1}`} {
			if a := ada.Do(http.MethodPost, path, body); a.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
		}
		if got := apptest.Text(w.Anonymous().Get("/api/v1/skills/taken").Want(http.StatusOK).Object(), "owner", "handle"); got != "other" {
			t.Errorf("the name belongs to %s", got)
		}
	})
}

// TestUploads has uploads of others, wrong ones, and too many.
func TestUploads(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		colleague := w.Member(ada.Org, access.Owner)
		announce := func(c *registrytest.Client, content string, size int) (id string) {
			t.Helper()
			sum := sha256.Sum256([]byte(content))
			a := c.Post(path+"/-/upload-url", object{"path": "SKILL.md", "size": size, "sha256": hex.EncodeToString(sum[:])}).Want(http.StatusOK)
			at, err := url.Parse(apptest.Text(a.Object(), "uploadUrl"))
			if err != nil {
				t.Fatal(err)
			}
			return at.Path
		}
		content := registrytest.SkillText("One.")
		at := announce(ada, content, len(content))
		for _, other := range []*registrytest.Client{bob, colleague} {
			wantText(other.Do(http.MethodPost, at, content), http.StatusNotFound, "Upload not found")
		}
		w.Anonymous().Do(http.MethodPost, at, content).Want(http.StatusUnauthorized)
		ada.Do(http.MethodPost, at, content+"x").Want(http.StatusBadRequest)
		ada.Do(http.MethodPost, announce(ada, "x", 10<<20), strings.Repeat("x", 10<<20+1)).Want(http.StatusRequestEntityTooLarge)
		id := at[strings.LastIndex(at, "/")+1:]
		payload := object{"slug": "pdf", "version": "1.0.0", "files": []object{{"path": "SKILL.md", "storageId": id}}}
		ada.Post(path, payload).Want(http.StatusBadRequest) // not there yet
		ada.Do(http.MethodPost, at, content).Want(http.StatusOK)
		ada.Do(http.MethodPost, at, content).Want(http.StatusOK)
		for _, other := range []*registrytest.Client{bob, colleague} {
			other.Post(path, payload).Want(http.StatusBadRequest)
		}
		for field, wrong := range map[string]any{"sha256": strings.Repeat("a", 64), "size": len(content) + 1, "uploadTicket": "another"} {
			file := object{"path": "SKILL.md", "storageId": id, field: wrong}
			a := ada.Post(path, object{"slug": "pdf", "version": "1.0.0", "files": []object{file}})
			wantText(a, http.StatusBadRequest, `The `+field+` of the file "SKILL.md" is not the one of its upload; publish again`)
		}
		w.Exec(`UPDATE clawhub_uploads SET created_at = created_at - 3600000000`)
		ada.Post(path, payload).Want(http.StatusBadRequest) // too late
		w.Exec(`UPDATE clawhub_uploads SET created_at = created_at + 3600000000`)
		ada.Post(path, payload).Want(http.StatusOK)
		ada.Post(path, payload).Want(http.StatusBadRequest) // used up

		for _, wrong := range []object{
			{"size": 1, "sha256": "x"}, {"size": 1, "sha256": ""}, {"size": -1, "sha256": strings.Repeat("a", 64)}, {"size": "1"}, {"size": 1e300},
		} {
			ada.Post(path+"/-/upload-url", wrong).Want(http.StatusBadRequest)
		}
		ada.Post(path+"/-/upload-url", object{"size": 10<<20 + 1, "sha256": strings.Repeat("a", 64)}).Want(http.StatusRequestEntityTooLarge)
		for range 19 {
			announce(ada, "x", 10<<20)
		}
		ada.Post(path+"/-/upload-url", object{"size": 10 << 20, "sha256": strings.Repeat("a", 64)}).Want(http.StatusTooManyRequests)
		announce(bob, "x", 1)
		w.Exec(`UPDATE clawhub_uploads SET created_at = created_at - 3600000000`)
		w.RunNow("clawhub.sweep-uploads")
		if n := w.Count("clawhub_uploads"); n != 0 {
			t.Errorf("%d uploads are left", n)
		}
	})
}

// A holding gate makes every version a candidate.
type holding struct{}

func (holding) Admit(context.Context, *store.Tx, registry.Entry, registry.Version) (*api.Gate, bool, error) {
	return &api.Gate{ID: "01a1e589-9ca6-7c08-9fce-2f54e4e2ce54"}, true, nil
}

// TestPublishCandidate publishes what a gate holds.
func TestPublishCandidate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		published(ada, "", nil, folder("One.")...).Want(http.StatusOK)
		w.Registry.OnPush = holding{}
		for range 2 {
			a := published(ada, "", object{"version": "1.0.1"}, folder("Two.")...).Want(http.StatusOK).Object()
			if apptest.Text(a, "publicationStatus") != "pending" || apptest.Text(a, "status") != "pending" ||
				apptest.Text(a, "attemptId") != "01a1e589-9ca6-7c08-9fce-2f54e4e2ce54" {
				t.Errorf("%v", a)
			}
		}
		if got := apptest.Text(ada.Get("/api/v1/skills/pdf").Want(http.StatusOK).Object(), "latestVersion", "version"); got != "1.0.0" {
			t.Errorf("latest %s", got)
		}
		a := published(ada, "", object{"slug": "fresh"}, folder("New.")...).Want(http.StatusOK).Object()
		if apptest.Text(a, "publicationStatus") != "pending" {
			t.Errorf("%v", a)
		}
		wantText(ada.Get("/api/v1/resolve?slug=fresh&hash=00"), http.StatusNotFound, "Skill not found")
		if a := published(ada, "", object{"slug": "fresh"}, folder("New.")...); a.Status != http.StatusOK {
			t.Errorf("again: %d %s", a.Status, a.Body)
		}
	})
}
