package judge_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

func gradeRequest() judge.GradeRequest {
	return judge.GradeRequest{
		Task:     "Explain how to deploy.",
		Criteria: []string{"It names the command.", "It names the region.", "It warns about downtime."},
		Material: "Run `make deploy`\nin eu-west-1.",
		Seed:     5, Trial: 2,
	}
}

// isReal distinguishes the criteria of gradeRequest from controls.
func isReal(criterion string) bool { return slices.Contains(gradeRequest().Criteria, criterion) }

// graded answers with the results in the order of the criteria, in which ID
// stands for the criterion's. It does not pass controls, and confirms all else.
func graded(results ...string) judgetest.Responder {
	return func(r judgetest.Request) judgetest.Reply {
		if judgetest.Code(r.User) == "" {
			return confirming(func(q judgetest.Quotation) bool { return isReal(q.Criterion) })(r)
		}
		var all []string
		left := results
		for _, c := range judgetest.Criteria(r.User) {
			if !isReal(c.Text) {
				all = append(all, fmt.Sprintf(`{"id":%d,"evidence":"","passed":false}`, c.ID))
			} else if len(left) > 0 {
				all = append(all, strings.Replace(left[0], "ID", strconv.Itoa(c.ID), 1))
				left = left[1:]
			}
		}
		return judgetest.Text(`{"results":[` + strings.Join(append(all, left...), ",") + `],"notes":"so so"}`)
	}
}

// confirming answers the second question.
func confirming(fits func(judgetest.Quotation) bool) judgetest.Responder {
	return func(r judgetest.Request) judgetest.Reply {
		results := []any{}
		for _, q := range judgetest.Quotations(r.User) {
			results = append(results, map[string]any{"id": q.ID, "fits": fits(q)})
		}
		return judgetest.JSON(map[string]any{"results": results})
	}
}

func TestGrade(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		s := judgetest.New(t, graded(
			`{"id":ID,"evidence":"Run  \"make install\" in","passed":true}`,
			`{"id":ID,"evidence":"`+"`make deploy`"+` in eu-west-1.","passed":true}`,
			`{"id":ID,"evidence":"","passed":false}`,
		))
		j, _ := newJudge(t, s, judge.Options{API: api})
		got, err := j.Grade(t.Context(), gradeRequest())
		if err != nil {
			t.Fatal(err)
		}
		want := []judge.Result{
			{ID: 1, Evidence: `Run  "make install" in`, Downgraded: true},
			{ID: 2, Evidence: "`make deploy` in eu-west-1.", Passed: true},
			{ID: 3},
		}
		if diff := cmp.Diff(want, got.Results); diff != "" {
			t.Error(diff)
		}
		r := got.Record
		if got.Score != 1.0/3 || got.Notes != "so so" || r.Seed != 5 || r.Trial != 2 || r.PromptVersion != "grade-2" ||
			r.SchemaVersion != "grading-1" || r.API != api || r.Attempts != 2 || r.Repaired {
			t.Errorf("got %+v", got)
		}
	})
}

// TestNULIsReplaced keeps out what PostgreSQL refuses to store.
func TestNULIsReplaced(t *testing.T) {
	s := judgetest.New(t, graded(
		`{"id":ID,"evidence":"make\u0000 deploy","passed":false}`, `{"id":ID,"evidence":"","passed":false}`, "{\"id\":ID,\"evidence\":\"\",\"passed\":\x00false}",
	))
	j, _ := newJudge(t, s, judge.Options{})
	got, err := j.Grade(t.Context(), gradeRequest())
	if err != nil || got.Results[0].Evidence != "make\uFFFD deploy" || strings.Contains(got.Record.Raw, "\x00") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestScoreIsExact matters where a case passes at 1.
func TestScoreIsExact(t *testing.T) {
	for n := 1; n <= 50; n += 7 {
		r := judge.GradeRequest{Material: "all", Criteria: make([]string, n)}
		for i := range r.Criteria {
			r.Criteria[i] = fmt.Sprintf("criterion %d", i)
		}
		model := judgetest.Model{Criteria: r.Criteria, Grade: func(_, material string) (string, bool) { return material, true }}
		j, _ := newJudge(t, judgetest.New(t, model.Respond), judge.Options{})
		got, err := j.Grade(t.Context(), r)
		if err != nil || got.Score != 1 || len(got.Results) != n {
			t.Errorf("%d: got %v, %v", n, got.Score, err)
		}
	}
}

func TestGradeUnusable(t *testing.T) {
	ok := `{"id":ID,"evidence":"","passed":false}`
	for name, results := range map[string][]string{
		"one missing":    {ok, ok},
		"none":           {},
		"one too many":   {ok, ok, ok, `{"id":1,"evidence":"","passed":false}`},
		"numbered":       {`{"id":1,"evidence":"","passed":true}`, `{"id":2,"evidence":"","passed":true}`, `{"id":3,"evidence":"","passed":true}`},
		"no evidence":    {ok, ok, `{"id":ID,"passed":true}`},
		"no verdict":     {ok, ok, `{"id":ID,"evidence":""}`},
		"no id":          {ok, ok, `{"evidence":"","passed":false}`},
		"verdict a word": {ok, ok, `{"id":ID,"evidence":"","passed":"yes"}`},
		"not JSON":       {ok, ok, `{"id":ID,`},
	} {
		t.Run(name, func(t *testing.T) {
			s := judgetest.New(t, graded(results...))
			j, _ := newJudge(t, s, judge.Options{})
			got, err := j.Grade(t.Context(), gradeRequest())
			if e := wantCode(t, err, judge.Unusable); e.Record.Attempts != 2 || got.Results != nil {
				t.Errorf("got %+v, %+v", got, e)
			}
		})
	}
	for name, control := range map[string]string{"by a quotation": "make deploy", "by an invention": "as the material says"} {
		t.Run("a control is passed "+name, func(t *testing.T) {
			s := judgetest.New(t, passing(func(c judgetest.Criterion) string {
				if isReal(c.Text) {
					return "make deploy"
				}
				return control
			}))
			j, _ := newJudge(t, s, judge.Options{})
			_, err := j.Grade(t.Context(), gradeRequest())
			wantCode(t, err, judge.Unusable)
		})
	}
	t.Run("one twice", func(t *testing.T) {
		s := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			id := judgetest.Criteria(r.User)[0].ID
			one := fmt.Sprintf(`{"id":%d,"evidence":"","passed":false}`, id)
			return judgetest.Text(`{"results":[` + one + strings.Repeat(","+one, 3) + `],"notes":""}`)
		})
		j, _ := newJudge(t, s, judge.Options{})
		_, err := j.Grade(t.Context(), gradeRequest())
		wantCode(t, err, judge.Unusable)
	})
	t.Run("no results", func(t *testing.T) {
		s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Text(`{"passed":true}`) })
		j, _ := newJudge(t, s, judge.Options{})
		_, err := j.Grade(t.Context(), gradeRequest())
		wantCode(t, err, judge.Unusable)
	})
}

func TestGradeRefusesBadRequests(t *testing.T) {
	s := judgetest.New(t, nil)
	j, _ := newJudge(t, s, judge.Options{MaxInput: 2000})
	for name, criteria := range map[string][]string{
		"none": nil, "empty": {"a", " "}, "too many": make([]string, 51), "too long": {strings.Repeat("long ", 2000)},
	} {
		_, err := j.Grade(t.Context(), judge.GradeRequest{Criteria: criteria, Material: "m"})
		if e := wantCode(t, err, judge.Rejected); e.Message == "" {
			t.Errorf("%s: got %+v", name, e)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("got %d requests", n)
	}
}

// TestLongMaterial cuts the material and nothing else.
func TestLongMaterial(t *testing.T) {
	r := judge.GradeRequest{
		Task:     strings.Repeat("task ", 200),
		Criteria: []string{"the head", "the tail", "the middle", "bytes left out here"},
		Material: "the head " + strings.Repeat("ä", 20_000) + " the middle " + strings.Repeat("ö", 20_000) + " the tail",
	}
	model := judgetest.Model{Criteria: r.Criteria, Grade: func(criterion, _ string) (string, bool) { return criterion, true }}
	s := judgetest.New(t, model.Respond)
	j, _ := newJudge(t, s, judge.Options{MaxInput: 3000})
	got, err := j.Grade(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	sent := s.Requests()[0]
	shown := judgetest.Material(sent.User)
	if !strings.HasPrefix(shown, "the head ä") || !strings.HasSuffix(shown, "ö the tail") ||
		strings.Contains(shown, "middle") || strings.Contains(shown, "\uFFFD") {
		t.Errorf("got the material %.40s...", shown)
	}
	mark := fmt.Sprintf("\n[... %d bytes left out here ...]\n", got.Record.OmittedBytes)
	if !strings.Contains(shown, mark) || len(shown)-len(mark)+got.Record.OmittedBytes != len(r.Material) {
		t.Errorf("got %d bytes and %d left out of %d", len(shown), got.Record.OmittedBytes, len(r.Material))
	}
	if n := len(sent.System) + len(sent.User); n > 3000*3+100 || n < 8000 {
		t.Errorf("got a prompt of %d bytes, want about 9,000", n)
	}
	if !strings.Contains(sent.User, strings.TrimSpace(r.Task)) || len(judgetest.Criteria(sent.User)) != 6 {
		t.Error("the task or the criteria were cut")
	}
	// The mark is not the material's: who quotes it has quoted nothing.
	if got.Results[3].Passed || !got.Results[0].Passed || !got.Results[1].Passed {
		t.Errorf("got %+v", got.Results)
	}
}

func TestQuotes(t *testing.T) {
	const material = "Run `make deploy`\n\tin  eu-west-1. It says \"done\". 🎉 <|im_end|> 42\n" +
		"**Never** restart—it’s the last resort, ﬁnally. Wait for the *green* light and then continue."
	for quotation, want := range map[string]bool{
		"make deploy":              true,
		"`make deploy` in":         true,
		"make\n deploy":            true,
		"\"Run `make deploy`\"":    true,
		"“in eu-west-1.”":          true,
		"'42'":                     true,
		"42":                       true,
		"🎉":                        true,
		"<|im_end|> 42":            true,
		"< |im_end|> 42":           true,
		"MAKE DEPLOY":              true,
		"Run make deploy":          true,
		"in eu-west-1":             true,
		"It says “done”!":          true,
		"never restart-it's the":   true,
		"the last resort, finally": true,
		"wait for the GREEN light": true,

		"It's the last resort ... Wait for the green light": true,
		"Never restart […] continue":                        false, // one word is no passage
		"Wait for the green light ... the last resort":      false, // in another order
		"the last resort ... wait for the red light":        false,
		"never ... restart ... it ... the":                  false,
		"Never restart, it is the last resort":              false,

		"make deployment":          false,
		"":                         false,
		"   ":                      false,
		".":                        false,
		"\"\"":                     false,
		"...":                      false,
		"the material has it all":  false,
		"Run `make deploy` ... 42": false,
	} {
		if got := judge.Quotes(material, quotation); got != want {
			t.Errorf("%q: got %t, want %t", quotation, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text    string
		limit   int
		want    string
		omitted int
	}{
		{"short", 5, "short", 0},
		{"0123456789", 4, "01\n[... 6 bytes left out here ...]\n89", 6},
		{"ääääää", 6, "ä\n[... 8 bytes left out here ...]\nä", 8},
		{"abc", 0, "\n[... 3 bytes left out here ...]\n", 3},
		{"", 0, "", 0},
	} {
		if got, omitted := judge.TruncateMiddle(c.text, c.limit); got != c.want || omitted != c.omitted {
			t.Errorf("%q, %d: got %q, %d, want %q, %d", c.text, c.limit, got, omitted, c.want, c.omitted)
		}
	}
}

func TestCriteria(t *testing.T) {
	for _, c := range []struct {
		rubric string
		want   []string
	}{
		{"It is polite.", []string{"It is polite."}},
		{" It is polite.\nAnd short. ", []string{"It is polite.\nAnd short."}},
		{"- polite\n- short", []string{"polite", "short"}},
		{"The answer\nmust:\n 1. greet\n\n 2) part\n   well", []string{"The answer must: greet", "The answer must: part well"}},
		{"* [ ] one\n• two\n+ [x] three", []string{"one", "two", "three"}},
		{"2 + 2 is 4", []string{"2 + 2 is 4"}},
		{"-5 degrees", []string{"-5 degrees"}},
	} {
		if diff := cmp.Diff(c.want, judge.Criteria(c.rubric)); diff != "" {
			t.Errorf("%q: %s", c.rubric, diff)
		}
	}
}

// TestLargeTextsTakeLinearMemory holds what meets foreign texts to their size:
// what copies a text for every line or word of it takes gigabytes.
func TestLargeTextsTakeLinearMemory(t *testing.T) {
	const size = 1 << 20
	lines := "- item\n" + strings.Repeat("x\n", size/2)
	intro := strings.Repeat("intro ", size/12) + "\n" + strings.Repeat("- x\n", size/8)
	var skills []judge.Skill
	for i := range 20_000 {
		skills = append(skills, judge.Skill{Name: fmt.Sprint("skill-", i), Description: "does things"})
	}
	wordy := make([]string, 50)
	for i := range wordy {
		var b strings.Builder
		for n := range 3000 {
			fmt.Fprintf(&b, "word%dx%c ", i, 'a'+n%26)
		}
		wordy[i] = b.String()
	}
	for name, run := range map[string]func(){
		"a long item":         func() { judge.Criteria(lines) },
		"a long introduction": func() { judge.Criteria(intro) },
		"many skills":         func() { judge.Distractors(skills, "skill-1", 1) },
		"controls of much": func() {
			judge.Controls(judge.GradeRequest{Criteria: wordy, Others: wordy, Material: strings.Join(wordy, "")}, 50)
		},
		"a quotation of marks": func() { judge.Quotes(strings.Repeat("<|a", size/3), strings.Repeat("<|", size/2)) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 100*size {
			t.Errorf("%s: it took %d MiB", name, got>>20)
		}
	}
}
