package judge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// sampled are gradings as people have them, with the criteria that the material
// fulfils and a quotation for each.
var sampled = []struct {
	judge.GradeRequest
	met map[string]string
}{
	{
		judge.GradeRequest{
			Task:     "How do I roll back the billing service?",
			Criteria: []string{"Names the rollback command", "Warns that open invoices are locked during the rollback", "Gives the on-call phone number"},
			Material: "Run `deployctl rollback billing --to previous`. Open invoices are locked while the rollback runs, which takes about two minutes.",
		},
		map[string]string{
			"Names the rollback command":                              "Run `deployctl rollback billing --to previous`.",
			"Warns that open invoices are locked during the rollback": "Open invoices are locked while the rollback runs",
		},
	},
	{
		judge.GradeRequest{
			Task:     "Summarise the minutes.",
			Criteria: []string{"It does not mention salaries.", "It is at most three sentences long.", "It names Ada as the owner of the migration."},
			Material: "The team agreed to migrate in May. Ada owns the migration. The next meeting is on Monday.",
		},
		map[string]string{
			"It does not mention salaries.":               "The next meeting is on Monday.",
			"It is at most three sentences long.":         "The team agreed to migrate in May.",
			"It names Ada as the owner of the migration.": "Ada owns the migration.",
		},
	},
	{
		judge.GradeRequest{Task: "Grüße die Gäste.", Criteria: []string{"Der Text begrüßt die Gäste auf Deutsch."}, Material: "Herzlich willkommen, liebe Gäste!"},
		map[string]string{"Der Text begrüßt die Gäste auf Deutsch.": "Herzlich willkommen, liebe Gäste!"},
	},
	{
		judge.GradeRequest{Task: "2+2", Criteria: []string{"4"}, Material: "The answer is 4."},
		map[string]string{"4": "The answer is 4."},
	},
	{
		judge.GradeRequest{Task: "用中文问候。", Criteria: []string{"回答是中文。", "回答有礼貌。"}, Material: "您好,很高兴见到您。"},
		map[string]string{"回答是中文。": "您好", "回答有礼貌。": "很高兴见到您"},
	},
	{
		judge.GradeRequest{
			Task: "Write a CSV.", Criteria: []string{"polite"}, Material: "name,age\nAda,36\nThank you for asking!",
			Others: []string{"The CSV has a header line with the names of all columns.", "Every price is in euros.", "The chart has a legend."},
		},
		map[string]string{"polite": "Thank you for asking!"},
	},
}

// TestHonestModelsLoseNoVerdict counts false alarms: a model that reads, and
// passes what is fulfilled, gets its verdicts through both questions.
func TestHonestModelsLoseNoVerdict(t *testing.T) {
	const times = 50
	lost, errors := 0, 0
	for _, c := range sampled {
		material := c.Material
		model := judgetest.Model{Grade: func(criterion, shown string) (string, bool) {
			if quotation, ok := c.met[criterion]; ok {
				return quotation, true
			}
			// It reads all words, of criteria that it was never told about.
			for _, word := range judge.WordsOf(criterion) {
				if !strings.Contains(strings.ToLower(material), strings.ToLower(word)) {
					return "", false
				}
			}
			return shown, true
		}}
		j, _ := newJudge(t, judgetest.New(t, model.Respond), judge.Options{})
		for range times {
			got, err := j.Grade(t.Context(), c.GradeRequest)
			if err != nil {
				errors++
				continue
			}
			for i, r := range got.Results {
				if _, met := c.met[c.Criteria[i]]; met && !r.Passed {
					lost++
				}
			}
		}
	}
	if lost > 0 || errors > 0 {
		t.Errorf("of %d gradings %d had an error, and %d verdicts were lost", times*len(sampled), errors, lost)
	}
}

// TestControls wants controls that no material fulfils, in the form of the
// case's own criteria.
func TestControls(t *testing.T) {
	for _, c := range sampled {
		seen := map[string]bool{}
		for range 100 {
			for _, control := range judge.Controls(c.GradeRequest, 3) {
				seen[control] = true
				if slices.Contains(c.Criteria, control) {
					t.Fatalf("%q is a criterion", control)
				}
				if !slices.ContainsFunc(judge.WordsOf(control), func(word string) bool {
					return !strings.Contains(strings.ToLower(c.Material), strings.ToLower(word))
				}) {
					t.Errorf("%q asks for nothing that is not in %q", control, c.Material)
				}
			}
		}
		if len(seen) < 50 {
			t.Errorf("%q: only %d different controls", c.Criteria, len(seen))
		}
	}
	// All but the replaced words stay as they are.
	for range 50 {
		control := judge.Controls(judge.GradeRequest{Criteria: []string{"It names the Region of all CLUSTERS, in (one) line."}}, 1)[0]
		var a, b string
		if n, err := fmt.Sscanf(control, "It names the %s of all %s in (one) line.", &a, &b); n != 2 || err != nil ||
			a[0] < 'A' || a[0] > 'Z' || b != strings.ToUpper(b) || !strings.HasSuffix(b, "S,") {
			t.Errorf("got %q: %v", control, err)
		}
	}
	// A material that holds all our words cannot use them up.
	r := judge.GradeRequest{Criteria: []string{"It names the region."}, Material: strings.Join(judge.ForeignWords(), " ")}
	if got := judge.Controls(r, 3); len(got) != 3 {
		t.Errorf("got %q", got)
	}
}

// TestSecondReading shows the quotations and nothing else of the material.
func TestSecondReading(t *testing.T) {
	s := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		if judgetest.Code(r.User) != "" {
			return graded(
				`{"id":ID,"evidence":"make deploy","passed":true}`, `{"id":ID,"evidence":"in eu-west-1.","passed":true}`, `{"id":ID,"evidence":"","passed":false}`,
			)(r)
		}
		return confirming(func(q judgetest.Quotation) bool { return isReal(q.Criterion) && q.Text != "make deploy" })(r)
	})
	j, _ := newJudge(t, s, judge.Options{})
	got, err := j.Grade(t.Context(), gradeRequest())
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := got.Results[0], got.Results[1], got.Results[2]; a.Passed || !a.Refuted || a.Downgraded ||
		!b.Passed || b.Refuted || c.Passed || c.Refuted || got.Score != 1.0/3 {
		t.Errorf("got %+v", got)
	}
	if n := len(s.Requests()); n != 2 || got.Record.Attempts != 2 {
		t.Errorf("got %d requests, and %d in the record", n, got.Record.Attempts)
	}
	second := s.Requests()[1]
	if strings.Contains(second.User, "Run `make") || !strings.Contains(second.User, gradeRequest().Task) {
		t.Errorf("got %s", second.User)
	}
	quotations := map[string]int{}
	for _, q := range judgetest.Quotations(second.User) {
		quotations[q.Text]++
	}
	if len(quotations) != 2 || quotations["make deploy"] != 2 || quotations["in eu-west-1."] != 2 {
		t.Errorf("each quotation is held against one criterion and one control: got %v", quotations)
	}
	// Nothing passed, nothing to confirm.
	none := judgetest.New(t, judgetest.Model{Grade: func(string, string) (string, bool) { return "", false }}.Respond)
	j, _ = newJudge(t, none, judge.Options{})
	if _, err := j.Grade(t.Context(), gradeRequest()); err != nil || len(none.Requests()) != 1 {
		t.Errorf("got %d requests, %v", len(none.Requests()), err)
	}
}

// TestSecondReadingUnusable is an error of the grading, with all that it used.
func TestSecondReadingUnusable(t *testing.T) {
	all := func(fits string) judgetest.Responder {
		return func(r judgetest.Request) judgetest.Reply {
			var results []string
			for _, q := range judgetest.Quotations(r.User) {
				results = append(results, strings.Replace(fits, "ID", fmt.Sprint(q.ID), 1))
			}
			return judgetest.Text(`{"results":[` + strings.Join(results, ",") + `]}`)
		}
	}
	const no = `{"id":ID,"evidence":"","passed":false}`
	one := graded(`{"id":ID,"evidence":"make deploy","passed":true}`, no, no)
	for name, respond := range map[string]judgetest.Responder{
		"controls fit": all(`{"id":ID,"fits":true}`),
		"no verdict":   all(`{"id":ID}`),
		"no id":        all(`{"fits":false}`),
		"other ids":    all(`{"id":1,"fits":false}`),
		"twice":        all(`{"id":ID,"fits":false},{"id":1,"fits":false}`),
		"none":         func(judgetest.Request) judgetest.Reply { return judgetest.Text(`{"results":[]}`) },
		"no form":      func(judgetest.Request) judgetest.Reply { return judgetest.Text(`{}`) },
		"text":         func(judgetest.Request) judgetest.Reply { return judgetest.Text(`yes`) },
	} {
		t.Run(name, func(t *testing.T) {
			s := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
				if judgetest.Code(r.User) != "" {
					return one(r)
				}
				return respond(r)
			})
			j, _ := newJudge(t, s, judge.Options{})
			got, err := j.Grade(t.Context(), gradeRequest())
			if e := wantCode(t, err, judge.Unusable); e.Record.Attempts != 3 || e.Record.Seed != 5 || got.Results != nil {
				t.Errorf("got %+v, %+v", got, e)
			}
		})
	}
}

// TestControlsAreDrawnAnew gives a model that stumbled over a control another.
func TestControlsAreDrawnAnew(t *testing.T) {
	asked := 0
	s := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		asked++
		if asked == 1 {
			return passing(func(judgetest.Criterion) string { return "make deploy" })(r)
		}
		return judgetest.Model{
			Criteria: gradeRequest().Criteria,
			Grade:    func(_, material string) (string, bool) { return material, true },
		}.Respond(r)
	})
	j, _ := newJudge(t, s, judge.Options{})
	got, err := j.Grade(t.Context(), gradeRequest())
	if err != nil || got.Score != 1 || !got.Record.Repaired || got.Record.Attempts != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	first, second := judgetest.Criteria(s.Requests()[0].User), judgetest.Criteria(s.Requests()[1].User)
	for _, c := range first {
		if !isReal(c.Text) && slices.ContainsFunc(second, func(other judgetest.Criterion) bool { return other.Text == c.Text }) {
			t.Errorf("%q is asked again", c.Text)
		}
	}
}
