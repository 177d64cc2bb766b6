package sources_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		skillID := w.Skill(ada, "pdf")

		upload := ada.Post(sourcesPath, object{
			"type": "upload", "label": "mine", "skill_id": strings.ToUpper(skillID),
			"new": 1,
		}).Want(http.StatusCreated).Object()
		wantKeys(t, upload, "id", "label", "sourceType", "skillId", "createdAt")
		want := object{
			"id": upload["id"], "label": "mine", "sourceType": "upload", "skillId": skillID,
			"createdAt": upload["createdAt"],
		}
		if diff := cmp.Diff(want, upload); diff != "" {
			t.Errorf("upload source (-want +got):\n%s", diff)
		}
		if id := text(upload, "id"); !strings.HasPrefix(id, "src_") || uuid.Validate(strings.TrimPrefix(id, "src_")) != nil {
			t.Errorf("id %q, want src_ and a UUID", id)
		}

		repo := ada.Post(sourcesPath, object{
			"type": "repohost", "label": "theirs", "installation_id": 7,
			"repo_full_name": "acme/skills",
		}).Want(http.StatusCreated).Object()
		want = object{
			"id": repo["id"], "label": "theirs", "sourceType": "repohost", "skillId": nil, "createdAt": repo["createdAt"],
			"repoFullName": "acme/skills", "installationId": 7.0, "defaultBranch": "main", "skillPath": ".",
		}
		if diff := cmp.Diff(want, repo); diff != "" {
			t.Errorf("repohost source (-want +got):\n%s", diff)
		}
		given := ada.Detail(ada.Made(object{
			"type": "repohost", "label": "x", "installation_id": 7, "repo_full_name": "acme/skills",
			"default_branch": "feature/x", "skill_path": "skills/pdf",
		}))
		if text(given, "defaultBranch") != "feature/x" || text(given, "skillPath") != "skills/pdf" {
			t.Errorf("got %v", given)
		}

		empty := ada.Detail(text(upload, "id"))
		wantKeys(t, empty, "id", "label", "sourceType", "skillId", "createdAt", "currentSnapshot", "snapshots", "validationReports",
			"evalSuggestions", "evalSuggestionCount", "reviewedSuggestions", "reviewedSuggestionCount", "evalSuites")
		for _, list := range []string{"snapshots", "validationReports", "evalSuggestions", "reviewedSuggestions", "evalSuites"} {
			if len(objects(t, empty, list)) != 0 {
				t.Errorf("%s of an empty source: %v", list, empty[list])
			}
		}
		if empty["currentSnapshot"] != nil {
			t.Errorf("current snapshot of an empty source: %v", empty["currentSnapshot"])
		}
	})
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		repo := func(change object) object {
			o := object{"type": "repohost", "label": "x", "installation_id": 1, "repo_full_name": "a/b"}
			for k, v := range change {
				o[k] = v
			}
			return o
		}
		for _, c := range []struct {
			body       object
			path, text string
		}{
			{object{"label": "x"}, "type", "required"},
			{object{"type": "ftp", "label": "x"}, "type", "one of"},
			{object{"type": "upload"}, "label", "required"},
			{object{"type": "upload", "label": ""}, "label", "1 to 200"},
			{object{"type": "upload", "label": "  "}, "label", "1 to 200"},
			{object{"type": "upload", "label": strings.Repeat("x", 201)}, "label", "1 to 200"},
			{object{"type": "upload", "label": 7}, "label", "string"},
			{object{"type": "upload", "label": "x", "skill_id": "x"}, "skill_id", "uuid"},
			{object{"type": "upload", "label": "x", "skill_id": uuid.NewString()}, "skill_id", "names no skill"},
			{object{"type": "upload", "label": "x", "skill_id": w.Skill(eve, "pdf")}, "skill_id", "names no skill"},
			{repo(object{"label": ""}), "label", "1 to 200"},
			{repo(object{"installation_id": nil}), "installation_id", "required"},
			{repo(object{"installation_id": "7"}), "installation_id", "integer"},
			{repo(object{"installation_id": -1}), "installation_id", "positive"},
			{repo(object{"repo_full_name": nil}), "repo_full_name", "required"},
			{repo(object{"repo_full_name": "acme"}), "repo_full_name", "owner/repo"},
			{repo(object{"repo_full_name": "a/b/c"}), "repo_full_name", "owner/repo"},
			{repo(object{"repo_full_name": "../b"}), "repo_full_name", "owner/repo"},
			{repo(object{"default_branch": "a..b"}), "default_branch", "branch"},
			{repo(object{"default_branch": "-f"}), "default_branch", "branch"},
			{repo(object{"skill_path": "/etc"}), "skill_path", "relative"},
			{repo(object{"skill_path": "a/../../b"}), "skill_path", "relative"},
		} {
			ada.Post(sourcesPath, c.body).WantIssueWith(c.path, c.text)
		}
		w.WantNothing()
		ada.Made(object{"type": "upload", "label": strings.Repeat("ä", 200)})
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		ids := func(query string) []string {
			t.Helper()
			var list []object
			a := ada.Get(sourcesPath + query).Want(http.StatusOK)
			a.Into(&list)
			got := []string{}
			for _, o := range list {
				wantKeys(t, o, "id", "label", "sourceType", "skillId", "createdAt")
				got = append(got, text(o, "id"))
			}
			return got
		}
		if body := string(ada.Get(sourcesPath).Want(http.StatusOK).Body); strings.TrimSpace(body) != "[]" {
			t.Errorf("no sources: %s, want []", body)
		}
		skillID := w.Skill(ada, "pdf")
		a := ada.Made(object{"type": "upload", "label": "a"})
		b := ada.Linked("pdf")
		c := ada.Made(object{"type": "repohost", "label": "c", "installation_id": 1, "repo_full_name": "a/b", "skill_id": skillID})
		eve.Made(object{"type": "upload", "label": "hers"})
		for query, want := range map[string][]string{
			"":                     {c, b, a},
			"?type=upload":         {b, a},
			"?type=repohost":       {c},
			"?skill_id=" + skillID: {c, b},
			"?type=upload&skill_id=" + strings.ToUpper(skillID): {b},
			"?skill_id=" + uuid.NewString():                     {},
		} {
			if diff := cmp.Diff(want, ids(query)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", query, diff)
			}
		}
		ada.Get(sourcesPath+"?type=ftp").WantIssueWith("type", "one of")
		ada.Get(sourcesPath+"?skill_id=x").WantIssueWith("skill_id", "uuid")
	})
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		skillID := w.Skill(ada, "pdf")
		id := ada.Made(object{"type": "upload", "label": "a"})
		patch := func(body object) answer { return ada.Do(http.MethodPatch, sourcePath(id), body) }

		got := patch(object{"label": "b", "skill_id": skillID}).Want(http.StatusOK).Object()
		if text(got, "label") != "b" || text(got, "skillId") != skillID {
			t.Errorf("got %v", got)
		}
		if got := patch(object{}).Want(http.StatusOK).Object(); text(got, "label") != "b" || text(got, "skillId") != skillID {
			t.Errorf("nothing changed, but %v", got)
		}
		if got := patch(object{"skill_id": ""}).Want(http.StatusOK).Object(); got["skillId"] != nil || text(got, "label") != "b" {
			t.Errorf("unlinked: %v", got)
		}
		upper := patch(object{"skill_id": strings.ToUpper(skillID)}).Want(http.StatusOK).Object()
		if text(upper, "skillId") != skillID {
			t.Errorf("linked by an id in upper case: %v", upper)
		}
		patch(object{"label": ""}).WantIssueWith("label", "1 to 200")
		patch(object{"skill_id": "x"}).WantIssueWith("skill_id", "UUID")
		patch(object{"skill_id": uuid.NewString()}).WantIssueWith("skill_id", "names no skill")
	})
}

// TestDelete: nothing of a source remains, and all of the others.
func TestDelete(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		w.Work()
		ada := w.Org("acme")
		archive := zipped(t, "SKILL.md", skillText)
		gone, stays := text(ada.Uploaded(archive), "id"), text(ada.Uploaded(archive), "id")
		for _, id := range []string{gone, stays} {
			ada.Upload(sourcesPath+"/upload", field("source_id", id), archivePart(zipped(t, "SKILL.md", skillText, "a", "b"))).
				Want(http.StatusCreated)
			ada.Review(id, nil).Want(http.StatusOK)
		}
		w.Exec(`
			INSERT INTO source_suggestions (id, org_id, source_id, should_trigger, evidence, provenance, rationale,
				observed_count, confidence, last_observed_at, reviewed)
			VALUES ('x', $1, $2, TRUE, 'hosted_run', 'run_failure', '', 1, 0.5, 0, FALSE)`, ada.Org.ID, strings.TrimPrefix(gone, "src_"))
		before := w.BlobKeys()
		ada.Do(http.MethodDelete, sourcePath(gone), nil).Want(http.StatusNoContent)
		ada.Do(http.MethodDelete, sourcePath(gone), nil).WantErrorWith(http.StatusNotFound, "Cloud source not found")
		ada.Get(sourcePath(gone)).WantErrorWith(http.StatusNotFound, "Cloud source not found")
		w.Settle()
		want := slices.DeleteFunc(before, func(key string) bool { return strings.Contains(key, strings.TrimPrefix(gone, "src_")) })
		if diff := cmp.Diff(want, w.BlobKeys()); diff != "" || len(want) != 2 {
			t.Errorf("bytes (-want +got):\n%s", diff)
		}
		for table, n := range map[string]int{
			"cloud_sources": 1, "source_snapshots": 2, "source_reports": 2,
			"source_suggestions": 0, "source_reviews": 1,
		} {
			if got := w.Count(table); got != n {
				t.Errorf("%s has %d rows, want %d", table, got, n)
			}
		}
		if got := len(objects(t, ada.Detail(stays), "snapshots")); got != 2 {
			t.Errorf("the other source has %d snapshots, want 2", got)
		}
	})
}
