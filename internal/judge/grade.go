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
	Seed     int64 // kept in the record
	Trial    int
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
}

// Grade judges a material by criteria. Instructions in the material are not to
// be obeyed, and where a model obeys them nothing is passed: the material
// cannot end itself, since a random code does; it cannot hold the answer, since
// the ids of the criteria are random; what has no quotation from it is not
// passed; and a model that passes whatever it is asked also passes the control,
// a criterion that no material fulfils, and has then given no verdict. Its
// error is that of Complete.
func (j *Judge) Grade(ctx context.Context, r GradeRequest) (Grading, error) {
	if j.model == nil {
		return Grading{}, errRouteOnly("grade")
	}
	sheet, err := newSheet(r)
	if err != nil {
		return Grading{}, err
	}
	p, omitted, err := sheet.prompt(j.maxInput)
	if err != nil {
		return Grading{}, err
	}
	var out Grading
	p.Check = func(answer string) (err error) {
		out, err = sheet.read(answer)
		return err
	}
	rec := j.newRecord(GradePromptVersion, gradeSchema.Version)
	rec.Seed, rec.Trial, rec.OmittedBytes = r.Seed, r.Trial, omitted
	done, err := j.model.complete(ctx, p, rec)
	if err != nil {
		return Grading{}, err
	}
	out.Record = done.Record
	return out, nil
}

// sheet is a grading with what nobody but the model may know: the code around
// the material, the ids of the criteria and the control.
type sheet struct {
	GradeRequest
	material string // normalised, to look quotations up
	code     string
	ids      []int // of the criteria, and of the control as the last
	control  string
	place    int // of the control among the criteria
}

// minID is the least id of a criterion: five digits are more than a material
// can guess, and few enough for every model to copy.
const minID = 10_000

func newSheet(r GradeRequest) (sheet, error) {
	if len(r.Criteria) == 0 || len(r.Criteria) > maxCriteria {
		return sheet{}, rejected("a grading needs 1 to %d criteria, not %d", maxCriteria, len(r.Criteria))
	}
	for i, c := range r.Criteria {
		if strings.TrimSpace(c) == "" {
			return sheet{}, rejected("criterion %d is empty", i+1)
		}
	}
	// What is not UTF-8 would reach the model as something else than what its
	// quotations are looked up in.
	r.Material = strings.ToValidUTF8(r.Material, "\uFFFD")
	s := sheet{
		GradeRequest: r,
		material:     normalised(r.Material),
		code:         rand.Text(),
		control:      fmt.Sprintf(controlCriterion, rand.Text()),
		place:        mathrand.IntN(len(r.Criteria) + 1),
	}
	for len(s.ids) < len(r.Criteria)+1 {
		if id := minID + mathrand.IntN(9*minID); !slices.Contains(s.ids, id) {
			s.ids = append(s.ids, id)
		}
	}
	return s, nil
}

// prompt returns the prompt within the limit, in tokens, and how much of the
// material it leaves out. Task and criteria are never cut.
func (s sheet) prompt(maxTokens int) (p Prompt, omitted int, err error) {
	criteria := s.criteria()
	task := strings.TrimSpace(s.Task)
	if task == "" {
		task = "(not given)"
	}
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

// criteria is the list of the criteria, the control among them.
func (s sheet) criteria() string {
	var lines []string
	for i, c := range s.Criteria {
		lines = append(lines, fmt.Sprintf("%d: %s\n", s.ids[i], strings.TrimSpace(c)))
	}
	control := fmt.Sprintf("%d: %s\n", s.ids[len(s.Criteria)], s.control)
	return strings.Join(slices.Insert(lines, s.place, control), "")
}

// read returns the verdict of an answer in which every criterion stands
// exactly once, and the control is not passed.
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
	control := len(s.Criteria)
	if r := g.Results[control]; r.Passed || r.Downgraded {
		return Grading{}, problem("a criterion was passed that the material does not fulfil")
	}
	g.Results = g.Results[:control]
	g.Score = score(g.Results)
	return g, nil
}

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
