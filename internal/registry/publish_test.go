package registry_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

var wireTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// take removes the fields that differ every time from an object, after a
// check that they look right.
func take(t *testing.T, o object, ids, times []string) {
	t.Helper()
	for _, key := range ids {
		if id, err := uuid.Parse(text(o, key)); err != nil || id.Version() != 7 {
			t.Errorf("%s is %v, want a UUIDv7", key, o[key])
		}
		delete(o, key)
	}
	for _, key := range times {
		if !wireTime.MatchString(text(o, key)) {
			t.Errorf("%s is %v, want a time", key, o[key])
		}
		delete(o, key)
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		archive := skill(t, "Reads tables.", "scripts/run.sh", "echo hi\n")
		files := map[string]string{"SKILL.md": skillText("Reads tables."), "scripts/run.sh": "echo hi\n"}

		got := ada.create("pdf-tables", "1.0.0", archive, object{
			"content_hash": sum(archive), "file_manifest": manifest(files), "change_summary": "first", "some_other_field": 1,
		}).want(http.StatusCreated).object()
		wantKeys(t, got, "entry", "version")
		entry, version := got["entry"].(object), got["version"].(object)
		take(t, entry, []string{"id", "skill_id"}, []string{"created_at", "updated_at"})
		take(t, version, []string{"id"}, []string{"pushed_at"})
		want := object{
			"name": "pdf-tables", "entry_type": "skill", "description": "Reads tables.", "visibility": "org", "source_repo": nil,
		}
		if diff := cmp.Diff(want, entry); diff != "" {
			t.Errorf("entry (-want +got):\n%s", diff)
		}
		want = object{
			"version": "1.0.0", "content_hash": sum(archive), "change_summary": "first", "source": "cli", "source_ref": nil,
			"source_repo": nil, "is_current": true, "rolled_back": false, "pushed_by": ada.user.ID, "size": float64(len(archive)),
			"aggregate_pass_rate": nil, "aggregate_sessions": 0.0, "aggregate_trigger_rate": nil,
			"file_manifest": []any{
				object{"path": "SKILL.md", "hash": sum([]byte(files["SKILL.md"])), "size": float64(len(files["SKILL.md"]))},
				object{"path": "scripts/run.sh", "hash": sum([]byte("echo hi\n")), "size": 8.0},
			},
		}
		if diff := cmp.Diff(want, version); diff != "" {
			t.Errorf("version (-want +got):\n%s", diff)
		}

		ada.create("pdf-tables", "2.0.0", skill(t, "Other.")).wantError(http.StatusConflict, "An entry named pdf-tables exists")
		w.org("other", access.Pro).made("pdf-tables", "1.0.0", archive)
	})
}

func TestCreateFields(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		plain := skill(t, "From the file.")
		for i, c := range []struct {
			name    string
			archive []byte
			fields  object
			field   string
			want    any
		}{
			{"skill", plain, object{"entry_type": "skill"}, "entry_type", "skill"},
			{"agent without a SKILL.md", pack(t, file("agent.md", "x")), object{"entry_type": "agent"}, "entry_type", "agent"},
			{"command", pack(t, file("c.md", "x")), object{"entry_type": "command"}, "entry_type", "command"},
			{"hook", pack(t, file("h.sh", "x")), object{"entry_type": "hook"}, "entry_type", "hook"},
			{"bundle", pack(t, file("a/SKILL.md", skillText("A.")), file("b/SKILL.md", skillText("B."))), object{"entry_type": "bundle"}, "entry_type", "bundle"},
			{"agent with a SKILL.md", plain, object{"entry_type": "agent"}, "description", "From the file."},
			{"public", plain, object{"visibility": "public"}, "visibility", "public"},
			{"unlisted", plain, object{"visibility": "unlisted"}, "visibility", "unlisted"},
			{"org", plain, object{"visibility": "org"}, "visibility", "org"},
			{"repository", plain, object{"source_repo": "acme/skills"}, "source_repo", "acme/skills"},
			{"description of its own", plain, object{"description": "Said."}, "description", "Said."},
			{"empty description", plain, object{"description": ""}, "description", ""},
			{"nulls", plain, object{"description": nil, "entry_type": nil, "visibility": nil, "file_manifest": nil, "content_hash": nil}, "description", "From the file."},
			{"upper-case hash", plain, object{"content_hash": fmt.Sprintf("%X", mustHex(sum(plain)))}, "visibility", "org"},
			{"in a folder", pack(t, file("demo/SKILL.md", skillText("Wrapped."))), nil, "description", "Wrapped."},
			{"no description", pack(t, file("SKILL.md", "# Only text\n")), nil, "description", ""},
			{"names beyond ASCII", skill(t, "Long names.", "références/é.md", "x"), nil, "description", "Long names."},
			{"NUL in the file", pack(t, file("SKILL.md", skillText(`"a\0b"`))), nil, "description", "a\ufffdb"},
			{"name that hides the skill", plain, object{"name": "third-party"}, "skill_id", nil},
			{"name too long for a skill's", plain, object{"name": strings.Repeat("表", 100)}, "skill_id", nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				got := ada.in(t).create(fmt.Sprintf("entry %d", i), "1", c.archive, c.fields).want(http.StatusCreated).object()
				if diff := cmp.Diff(c.want, at(got, "entry", c.field)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.field, diff)
				}
			})
		}
	})
}

func mustHex(s string) (b []byte) {
	if _, err := fmt.Sscanf(s, "%x", &b); err != nil {
		panic(err)
	}
	return b
}

func TestMetadataAsFile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		m := metadata(object{"name": "pdf", "version": "1"})
		m.file = "metadata.json"
		ada.upload(registryPath, archivePart(skill(t, "A.")), m).want(http.StatusCreated)
	})
}

func TestPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		one, two := skill(t, "One."), skill(t, "Two.")
		id := ada.made("pdf", "1.0.0", one)

		pushed := ada.push(id, "1.1.0", two, object{
			"name": "pdf", "entry_type": "skill", "content_hash": sum(two), "change_summary": "better", "source_repo": "acme/skills",
		}).want(http.StatusCreated).object()
		wantKeys(t, pushed, "entry", "version")
		if text(pushed, "entry", "id") != id || text(pushed, "version", "content_hash") != sum(two) ||
			at(pushed, "version", "is_current") != true || text(pushed, "version", "source_repo") != "acme/skills" ||
			text(pushed, "version", "change_summary") != "better" {
			t.Errorf("pushed %v", pushed)
		}
		if got := ada.current(id); got != "1.1.0" {
			t.Errorf("current is %s, want the pushed version", got)
		}

		again := ada.push(id, "1.0.0", one).want(http.StatusOK).object()
		if text(again, "version", "id") != text(ada.versions(id)["1.0.0"], "id") || at(again, "version", "is_current") != false {
			t.Errorf("the same push again gave %v", again["version"])
		}
		if got := ada.current(id); got != "1.1.0" {
			t.Errorf("current is %s after a push that changed nothing", got)
		}
		ada.push(id, "1.0.0", two).wantError(http.StatusConflict, "Version 1.0.0 exists with other content")
		ada.push(id, "1.2.0", two).want(http.StatusCreated) // the same content under another name

		ada.push(id, "2", one, object{"name": "docx"}).wantInvalid("name", "name must be pdf")
		ada.push(uuid.NewString(), "1", one).wantError(http.StatusNotFound, "Registry entry not found")
		ada.push("no-id", "1", one).wantError(http.StatusNotFound, "Registry entry not found")
		if n := len(ada.versions(id)); n != 3 {
			t.Errorf("%d versions, want 3", n)
		}
	})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		id := ada.made("pdf", "v10", skill(t, "1."))
		ada.push(id, "v9", skill(t, "2.")).want(http.StatusCreated)
		ada.push(id, "1.0.0-beta+build 7", skill(t, "3.")).want(http.StatusCreated)
		answer := ada.get(entryPath(id) + "/versions").want(http.StatusOK)
		wantKeys(t, answer.object(), "versions")
		var names []string
		for _, v := range answer.list("versions") {
			names = append(names, text(v, "version"))
			wantKeys(t, v, "id", "version", "content_hash", "change_summary", "file_manifest", "source", "source_ref", "source_repo",
				"is_current", "rolled_back", "pushed_at", "pushed_by", "size", "aggregate_pass_rate", "aggregate_sessions", "aggregate_trigger_rate")
		}
		if diff := cmp.Diff([]string{"1.0.0-beta+build 7", "v9", "v10"}, names); diff != "" {
			t.Errorf("newest push first (-want +got):\n%s", diff)
		}
		ada.get(entryPath(uuid.NewString())+"/versions").wantError(http.StatusNotFound, "Registry entry not found")
		ada.get(versionPath(id, "1.0.0-beta+build%207") + "/download").want(http.StatusOK)
		// An entry may be deleted between being found and being read.
		if _, err := registry.VersionsAfter(t.Context(), db, registry.Entry{ID: uuid.NewString()}, nil, 100); !fault.Is(err, fault.NotFound) {
			t.Errorf("versions of no entry: %v, want it not found", err)
		}
	})
}
