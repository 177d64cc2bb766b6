package registry_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		archive := registrytest.Skill(t, "Reads tables.", "scripts/run.sh", "echo hi\n")
		files := map[string]string{"SKILL.md": registrytest.SkillText("Reads tables."), "scripts/run.sh": "echo hi\n"}

		got := ada.Create("pdf-tables", "1.0.0", archive, object{
			"content_hash": registrytest.Sum(archive), "file_manifest": registrytest.Manifest(files), "change_summary": "first", "some_other_field": 1,
		}).Want(http.StatusCreated).Object()
		apptest.WantKeys(t, got, "entry", "version")
		entry, version := got["entry"].(object), got["version"].(object)
		registrytest.DropVarying(t, entry, []string{"id", "skill_id"}, []string{"created_at", "updated_at"})
		registrytest.DropVarying(t, version, []string{"id"}, []string{"pushed_at"})
		want := object{
			"name": "pdf-tables", "entry_type": "skill", "description": "Reads tables.", "visibility": "org", "source_repo": nil,
		}
		if diff := cmp.Diff(want, entry); diff != "" {
			t.Errorf("entry (-want +got):\n%s", diff)
		}
		want = object{
			"version": "1.0.0", "content_hash": registrytest.Sum(archive), "change_summary": "first", "source": "cli", "source_ref": nil,
			"source_repo": nil, "is_current": true, "rolled_back": false, "state": "published", "withdrawn_reason": nil, "gate_id": nil,
			"pushed_by": ada.User.ID, "size": float64(len(archive)),
			"aggregate_pass_rate": nil, "aggregate_pass_rate_basis": nil, "aggregate_sessions": 0.0, "aggregate_trigger_rate": nil,
			"version_basis_counts": object{"hash": 0.0, "plugin": 0.0, "installation": 0.0, "time": 0.0}, "cost": nil,
			"file_manifest": []any{
				object{"path": "SKILL.md", "hash": registrytest.Sum([]byte(files["SKILL.md"])), "size": float64(len(files["SKILL.md"]))},
				object{"path": "scripts/run.sh", "hash": registrytest.Sum([]byte("echo hi\n")), "size": 8.0},
			},
		}
		if diff := cmp.Diff(want, version); diff != "" {
			t.Errorf("version (-want +got):\n%s", diff)
		}

		ada.Create("pdf-tables", "2.0.0", registrytest.Skill(t, "Other.")).
			WantErrorWith(http.StatusConflict, "An entry named pdf-tables exists")
		w.Org("other", access.Pro).Made("pdf-tables", "1.0.0", archive)
	})
}

func TestCreateFields(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		plain := registrytest.Skill(t, "From the file.")
		for i, c := range []struct {
			name    string
			archive []byte
			fields  object
			field   string
			want    any
		}{
			{"skill", plain, object{"entry_type": "skill"}, "entry_type", "skill"},
			{"agent without a SKILL.md", registrytest.Pack(t, registrytest.File("agent.md", "x")), object{"entry_type": "agent"}, "entry_type", "agent"},
			{"command", registrytest.Pack(t, registrytest.File("c.md", "x")), object{"entry_type": "command"}, "entry_type", "command"},
			{"hook", registrytest.Pack(t, registrytest.File("h.sh", "x")), object{"entry_type": "hook"}, "entry_type", "hook"},
			{"bundle", registrytest.Pack(t, registrytest.File("a/SKILL.md", registrytest.SkillText("A.")), registrytest.File("b/SKILL.md", registrytest.SkillText("B."))), object{"entry_type": "bundle"}, "entry_type", "bundle"},
			{"agent with a SKILL.md", plain, object{"entry_type": "agent"}, "description", "From the file."},
			{"public", plain, object{"visibility": "public"}, "visibility", "public"},
			{"unlisted", plain, object{"visibility": "unlisted"}, "visibility", "unlisted"},
			{"org", plain, object{"visibility": "org"}, "visibility", "org"},
			{"repository", plain, object{"source_repo": "acme/skills"}, "source_repo", "acme/skills"},
			{"description of its own", plain, object{"description": "Said."}, "description", "Said."},
			{"empty description", plain, object{"description": ""}, "description", ""},
			{"nulls", plain, object{"description": nil, "entry_type": nil, "visibility": nil, "file_manifest": nil, "content_hash": nil}, "description", "From the file."},
			{"upper-case hash", plain, object{"content_hash": strings.ToUpper(registrytest.Sum(plain))}, "visibility", "org"},
			{"in a folder", registrytest.Pack(t, registrytest.File("demo/SKILL.md", registrytest.SkillText("Wrapped."))), nil, "description", "Wrapped."},
			{"no description", registrytest.Pack(t, registrytest.File("SKILL.md", "# Only text\n")), nil, "description", ""},
			{"names beyond ASCII", registrytest.Skill(t, "Long names.", "références/é.md", "x"), nil, "description", "Long names."},
			{"NUL in the file", registrytest.Pack(t, registrytest.File("SKILL.md", registrytest.SkillText(`"a\0b"`))), nil, "description", "a\ufffdb"},
			{"name that hides the skill", plain, object{"name": "third-party"}, "skill_id", nil},
			{"name too long for a skill's", plain, object{"name": strings.Repeat("表", 100)}, "skill_id", nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				got := ada.In(t).Create(fmt.Sprintf("entry %d", i), "1", c.archive, c.fields).Want(http.StatusCreated).Object()
				if diff := cmp.Diff(c.want, apptest.At(got, "entry", c.field)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.field, diff)
				}
			})
		}
	})
}

func TestMetadataAsFile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		m := apptest.JSONPart(t, "metadata", object{"name": "pdf", "version": "1"})
		m.File = "metadata.json"
		ada.Upload(registrytest.Path, registrytest.ArchivePart(registrytest.Skill(t, "A.")), m).Want(http.StatusCreated)
	})
}

func TestPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		one, two := registrytest.Skill(t, "One."), registrytest.Skill(t, "Two.")
		id := ada.Made("pdf", "1.0.0", one)

		pushed := ada.Push(id, "1.1.0", two, object{
			"name": "pdf", "entry_type": "skill", "content_hash": registrytest.Sum(two), "change_summary": "better", "source_repo": "acme/skills",
		}).Want(http.StatusCreated).Object()
		apptest.WantKeys(t, pushed, "entry", "version")
		if apptest.Text(pushed, "entry", "id") != id || apptest.Text(pushed, "version", "content_hash") != registrytest.Sum(two) ||
			apptest.At(pushed, "version", "is_current") != true || apptest.Text(pushed, "version", "source_repo") != "acme/skills" ||
			apptest.Text(pushed, "version", "change_summary") != "better" {
			t.Errorf("pushed %v", pushed)
		}
		if got := ada.Current(id); got != "1.1.0" {
			t.Errorf("current is %s, want the pushed version", got)
		}

		again := ada.Push(id, "1.0.0", one).Want(http.StatusOK).Object()
		if apptest.Text(again, "version", "id") != apptest.Text(ada.Versions(id)["1.0.0"], "id") ||
			apptest.At(again, "version", "is_current") != false {
			t.Errorf("the same push again gave %v", again["version"])
		}
		if got := ada.Current(id); got != "1.1.0" {
			t.Errorf("current is %s after a push that changed nothing", got)
		}
		ada.Push(id, "1.0.0", two).WantErrorWith(http.StatusConflict, "Version 1.0.0 exists with other content")
		ada.Pushed(id, "1.2.0", two) // the same content under another name

		ada.Push(id, "2", one, object{"name": "docx"}).WantIssueWith("name", "name must be pdf")
		ada.Push(uuid.NewString(), "1", one).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		ada.Push("no-id", "1", one).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		if n := len(ada.Versions(id)); n != 3 {
			t.Errorf("%d versions, want 3", n)
		}
	})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.Made("pdf", "v10", registrytest.Skill(t, "1."))
		ada.Pushed(id, "v9", registrytest.Skill(t, "2."))
		ada.Pushed(id, "1.0.0-beta+build 7", registrytest.Skill(t, "3."))
		answer := ada.Get(registrytest.EntryPath(id) + "/versions").Want(http.StatusOK)
		apptest.WantKeys(t, answer.Object(), "versions")
		var names []string
		for _, v := range answer.List("versions") {
			names = append(names, apptest.Text(v, "version"))
			apptest.WantKeys(t, v, "id", "version", "content_hash", "change_summary", "file_manifest", "source", "source_ref",
				"source_repo", "is_current", "rolled_back", "state", "gate_id", "pushed_at", "pushed_by", "size", "aggregate_pass_rate", "aggregate_pass_rate_basis",
				"aggregate_sessions", "aggregate_trigger_rate", "version_basis_counts", "cost", "withdrawn_reason")
		}
		if diff := cmp.Diff([]string{"1.0.0-beta+build 7", "v9", "v10"}, names); diff != "" {
			t.Errorf("newest push first (-want +got):\n%s", diff)
		}
		ada.Get(registrytest.EntryPath(uuid.NewString())+"/versions").WantErrorWith(http.StatusNotFound, "Registry entry not found")
		ada.Get(registrytest.VersionPath(id, "1.0.0-beta+build%207") + "/download").Want(http.StatusOK)
		// An entry may be deleted between being found and being read.
		_, err := registry.VersionsAfter(t.Context(), db, registry.Entry{ID: uuid.NewString()}, true, nil, 100)
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("versions of no entry: %v, want it not found", err)
		}
	})
}
