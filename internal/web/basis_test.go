package web_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills/basis"
	"github.com/whetstone-dev/whetstone/internal/web"
)

func TestBasisText(t *testing.T) {
	t.Parallel()
	rates := func(of basis.Basis, sessions map[basis.Basis]int64) basis.Rates {
		return basis.Rates{Basis: &of, PassRate: map[basis.Basis]float64{basis.Person: .9, basis.Outcome: .5}, Sessions: sessions}
	}
	for want, r := range map[string]basis.Rates{
		"":                    {},
		"graded by people":    rates(basis.Person, map[basis.Basis]int64{basis.Person: 2}),
		"reported by clients": rates(basis.Pushed, map[basis.Basis]int64{basis.Pushed: 2}),
		"judged by a model":   rates(basis.Judge, map[basis.Basis]int64{basis.Judge: 2}),
		"from outcomes":       rates(basis.Outcome, map[basis.Basis]int64{basis.Outcome: 2}),
		"mixed: graded by people 90\u202f% (10 sessions), from outcomes 50\u202f% (1 session)": rates(
			basis.Mixed, map[basis.Basis]int64{basis.Person: 10, basis.Outcome: 1}),
	} {
		if got := web.BasisText(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAgreementText(t *testing.T) {
	t.Parallel()
	if got, want := web.AgreementText(web.Calibration{}), "the judge is not compared with people yet"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	share := 8.0 / 9
	got := web.AgreementText(web.Calibration{Pairs: 9, Agreement: &share, Interval: &[2]float64{.56, .98}})
	if want := "the judge agrees with people in 8 of 9 sessions (56–98\u202f%)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWhatGoesWrong: the page of a skill says what its pass rate rests on, and why
// sessions failed.
func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		member := w.as(access.Member)
		for _, session := range []string{"one", "two", "three"} {
			member.traced(session, "pdf", time.Now().Add(-2*time.Hour))
		}
		member.get("/skills/pdf").want(http.StatusOK).wantText("3 graded sessions reported by clients", "No reason of a failed grade is known").
			wantNoText("the judge is", "the judge agrees")
		for session, reason := range map[string]string{"one": "It lost column 3.", "two": "It lost column 14."} {
			member.post("/sessions/"+session+"/grades", url.Values{"skill": {"pdf"}, "verdict": {"fail"}, "reason": {reason}}).
				want(http.StatusSeeOther)
		}
		p := member.get("/skills/pdf").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("3 graded sessions mixed: graded by people 0 % (2 sessions), reported by clients 20 % (1 session)", "It lost column")
		links := []string{}
		for _, session := range []string{"one", "two", "three"} {
			links = append(links, p.href(session))
		}
		if diff := cmp.Diff([]string{"/sessions/one", "/sessions/two", ""}, links); diff != "" {
			t.Errorf("links to failed sessions (-want +got):\n%s", diff)
		}
		w.as(access.Viewer).get("/skills/pdf").wantText("What goes wrong", "It lost column")
	})
}
