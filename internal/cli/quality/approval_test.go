package quality

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
)

// TestReviewsOnTheCodeHost is about what is said of approvals in pull requests. Logins and
// addresses are the code host's, and do not move the cursor.
func TestReviewsOnTheCodeHost(t *testing.T) {
	t.Parallel()
	var r api.VersionReview
	err := json.Unmarshal([]byte(`{"approvals":[{"name":"Ben","decision":"approve","counts":true,
		"review":{"repository":"acme/skills","number":12,"url":"https://code.example/acme/skills/pull/12#review-3\u001b[2J"}}],
		"pull_request":{"number":12,"url":"https://code.example/x","problem":"","ignored":[{"login":"eve\u001b[2J","reason":"approved an earlier commit"}]}}`), &r)
	if err != nil {
		t.Fatal(err)
	}
	if got := decisionText(r.Approvals[0]); !strings.HasPrefix(got, "approved in acme/skills#12 (https://code.example/acme/skills/pull/12#review-3") {
		t.Errorf("got %q", got)
	}
	var out strings.Builder
	printPull(&out, *r.PullRequest)
	if got := out.String(); !strings.Contains(got, "in pull request #12 does not count: the account approved an earlier commit.") {
		t.Errorf("got %q", got)
	}
	r.PullRequest.Problem = "it does not change the skill"
	out.Reset()
	printPull(&out, *r.PullRequest)
	if got := out.String(); got != "No review of pull request #12 counts: it does not change the skill. https://code.example/x\n" {
		t.Errorf("got %q", got)
	}
	if all := decisionText(r.Approvals[0]) + out.String(); strings.Contains(all, "\x1b") {
		t.Errorf("a control character is printed: %q", all)
	}
}
