package judge

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// maxCriteria is the limit of a grading; more would not fit into an answer.
const maxCriteria = 50

// A GradeRequest asks whether a material fulfils criteria.
type GradeRequest struct {
	Task     string // that the material was made for
	Criteria []string
	Material string // untrusted, e.g. the output of an agent
	// Others are criteria of other cases by the same author, whose words are
	// used in controls. There may be none.
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
	// Downgraded reports that the model passed the criterion with a quotation
	// that is not in the material.
	Downgraded bool `json:"downgraded,omitempty"`
	// Refuted reports that the quotation is in the material, but that it does
	// not fit the criterion when it is read alone.
	Refuted bool `json:"refuted,omitempty"`
}

// Grade judges a material by criteria. It defends against prompt injection, so
// that a material which instructs the model to pass it is not passed:
//
//   - A random delimiter ends the material, so the material cannot end itself.
//   - The ids of the criteria are random, so the material cannot contain the
//     answer.
//   - A criterion without a quotation that is in the material is not passed.
//   - A second question, which shows the quotations and not the material, must
//     find that each fits its criterion.
//   - Both questions contain controls. A model that passes everything also
//     passes them, and its answer is then no verdict.
//
// Its errors are those of Complete.
func (j *Judge) Grade(ctx context.Context, r GradeRequest) (Grading, error) {
	if j.about.RouteOnly {
		return Grading{}, errRouteOnly("grade")
	}
	if err := r.check(); err != nil {
		return Grading{}, err
	}
	if j.model == nil {
		return j.recorded.grade(r, j.newRecord(GradePromptVersion, ""))
	}
	// JSON replaces invalid UTF-8 on the way to the model. Quotations must be
	// looked up in what the model saw.
	r.Material = strings.ToValidUTF8(r.Material, "\uFFFD")
	controls := newControls(r)
	// Check runs in complete, so its result arrives here by the closure. A second attempt draws new
	// secrets.
	var out Grading
	draw := func() (p Prompt, omitted int, err error) {
		s := newGradeSheet(r, controls)
		p, omitted, err = s.prompt(j.maxInput)
		p.Check = func(answer string) (err error) {
			out, err = s.read(answer)
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
		return p // the criteria are so long that other, longer controls do not fit
	}
	rec := j.newRecord(GradePromptVersion, gradeSchema.Version)
	rec.Seed, rec.Trial, rec.OmittedBytes = r.Seed, r.Trial, omitted
	done, err := j.model.complete(ctx, p, rec)
	if err != nil {
		return Grading{}, err
	}
	done.Record.MissingControls = out.Record.MissingControls
	out.Record = done.Record
	// Nothing was passed, so there is nothing to confirm: the second question is saved.
	if out.Score > 0 {
		if out, err = j.confirm(ctx, r, controls, out); err != nil {
			return Grading{}, err
		}
	}
	// Evidence was compared as the model wrote it. Redaction comes last, so that a secret in the
	// material doesn't change the verdict.
	for i := range out.Results {
		out.Results[i].Evidence = j.Redact(out.Results[i].Evidence)
	}
	out.Notes = j.Redact(out.Notes)
	return out, nil
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

// task is the task as the prompt shows it.
func (r GradeRequest) task() string {
	if task := strings.TrimSpace(r.Task); task != "" {
		return task
	}
	return "(not given)"
}

// gradeSheet is a grading with its secrets, which the author of the material
// cannot know: the delimiter, the ids of the criteria and the controls.
type gradeSheet struct {
	GradeRequest
	material  quotable
	delimiter string
	ids       []int // of the criteria, then of the controls
	controls  []string
}

// minID is the smallest id of a criterion: five digits cannot be guessed by a
// material, and every model can copy them.
const minID = 10_000

// randomIDs returns n different ids.
func randomIDs(n int) (ids []int) {
	for len(ids) < n {
		if id := minID + mathrand.IntN(9*minID); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// minControls is the least number of controls in a question. There are more
// where there are fewer than two criteria to hide them among.
const minControls = 2

// newGradeSheet draws new secrets. It is made anew for each attempt; see Prompt.Redraw.
func newGradeSheet(r GradeRequest, controls *controls) gradeSheet {
	s := gradeSheet{
		GradeRequest: r,
		material:     newQuotable(r.Material),
		delimiter:    rand.Text(),
		controls:     controls.draw(max(minControls, 4-len(r.Criteria))),
	}
	s.ids = randomIDs(len(r.Criteria) + len(s.controls))
	return s
}

// prompt returns a prompt of at most maxTokens, and how many bytes of the
// material it omits. Task and criteria are never truncated.
func (s gradeSheet) prompt(maxTokens int) (p Prompt, omitted int, err error) {
	var lines []string
	for i, c := range s.Criteria {
		lines = append(lines, fmt.Sprintf("%d: %s\n", s.ids[i], strings.TrimSpace(c)))
	}
	for i, c := range s.controls { // at random places: a fixed one would give them away
		line := fmt.Sprintf("%d: %s\n", s.ids[len(s.Criteria)+i], c)
		lines = slices.Insert(lines, mathrand.IntN(len(lines)+1), line)
	}
	criteria, task := strings.Join(lines, ""), s.task()
	p = Prompt{Version: GradePromptVersion, System: gradePrompt, Schema: gradeSchema}
	user := func(material string) string { return fmt.Sprintf(gradeUser, task, criteria, s.delimiter, material) }
	// Rounded up, so that the estimate never exceeds the limit.
	left := maxTokens - (len(p.System+user(""))+bytesPerToken-1)/bytesPerToken
	if left <= 0 {
		return Prompt{}, 0, rejected(
			"the task and the criteria alone are longer than the %d tokens that a prompt may have", maxTokens)
	}
	material, omitted := truncateMiddle(EscapeTokens(s.Material), left*bytesPerToken)
	p.User = user(material)
	return p, omitted, nil
}

// read parses an answer. It fails unless every criterion has exactly one result
// and no control is passed. Some models leave out what they think is nonsense, so
// a control may be missing as long as another one was answered.
func (s gradeSheet) read(answer string) (Grading, error) {
	got, notes, err := readItems(answer)
	if err != nil {
		return Grading{}, err
	}
	g := Grading{Results: make([]Result, len(s.ids)), Notes: text.Truncate(text.Clean(notes), maxRaw)}
	for _, r := range got {
		if r.Passed == nil || bool(*r.Passed) && r.Evidence == nil {
			return Grading{}, formProblem("a result lacks its evidence or its verdict")
		}
		at := slices.Index(s.ids, int(*r.ID))
		if at < 0 || g.Results[at].ID != 0 {
			return Grading{}, problem("a result has an id that no criterion has, or that another result has")
		}
		evidence := ""
		if r.Evidence != nil {
			evidence = *r.Evidence
		}
		g.Results[at] = s.result(at, evidence, bool(*r.Passed))
	}
	for i, r := range g.Results {
		switch isControl := i >= len(s.Criteria); {
		// A downgraded control was passed as well: the model made up a quotation.
		case isControl && (r.Passed || r.Downgraded):
			return Grading{}, errControl
		case isControl && r.ID == 0:
			g.Record.MissingControls++
		case r.ID == 0:
			return Grading{}, problem("a criterion has no result")
		}
	}
	// With no control answered there is no proof that the model read the material.
	if g.Record.MissingControls == len(s.controls) {
		return Grading{}, problem("a criterion has no result")
	}
	g.Results = g.Results[:len(s.Criteria)]
	g.Score = score(g.Results)
	return g, nil
}

// errControl is sent to the model, and does not reveal which criterion is a
// control.
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

// result is the verdict on one criterion. It is not passed without a quotation
// that is in the material.
func (s gradeSheet) result(at int, evidence string, passed bool) Result {
	r := Result{ID: at + 1, Evidence: text.Truncate(text.Clean(evidence), maxRaw), Passed: passed}
	if passed && !s.material.contains(evidence) {
		r.Passed, r.Downgraded = false, true
	}
	return r
}

// listItem matches the beginning of a list item: "- ", "1. ", "* [x] ".
var listItem = regexp.MustCompile(`^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?`)

// Criteria splits a rubric that holds a list into its items, each after the
// text that introduces the list. A rubric without a list is one criterion, and
// one whose list is too long for a grading is refused by Grade.
func Criteria(rubric string) []string {
	var intro []string
	var items [][]string // of lines
	for line := range strings.Lines(rubric) {
		mark := listItem.FindString(line)
		text := strings.TrimSpace(line[len(mark):])
		// Blank lines neither end nor begin an item.
		switch {
		case text == "":
		case mark != "":
			items = append(items, []string{text})
		case len(items) > 0:
			items[len(items)-1] = append(items[len(items)-1], text)
		default:
			intro = append(intro, text)
		}
	}
	if len(items) == 0 {
		return []string{strings.TrimSpace(rubric)}
	}
	if len(items) > maxCriteria {
		intro = nil // Grade refuses so many; do not repeat the text for each
	}
	all := make([]string, len(items))
	for i, lines := range items {
		all[i] = strings.Join(slices.Concat(intro, lines), " ")
	}
	return all
}
