package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestDemo fills a database and looks at it as a person would.
func TestDemo(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		log := &apptest.Buffer{}
		a, err := app.New(t.Context(), options(settings(t, flags...), log))
		if err != nil {
			t.Fatal(err)
		}
		if err := a.FillThinDemo(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		s := run(t, a, log)
		s.wantDemoSkills(t)
		s.wantDemoRegistry(t)
		s.wantDemoCosts(t)
		s.wantDemoReasons(t)
		s.wantDemoAlerts(t)
		s.wantDemoSources(t)
		s.wantDemoRuns(t)
		s.wantDemoRecordings(t)
		s.wantDemoProposals(t)
		s.wantDemoGate(t)
		s.wantDocumentedReads(t, s.findPaths(t, s.FirstKey))
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		again, err := app.New(t.Context(), options(settings(t, flags...), log))
		if err != nil {
			t.Fatal(err)
		}
		err = again.FillDemo(t.Context(), io.Discard)
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "it has 8 people. The demo fills only an empty one") {
			t.Errorf("a second filling: %v, want a conflict", err)
		}
	})
}

// wantDemoProposals waits for those of the signals, and for the improve runs,
// which may propose, too.
func (s *service) wantDemoProposals(t *testing.T) {
	t.Helper()
	apptest.Eventually(t, "two proposals of contributors", func() bool {
		var body struct {
			Proposals []struct {
				ProposedBy string `json:"proposed_by"`
			}
		}
		s.into(t, "/api/v1/proposals", &body)
		count := 0
		for _, p := range body.Proposals {
			if p.ProposedBy == "contributor_aggregate" {
				count++
			}
		}
		return count == 2
	})
	apptest.Eventually(t, "the end of two improve runs, one with a winner", func() bool {
		var body struct {
			Runs []struct {
				Status     string
				Subject    struct{ Name string }
				ProposalID *string `json:"proposal_id"`
				Problem    *string `json:"error"`
			} `json:"improve_runs"`
		}
		s.into(t, "/api/v1/improve-runs", &body)
		for _, r := range body.Runs {
			switch {
			case r.Status != "succeeded" && r.Status != "no_winner":
				return false
			case r.Subject.Name == "log-triage" && (r.Status != "succeeded" || r.ProposalID == nil):
				t.Fatalf("the improve run of log-triage is %+v, want a winner that is proved", r)
			}
		}
		return len(body.Runs) == 2
	})
	apptest.Eventually(t, "a proposal that is published, and one that is proved and pending", func() bool {
		var body struct {
			Proposals []struct {
				SkillName  string `json:"skill_name"`
				Status     string
				Proved     bool
				Diff       string
				Confidence float64
				Value      *string `json:"proposed_value"`
			}
		}
		s.into(t, "/api/v1/proposals", &body)
		got := map[string]bool{}
		for _, p := range body.Proposals {
			if p.Value != nil && (strings.Contains(*p.Value, "Use when asked about") || strings.Contains(*p.Value, "Use it also for")) {
				t.Fatalf("the proposal for %s has words of a program: %s", p.SkillName, *p.Value)
			}
			got[fmt.Sprintf("%s %s %t %t %t", p.SkillName, p.Status, p.Proved, p.Diff != "", p.Confidence > .7)] = true
		}
		return got["pdf-forms applied false true true"] && got["log-triage pending true true true"]
	})
}

// wantDemoReasons: from the worst skill to why it fails, with the words of the session and
// the judge's evidence; many sessions have both.
func (s *service) wantDemoReasons(t *testing.T) {
	t.Helper()
	type session struct {
		ID         string `json:"session_id"`
		HasContent bool   `json:"has_content"`
		Events     []struct {
			Kind string
			Text *string
		}
		Grades []struct {
			Basis    string
			Evidence []struct{ Quotation *string }
		}
	}
	for skill, least := range map[string]int{"dependency-upgrade": 4, "invoice-reader": 3, "sql-review": 2, "test-writer": 1} {
		var failures struct {
			Groups []struct{ Label *string }
		}
		s.into(t, "/v1/skills/"+skill+"/failures?days=7", &failures)
		labelled := 0
		for _, g := range failures.Groups {
			if g.Label != nil {
				labelled++
			}
		}
		if labelled < least {
			t.Errorf("%d reasons of %s have a label, want %d", labelled, skill, least)
		}
		var failed struct{ Sessions []session }
		s.into(t, "/v1/sessions?outcome=fail&limit=1&skill="+skill, &failed)
		var one struct{ Session session }
		s.into(t, "/v1/sessions/"+failed.Sessions[0].ID, &one)
		said, quoted := map[string]bool{}, 0
		for _, e := range one.Session.Events {
			said[e.Kind] = said[e.Kind] || e.Text != nil && *e.Text != ""
		}
		for _, g := range one.Session.Grades {
			for _, e := range g.Evidence {
				if g.Basis == "judge" && e.Quotation != nil {
					quoted++
				}
			}
		}
		if !said["prompt"] || !said["response"] || !said["tool"] || quoted < 2 {
			t.Errorf("the last failure of %s shows %v, and %d quotations of the judge", skill, said, quoted)
		}
	}
	kept := 0
	for cursor, more := "", true; more; {
		var page struct {
			Sessions []session
			Next     *string `json:"next_cursor"`
		}
		since := time.Now().AddDate(0, 0, -2).UTC().Format(time.RFC3339)
		s.into(t, "/v1/sessions?limit=100&since="+since+"&cursor="+cursor, &page)
		for _, one := range page.Sessions {
			if one.HasContent {
				kept++
			}
		}
		if more = page.Next != nil && *page.Next != ""; more {
			cursor = *page.Next
		}
	}
	if kept < 30 {
		t.Errorf("%d sessions have their words, want 30", kept)
	}
}

// wantDemoRecordings: a suite has runs of several days, the last of which compares an agent
// with and without the skill; its trials can be opened.
func (s *service) wantDemoRecordings(t *testing.T) {
	t.Helper()
	var list struct {
		Suites []struct{ ID, Name string }
	}
	s.into(t, "/api/v1/eval-suites", &list)
	i := slices.IndexFunc(list.Suites, func(one struct{ ID, Name string }) bool { return one.Name == "SQL reviews: what must be found" })
	var runs struct {
		Runs []struct {
			ID        string
			CreatedAt string `json:"created_at"`
		}
	}
	s.into(t, "/api/v1/eval-suites/"+list.Suites[i].ID+"/runs", &runs)
	days := map[string]bool{}
	for _, r := range runs.Runs {
		days[r.CreatedAt[:len("2006-01-02")]] = true
	}
	var last struct {
		Run struct {
			Agent struct{ Name string }
			Cost  struct{ USD float64 }
			Lift  *struct{ Difference float64 }
			Cases []struct {
				Trials []struct {
					Variant   string
					Activated bool
					Session   string `json:"session_id"`
				}
			}
		}
	}
	s.into(t, "/api/v1/eval-runs/"+runs.Runs[0].ID, &last)
	r := last.Run
	if len(days) < 5 || r.Agent.Name != "claude-code" || r.Cost.USD <= 0 || r.Lift == nil || r.Lift.Difference < .3 {
		t.Fatalf("runs of %d days, the last is %+v", len(days), r)
	}
	for _, c := range r.Cases {
		for _, trial := range c.Trials {
			if trial.Activated != (trial.Variant == "skill") || trial.Session == "" {
				t.Errorf("got the trial %+v, want one that opens, with the skill activated if it has it", trial)
			}
		}
	}
	s.into(t, "/api/v1/eval-runs/"+runs.Runs[0].ID+"/trials/1?case_id=last-day&variant=skill", &struct{}{})
}

// wantDemoGate waits for a version that its gate blocks, one that it lets pass, and one
// that it can say nothing about.
func (s *service) wantDemoGate(t *testing.T) {
	t.Helper()
	want := map[string]string{"2.0.0": "block", "2.2.0": "pass", "1.3.0": "inconclusive"}
	apptest.Eventually(t, "the verdicts of the gates", func() bool {
		var body struct {
			Gates []struct {
				Version string
				Verdict *string
			}
		}
		s.into(t, "/api/v1/gates", &body)
		got := map[string]string{}
		for _, g := range body.Gates {
			if g.Verdict == nil {
				return false
			}
			got[g.Version] = *g.Verdict
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("verdicts by version (-want +got):\n%s", diff)
		}
		return true
	})
	var waiting struct {
		Waiting []struct{ Version string }
	}
	s.into(t, "/api/v1/approvals", &waiting)
	if len(waiting.Waiting) != 1 || waiting.Waiting[0].Version != "0.4.0" {
		t.Errorf("what waits for an approval is %+v, want dependency-upgrade 0.4.0", waiting)
	}
}

func (s *service) wantDemoSkills(t *testing.T) {
	t.Helper()
	var body struct {
		Skills []struct {
			Name, Status   string
			UniqueSessions int `json:"unique_sessions"`
		} `json:"skills"`
	}
	s.into(t, "/v1/skills?per_page=100", &body)
	got := map[string]int{}
	for _, skill := range body.Skills {
		got[skill.Status]++
		if skill.Name == "incident-timeline" && skill.UniqueSessions != 3 {
			t.Errorf("the new skill has %d sessions, want 3", skill.UniqueSessions)
		}
	}
	if diff := cmp.Diff(map[string]int{"healthy": 8, "warning": 2, "critical": 1, "unknown": 1}, got); diff != "" {
		t.Errorf("skills by status (-want +got):\n%s", diff)
	}
}

// wantDemoCosts: the demo shows what skills cost, and of which sessions their trigger
// rate is a share; some requests belong to no skill, some have no known price, and
// some names are no skills.
func (s *service) wantDemoCosts(t *testing.T) {
	t.Helper()
	var bill struct {
		Total, Unattributed *float64
		Skills              []struct{ Total *float64 }
	}
	s.into(t, "/v1/costs", &bill)
	if len(bill.Skills) != 12 || *bill.Unattributed <= 0 || *bill.Total <= *bill.Unattributed {
		t.Errorf("the bill is %+v", bill)
	}
	var skill struct {
		Skill struct {
			Basis *string  `json:"trigger_rate_basis"`
			Rate  *float64 `json:"trigger_rate"`
			Cost  struct {
				PerUse     *float64 `json:"per_use_p50"`
				PerSuccess *float64 `json:"per_success"`
				Standing   *float64 `json:"standing_per_session"`
				Load       *float64 `json:"load_per_use"`
				Unpriced   int      `json:"unpriced_requests"`
			}
		}
	}
	s.into(t, "/v1/skills/test-writer", &skill)
	if k := skill.Skill; *k.Basis != "offered" || *k.Rate < .3 || *k.Rate > .95 || *k.Cost.PerUse <= 0 || *k.Cost.PerSuccess <= *k.Cost.PerUse/2 ||
		*k.Cost.Standing <= 0 || *k.Cost.Load <= 0 || k.Cost.Unpriced == 0 {
		t.Errorf("test-writer is %+v", k)
	}
	var names struct{ Skills []struct{ Name string } }
	s.into(t, "/v1/skills?confirmed=false", &names)
	if len(names.Skills) == 0 {
		t.Error("no name is unconfirmed")
	}
}

// demoEntry is an entry of the registry as the demo's tests look at it.
type demoEntry struct {
	Versions []struct {
		Version    string
		RolledBack bool     `json:"rolled_back"`
		Sessions   int      `json:"aggregate_sessions"`
		PassRate   *float64 `json:"aggregate_pass_rate"`
		Cost       struct {
			PerUse *float64 `json:"per_use_p50"`
		}
	}
	Rollbacks []struct{ Reason string }
}

// wantDemoRegistry: what a version did is counted for it.
func (s *service) wantDemoRegistry(t *testing.T) {
	t.Helper()
	var list struct {
		Entries []struct{ ID, Name string }
	}
	s.into(t, "/api/v1/registry?limit=100", &list)
	entries := map[string]demoEntry{}
	for _, e := range list.Entries {
		var entry demoEntry
		s.into(t, "/api/v1/registry/"+e.ID, &entry)
		if n := len(entry.Versions); n < 2 || n > 5 {
			t.Errorf("%s has %d versions, want 2 to 5", e.Name, n)
		}
		entries[e.Name] = entry
	}
	if len(entries) != 12 {
		t.Fatalf("%d entries, want 12", len(entries))
	}
	back := entries["api-docs"]
	if !back.Versions[0].RolledBack || len(back.Rollbacks) != 1 || back.Rollbacks[0].Reason == "" {
		t.Errorf("api-docs is %+v, want its newest version rolled back with a reason", back)
	}
	now, before := entries["invoice-reader"].Versions[0], entries["invoice-reader"].Versions[1]
	if now.Version != "1.4.0" || now.Sessions < 20 || *now.PassRate > .6 || before.Sessions < 20 || *before.PassRate < .85 {
		t.Errorf("invoice-reader passes %.2f of %d sessions after %.2f of %d; want a fall", *now.PassRate, now.Sessions, *before.PassRate, before.Sessions)
	}
	if *now.Cost.PerUse > .7**before.Cost.PerUse {
		t.Errorf("a use of invoice-reader costs %v after %v; want it to have saved tokens", *now.Cost.PerUse, *before.Cost.PerUse)
	}
}

func (s *service) wantDemoAlerts(t *testing.T) {
	t.Helper()
	var body struct {
		Events []struct {
			SkillName  string `json:"skill_name"`
			Type       string
			Transition string
		}
	}
	s.into(t, "/api/v1/alert-events", &body)
	firing := map[string]bool{}
	for _, e := range body.Events {
		firing[e.SkillName+" "+e.Type] = e.Transition == "firing"
	}
	if !firing["invoice-reader pass_rate_below"] || !firing["meeting-minutes no_data"] {
		t.Errorf("what fires is %v, want invoice-reader by its rate and meeting-minutes by its silence", firing)
	}
	var incidents struct {
		Incidents []struct {
			Skill, Version string
			GoodVersion    string `json:"good_version"`
		}
	}
	s.into(t, "/api/v1/incidents", &incidents)
	if all := incidents.Incidents; len(all) != 1 || all[0].Skill != "invoice-reader" || all[0].Version != "1.4.0" ||
		all[0].GoodVersion != "1.3.0" {
		t.Errorf("got the incidents %+v, want that of invoice-reader 1.4.0", all)
	}
	var rules struct{ Alerts []struct{ ID string } }
	s.into(t, "/api/v1/alerts", &rules)
	for _, rule := range rules.Alerts {
		apptest.Eventually(t, "notifications that were delivered", func() bool {
			var body struct {
				Deliveries []struct{ Status, Detail string }
			}
			s.into(t, "/api/v1/alerts/"+rule.ID+"/deliveries", &body)
			return len(body.Deliveries) > 0 && !slices.ContainsFunc(body.Deliveries, func(d struct{ Status, Detail string }) bool {
				return d.Status != "delivered"
			})
		})
	}
}

// wantDemoSources waits for the suggestions, which a job makes.
func (s *service) wantDemoSources(t *testing.T) {
	t.Helper()
	var list []struct{ ID, Label string }
	s.into(t, "/api/v1/cloud-sources", &list)
	categories := map[string]bool{}
	for _, source := range list {
		var body struct {
			ValidationReports []struct {
				Findings []struct{ Category string }
			}
			EvalSuggestionCount int
		}
		apptest.Eventually(t, "suggestions of "+source.Label, func() bool {
			s.into(t, "/api/v1/cloud-sources/"+source.ID, &body)
			return body.EvalSuggestionCount >= 3
		})
		for _, report := range body.ValidationReports {
			for _, f := range report.Findings {
				categories[f.Category] = true
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"spec": true, "quality": true, "security": true}, categories); len(list) != 4 || diff != "" {
		t.Errorf("%d sources with findings (-want +got):\n%s", len(list), diff)
	}
}

func (s *service) wantDemoRuns(t *testing.T) {
	t.Helper()
	var list struct{ Suites []struct{ ID string } }
	s.into(t, "/api/v1/eval-suites", &list)
	if len(list.Suites) != 6 {
		t.Errorf("%d suites, want 6", len(list.Suites))
	}
	for _, suite := range list.Suites {
		apptest.Eventually(t, "runs that came to their end", func() bool {
			var body struct {
				Runs []struct{ Status string }
			}
			s.into(t, "/api/v1/eval-suites/"+suite.ID+"/runs", &body)
			return len(body.Runs) >= 1 && !slices.ContainsFunc(body.Runs, func(r struct{ Status string }) bool { return r.Status != "succeeded" })
		})
	}
}

// into reads what a path answers to the first key.
func (s *service) into(t *testing.T, path string, value any) {
	t.Helper()
	status, body := s.get(t, path, s.FirstKey)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), value); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}
