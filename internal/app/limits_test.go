package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/deliver/sets"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	codehost "github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// TestSchemaLimits: the API's schema states the limits and defaults of a field
// again, in struct tags, which cannot name a constant. They must be those of the
// capability, which its operations and the dashboard go by.
func TestSchemaLimits(t *testing.T) {
	connection := codehost.DefaultConnection()
	for _, c := range []struct {
		path, field, keyword string
		want                 any
	}{
		{"/api/v1/repohost/installations", "installation_id", "maximum", float64(codehost.MaxInstallationID)},
		{"/api/v1/repohost/installations", "account_login", "maxLength", float64(codehost.MaxAccountLogin)},
		{"/api/v1/repohost/connections", "default_branch", "description", fmt.Sprintf("(default: %q)", connection.DefaultBranch)},
		{"/api/v1/repohost/connections", "skill_path", "description", fmt.Sprintf("Folder of the skill in the repository (default: %q)", connection.SkillPath)},
		{"/api/v1/repohost/connections", "tag_pattern", "description", fmt.Sprintf("Glob of the tags that are published (default: %q)", connection.TagPattern)},
		{"/api/v1/eval-suites", "name", "maxLength", float64(suites.MaxName)},
		{"/api/v1/eval-suites/{id}/runs", "trials", "maximum", float64(runs.MaxTrials)},
		{"/api/v1/sets", "name", "maxLength", float64(sets.MaxName)},
		{"/api/v1/sets", "description", "maxLength", float64(sets.MaxDescription)},
		{"/api/v1/sets", "entries", "maxItems", float64(sets.MaxEntries)},
		{"/api/v1/sets", "teams", "maxItems", float64(sets.MaxTeams)},
		{"/api/v1/sets", "repositories", "maxItems", float64(sets.MaxRepositories)},
		{"/api/v1/comparisons", "trials", "maximum", float64(runs.MaxTrials)},
		{"/api/v1/comparisons", "arms", "maxItems", float64(comparisons.MaxArms)},
		{"/api/v1/comparisons", "arms", "minItems", float64(comparisons.MinArms)},
		{"/api/v1/comparisons", "margin", "maximum", comparisons.MaxMargin},
		{"/api/v1/improve-runs", "max_iterations", "maximum", float64(improve.MaxIterations)},
		{"/api/v1/improve-runs", "max_iterations", "description", fmt.Sprintf("How many candidates to try (default: %d)", improve.DefaultIterations)},
		{"/api/v1/improve-runs", "holdout", "minimum", improve.MinHoldout},
		{"/api/v1/improve-runs", "holdout", "maximum", improve.MaxHoldout},
		{"/api/v1/improve-runs", "holdout", "description", fmt.Sprintf("Share of the cases that are not written from: half of them choose, half of them prove (default: %v)", improve.DefaultHoldout)},
	} {
		if got := schemaOf(t, c.path, c.field)[c.keyword]; got != c.want {
			t.Errorf("POST %s: %s of %s is %v, want %v", c.path, c.keyword, c.field, got, c.want)
		}
	}
}

// schemaOf returns the schema of a field in the body of a POST request.
func schemaOf(t *testing.T, path, field string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema struct {
							Ref string `json:"$ref"`
						} `json:"schema"`
					} `json:"content"`
				} `json:"requestBody"`
			} `json:"post"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	ref := document.Paths[path].Post.RequestBody.Content["application/json"].Schema.Ref
	return document.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")].Properties[field]
}
