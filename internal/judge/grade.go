package judge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
)

// maxCriteria bounds a grading; more would not fit into an answer.
const maxCriteria = 50

// A GradeRequest asks whether a material fulfils criteria.
type GradeRequest struct {
	Task     string // what the material was made for
	Criteria []string
	Material string
	// Others are criteria of other cases by the same author: controls are made
	// of their words. There may be none.
	Others []string
	Seed   int64 // kept in the record
	Trial  int
}

// Grading is the verdict on each criterion.
type Grading struct {
	Results []Result // in the order of the criteria
	Score   float64  // share of the criteria that are passed
	Notes   string
	Record  Record
}

// A Result is the verdict on one criterion.
type Result struct {
	ID       int    `json:"id"` // from 1
	Evidence string `json:"evidence"`
	Passed   bool   `json:"passed"`
	// Downgraded says that the model passed the criterion with a quotation
	// that does not stand in the material.
	Downgraded bool `json:"downgraded,omitempty"`
	// Refuted says that the quotation stands there, but that a second reading,
	// of the quotation alone, does not find the criterion in it.
	Refuted bool `json:"refuted,omitempty"`
}

// Grade judges a material by criteria. Instructions in the material are not to
// be obeyed, and where a model obeys them nothing is passed: the material
// cannot end itself, since a random code does; it cannot hold the answer, since
// the ids of the criteria are random; what has no quotation from it is not
// passed; a second question, which shows the quotations and not the material,
// must find each of them to fit its criterion; and a model that passes whatever
// it is asked also passes the controls of both questions, and has then given no
// verdict. Its error is that of Complete.
func (j *Judge) Grade(ctx context.Context, r GradeRequest) (Grading, error) {
	if j.model == nil {
		return Grading{}, errRouteOnly("grade")
	}
	if err := r.check(); err != nil {
		return Grading{}, err
	}
	// What is not UTF-8 would reach the model as something else than what its
	// quotations are looked up in.
	r.Material = strings.ToValidUTF8(r.Material, "\uFFFD")
	made := newControls(r)
	var out Grading
	draw := func() (p Prompt, omitted int, err error) {
		sheet := newSheet(r, made)
		p, omitted, err = sheet.prompt(j.maxInput)
		p.Check = func(answer string) (err error) {
			out, err = sheet.read(answer)
			return err
		}
		return p, omitted, err
	}
	p, omitted, err := draw()
	if err != nil {
		return Grading{}, err
	}
	p.Redraw = func() Prompt {
		if again, _, err := draw(); err == nil {
			return again
		}
		return p // the criteria are so long that other controls do not fit
	}
	rec := j.newRecord(GradePromptVersion, gradeSchema.Version)
	rec.Seed, rec.Trial, rec.OmittedBytes = r.Seed, r.Trial, omitted
	done, err := j.model.complete(ctx, p, rec)
	if err != nil {
		return Grading{}, err
	}
	out.Record = done.Record
	if out.Score == 0 {
		return out, nil
	}
	return j.confirm(ctx, r, made, out)
}

func (r GradeRequest) check() error {
	if len(r.Criteria) == 0 || len(r.Criteria) > maxCriteria {
		return rejected("a grading needs 1 to %d criteria, not %d", maxCriteria, len(r.Criteria))
	}
	for i, c := range r.Criteria {
		if strings.TrimSpace(c) == "" {
			return rejected("criterion %d is empty", i+1)
		}
	}
	return nil
}

// task is what the model is told of the task.
func (r GradeRequest) task() string {
	if task := strings.TrimSpace(r.Task); task != "" {
		return task
	}
	return "(not given)"
}

// sheet is a grading with what nobody but the model may know: the code around
// the material, the ids of the criteria and the controls.
type sheet struct {
	GradeRequest
	material string // normalised, to look quotations up
	code     string
	ids      []int // of the criteria, and after them of the controls
	controls []string
}

// minID is the least id of a criterion: five digits are more than a material
// can guess, and few enough for every model to copy.
const minID = 10_000

// randomIDs returns different ids.
func randomIDs(n int) (ids []int) {
	for len(ids) < n {
		if id := minID + mathrand.IntN(9*minID); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// minControls is how many controls a grading has, more where there is little to
// hide them among.
const minControls = 2

func newSheet(r GradeRequest, made *controls) sheet {
	s := sheet{
		GradeRequest: r,
		material:     normalised(r.Material),
		code:         rand.Text(),
		controls:     made.some(max(minControls, 4-len(r.Criteria))),
	}
	s.ids = randomIDs(len(r.Criteria) + len(s.controls))
	return s
}

// prompt returns the prompt within the limit, in tokens, and how much of the
// material it leaves out. Task and criteria are never cut.
func (s sheet) prompt(maxTokens int) (p Prompt, omitted int, err error) {
	criteria, task := s.list(), s.task()
	p = Prompt{Version: GradePromptVersion, System: gradePrompt, Schema: gradeSchema}
	user := func(material string) string { return fmt.Sprintf(gradeUser, task, criteria, s.code, material) }
	left := maxTokens - estimatedTokens(p.System+user(""))
	if left <= 0 {
		return Prompt{}, 0, rejected("the task and the criteria alone are longer than the %d tokens that a prompt may have", maxTokens)
	}
	material, omitted := cut(defanged(s.Material), left*bytesPerToken)
	p.User = user(material)
	return p, omitted, nil
}

// list is the list of the criteria, the controls among them.
func (s sheet) list() string {
	var lines []string
	for i, c := range s.Criteria {
		lines = append(lines, fmt.Sprintf("%d: %s\n", s.ids[i], strings.TrimSpace(c)))
	}
	for i, c := range s.controls {
		line := fmt.Sprintf("%d: %s\n", s.ids[len(s.Criteria)+i], c)
		lines = slices.Insert(lines, mathrand.IntN(len(lines)+1), line)
	}
	return strings.Join(lines, "")
}

// read returns the verdict of an answer in which every criterion stands
// exactly once, and no control is passed.
func (s sheet) read(answer string) (Grading, error) {
	var got struct {
		Results []struct {
			ID       *int    `json:"id"`
			Evidence *string `json:"evidence"`
			Passed   *bool   `json:"passed"`
		} `json:"results"`
		Notes string `json:"notes"`
	}
	if json.Unmarshal([]byte(answer), &got) != nil || got.Results == nil {
		return Grading{}, problem("the answer does not have the form of the schema")
	}
	g := Grading{Results: make([]Result, len(s.ids)), Notes: bounded(got.Notes, maxRaw)}
	for _, r := range got.Results {
		if r.ID == nil || r.Evidence == nil || r.Passed == nil {
			return Grading{}, problem("a result lacks its id, its evidence or its verdict")
		}
		at := slices.Index(s.ids, *r.ID)
		if at < 0 || g.Results[at].ID != 0 {
			return Grading{}, problem("a result has an id that no criterion has, or that another result has")
		}
		g.Results[at] = s.result(at, *r.Evidence, *r.Passed)
	}
	if len(got.Results) != len(s.ids) {
		return Grading{}, problem("a criterion has no result")
	}
	for _, r := range g.Results[len(s.Criteria):] {
		if r.Passed || r.Downgraded {
			return Grading{}, errControl
		}
	}
	g.Results = g.Results[:len(s.Criteria)]
	g.Score = score(g.Results)
	return g, nil
}

// errControl says that a model has not looked. It does not say at what.
const errControl = problem("a criterion was passed that the material does not fulfil")

func score(all []Result) float64 {
	passed := 0
	for _, r := range all {
		if r.Passed {
			passed++
		}
	}
	return float64(passed) / float64(len(all))
}

// result is the verdict on one criterion, after its quotation was looked up.
func (s sheet) result(at int, evidence string, passed bool) Result {
	r := Result{ID: at + 1, Evidence: bounded(evidence, maxRaw), Passed: passed}
	if passed && !quotes(s.material, evidence) {
		r.Passed, r.Downgraded = false, true
	}
	return r
}
