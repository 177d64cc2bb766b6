package sources_test

import (
	"net/http"
	"testing"

	public "github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// TestPublicClient covers sources and suggestions through the public client.
func TestPublicClient(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		ctx := t.Context()
		c := public.New(public.Options{Server: w.Server.URL, APIKey: ada.Key})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		made, err := c.UploadSource(ctx, public.SourceUpload{
			Label: "mine", SkillID: w.Skill(ada, "pdf"),
			Archive: zipped(t, "SKILL.md", skillText),
		})
		must(err)
		if made.ID == "" || made.Label != "mine" || !made.Snapshot.IsCurrent || !made.Snapshot.Runnable || len(made.Reports) != 1 {
			t.Errorf("upload %+v", made)
		}
		again, err := c.UploadSource(ctx, public.SourceUpload{SourceID: made.ID, Archive: tarGz(t, "SKILL.md", skillText)})
		must(err)
		if again.Snapshot.ID != made.Snapshot.ID {
			t.Errorf("the same content is the snapshot %s and %s", made.Snapshot.ID, again.Snapshot.ID)
		}
		repo, err := c.CreateSource(ctx, api.NewSource{Type: "repohost", Label: "theirs", InstallationID: 1, RepoFullName: "a/b"})
		must(err)
		ada.Bind(1, "a")
		commit := w.Repos.Create("a/b").Push("first", map[string]string{"SKILL.md": skillText})
		synced, err := c.SyncSource(ctx, repo.ID)
		must(err)
		if synced.Snapshot.CommitSHA == nil || *synced.Snapshot.CommitSHA != commit {
			t.Errorf("sync %+v", synced)
		}
		listed, err := c.Sources(ctx, "repohost")
		must(err)
		if len(listed) != 1 || listed[0].ID != repo.ID {
			t.Errorf("listed %+v", listed)
		}
		must(c.DeleteSource(ctx, repo.ID))

		ada.Push(sourcestest.Prompt{Text: "Read the table", Skill: "pdf"})
		w.Derive(ada, made.ID)
		detail, err := c.Source(ctx, made.ID)
		must(err)
		if len(detail.Suggestions) != 1 || detail.SuggestionCount != 1 || detail.CurrentSnapshot == nil {
			t.Fatalf("detail %+v", detail)
		}
		s := detail.Suggestions[0]
		review, err := c.ReviewSuggestion(ctx, made.ID, s, "rejected")
		must(err)
		if review.ReviewStatus != "rejected" || review.SuggestionID != s.ID {
			t.Errorf("review %+v", review)
		}
		must(c.ClearReview(ctx, made.ID, s.ID))
		if err := c.ClearReview(ctx, made.ID, s.ID); public.Status(err) != http.StatusNotFound {
			t.Errorf("cleared twice: %v", err)
		}
		suiteID := ada.Suite(made.ID, "llm_judge")
		suite, review, err := c.ApplySuggestion(ctx, made.ID, s, suiteID)
		must(err)
		if suite.ID != suiteID || *review.AcceptTarget != "saved_suite" || review.AppliedToSuiteAt == nil {
			t.Errorf("applied %+v %+v", suite, review)
		}
	})
}
