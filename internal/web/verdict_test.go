package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// agoText is a time relative to now.
var agoText = regexp.MustCompile(` (just now|\d+ (min|h|days?) ago)`)

// TestVerdicts: people grade a session on its page; another verdict of the same
// person replaces the first.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		viewer, member, other := w.as(access.Viewer), w.as(access.Member), w.as(access.Member)
		member.traced("first", "pdf", time.Now().Add(-2*time.Hour))
		const path = "/sessions/first/grades"
		say := func(verdict, reason string) *page {
			return member.post(path, url.Values{"skill": {member.skillID("pdf")}, "verdict": {verdict}, "reason": {reason}})
		}
		grades := func(b *browser) (all []string) {
			for _, row := range b.get("/sessions/first").want(http.StatusOK).rows() {
				all = append(all, agoText.ReplaceAllString(row, ""))
			}
			return all
		}
		p := member.get("/sessions/first").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Did pdf do well?").wantNoText("You said")
		viewer.get("/sessions/first").wantText("pdf 20 % reported").wantNoText("Did pdf do well?")

		say("fail", "It lost a column.").wantLocation("/sessions/first")
		p = member.get("/sessions/first").wantText("Your verdict was saved.", "Grade 0 % basis: person", "You said ■ fail")
		checkPage(t, p)
		if said := p.texts("textarea#reason-0")[0]; said != "It lost a column." {
			t.Errorf("the reason is %q", said)
		}
		say("pass", "")
		if diff := cmp.Diff([]string{"pdf 20 % reported –", "pdf 100 % person you –"}, grades(member)); diff != "" {
			t.Errorf("grades (-want +got):\n%s", diff)
		}
		other.get("/sessions/first").wantText("person " + member.api.User.Name).wantNoText("You said")
		pressed := []string{}
		for _, b := range member.get("/sessions/first").all("button") {
			if attr(b, "aria-pressed") == "true" {
				pressed = append(pressed, attr(b, "value"))
			}
		}
		if diff := cmp.Diff([]string{"pass"}, pressed); diff != "" {
			t.Errorf("the verdicts that are marked (-want +got):\n%s", diff)
		}

		say("maybe", "So <so>").want(http.StatusBadRequest).wantText("Choose whether it passed or failed", "So <so>")
		say("pass", strings.Repeat("x", 2001)).want(http.StatusBadRequest).wantText("Reason must be text of at most 2000 bytes")
		member.post(path, url.Values{"skill": {"zip"}, "verdict": {"pass"}}).want(http.StatusBadRequest)
		good := url.Values{"skill": {"pdf"}, "verdict": {"pass"}}
		viewer.post(path, good).want(http.StatusForbidden)
		w.otherOrg(access.Team).post(path, good).want(http.StatusNotFound)
		if diff := cmp.Diff([]string{"pdf 20 % reported –", "pdf 100 % person you –"}, grades(member)); diff != "" {
			t.Errorf("grades after bad forms (-want +got):\n%s", diff)
		}
	})
}
