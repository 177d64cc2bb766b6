package evals

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/suites/verify"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/judge"
)

// A problem is why a trial has no verdict, fit to be shown.
type problem struct {
	code    string
	message string
}

func (p *problem) Error() string { return p.code + ": " + p.message }

// A defect is what a program did by which its trial fails, whatever the case
// asks for. It is not an error: a skill that cannot pass could choose one, and
// errors do not count.
type defect problem

func (d *defect) Error() string { return d.code + ": " + d.message }

// try makes one trial. With an error there is no verdict.
func (x *execution) try(ctx context.Context, u Unit) (t Trial, err error) {
	t.Unit = u
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		t.Duration = time.Since(start)
	}()
	c := x.cases[u.Case]
	if reason := x.inapplicable(c, u.Variant); reason != "" {
		t.Verdict, t.Evidence.Summary = Skipped, reason
		return t, nil
	}
	switch c.Kind {
	case TriggerQuery:
		err = x.route(ctx, c, &t)
	case LLMRubric:
		err = x.grade(ctx, c, &t)
	case ExactMatch, JSONSchema, BooleanAssertion:
		err = x.verify(ctx, c, &t)
	case TaskPackage:
		err = x.runPackage(ctx, c, &t)
	default:
		err = &problem{"case_broken", "the case has no kind"}
	}
	if d, ok := errors.AsType[*defect](err); ok {
		t.decide(false, 0, "%s", d)
		return t, nil
	}
	return t, err
}

// inapplicable says why a variant of a case means nothing, or "".
func (x *execution) inapplicable(c Case, v Variant) string {
	switch {
	case v == WithoutSkill && !x.run.noSkill:
		return "the suite does not support the baseline no_skill"
	case v != WithSkill && c.Subject.Output != nil:
		return "the output is given: it does not depend on the skill"
	}
	return ""
}

// decide gives the trial its verdict and a score of 0 to 1.
func (t *Trial) decide(pass bool, score float64, format string, args ...any) {
	t.Verdict, t.Score, t.Evidence.Summary = Fail, &score, fmt.Sprintf(format, args...)
	if pass {
		t.Verdict = Pass
	}
}

func points(pass bool) float64 {
	if pass {
		return 1
	}
	return 0
}

// route asks which skill the query would trigger.
func (x *execution) route(ctx context.Context, c Case, t *Trial) error {
	skill := x.skills[t.Variant]
	got, err := x.s.Judge.Route(ctx, judge.RouteRequest{
		Query: c.Query, Skill: skill.Skill, Distractors: x.run.Distractors, Seed: x.run.Seed, Trial: t.N,
	})
	if err != nil {
		return err
	}
	triggered := got.Skill != "" && got.Skill == skill.Name
	pass := triggered == (c.Expectation == ShouldTrigger)
	chosen := "no skill"
	if got.Skill != "" {
		chosen = "the skill " + got.Skill
	}
	t.Evidence.Chosen, t.Evidence.Judge = &got.Skill, shortened(got.Record)
	t.decide(pass, points(pass), "%s", strings.TrimSuffix("the query triggers "+chosen+": "+got.Reason, ": "))
	return nil
}

// maxRaw is how much is kept of a model's raw answer, and of an error.
const maxRaw = 1 << 10

func shortened(r judge.Record) *judge.Record {
	r.Raw = beginning(r.Raw)
	return &r
}

// slack is what a share may miss of a threshold by rounding.
const slack = 1e-9

// grade lets the judge hold the output against the case's criteria.
func (x *execution) grade(ctx context.Context, c Case, t *Trial) error {
	sample, err := x.produce(ctx, c, t)
	if err != nil {
		return err
	}
	criteria := c.criteria()
	got, err := x.s.Judge.Grade(ctx, judge.GradeRequest{
		Task: c.task(), Criteria: criteria, Material: sample.Output, Others: x.otherCriteria(t.Case),
		Seed: x.run.Seed, Trial: t.N,
	})
	if err != nil {
		return err
	}
	met := 0
	for i, r := range got.Results {
		criterion := Criterion{Text: criteria[i], Passed: r.Passed, Quote: r.Evidence}
		switch {
		case r.Downgraded:
			criterion.Note = "the judge's quotation does not stand in the output"
		case r.Refuted:
			criterion.Note = "read by itself, the judge's quotation does not show this"
		}
		if r.Passed {
			met++
		}
		t.Evidence.Criteria = append(t.Evidence.Criteria, criterion)
	}
	t.Evidence.Judge = shortened(got.Record)
	t.decide(got.Score >= c.Threshold-slack, got.Score, "%d of %d criteria are met", met, len(criteria))
	return nil
}

// criteria are what the judge holds the output of a rubric case against.
func (c Case) criteria() []string {
	if len(c.Expectations) > 0 {
		return c.Expectations
	}
	return judge.Criteria(c.Rubric)
}

// maxOthers is how many criteria of other cases a grading gets.
const maxOthers = 50

// otherCriteria are those of the cases that follow one in the suite, which ends
// where it begins.
func (x *execution) otherCriteria(of int) (all []string) {
	for i := 1; i < len(x.cases) && len(all) < maxOthers; i++ {
		if c := x.cases[(of+i)%len(x.cases)]; c.Kind == LLMRubric {
			all = append(all, c.criteria()...)
		}
	}
	return all
}

// task is what the output was made for, as far as the case says it.
func (c Case) task() string {
	if c.Subject.Prompt != nil {
		return *c.Subject.Prompt
	}
	return strings.Join(c.Subject.Command, " ")
}

// verify lets a program decide about the output.
func (x *execution) verify(ctx context.Context, c Case, t *Trial) error {
	check, err := x.checks[t.Case]()
	if err != nil {
		return &problem{"case_broken", err.Error()}
	}
	sample, err := x.produce(ctx, c, t)
	if err != nil {
		return err
	}
	got, err := check(ctx, sample)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && (c.Subject.Output != nil || errors.Is(err, verify.ErrNoProcess)):
		return &problem{"check_failed", err.Error()} // the case is all there is
	case err != nil:
		return &defect{"check_failed", err.Error()}
	}
	t.decide(got.Pass, points(got.Pass), "%s", got.Evidence)
	return nil
}

// produce brings about the output that a case looks at, and keeps its end.
func (x *execution) produce(ctx context.Context, c Case, t *Trial) (s verify.Sample, err error) {
	switch {
	case c.Subject.Output != nil:
		return verify.Sample{Output: *c.Subject.Output}, nil // its end stands in the case
	case c.Subject.Prompt != nil:
		s, err = x.answer(ctx, *c.Subject.Prompt, t)
	default:
		s, err = x.command(ctx, c, t)
	}
	t.OutputTail = tail(s.Output, x.tail)
	return s, err
}

// answer asks the model, with the skill loaded.
func (x *execution) answer(ctx context.Context, prompt string, t *Trial) (verify.Sample, error) {
	skill, start := x.skills[t.Variant], time.Now()
	got, err := x.s.Judge.Answer(ctx, judge.AnswerRequest{Prompt: prompt, SkillName: skill.Name, Skill: skill.text})
	if err != nil {
		return verify.Sample{}, err
	}
	t.Evidence.Producer = shortened(got.Record)
	t.Evidence.Producer.Raw = "" // it is the output
	return verify.Sample{Output: got.Text, Duration: time.Since(start)}, nil
}

// failedTrial is a trial without a verdict. Why is told in full only if it is
// not our own fault.
func (x *execution) failedTrial(ctx context.Context, t Trial, err error) Trial {
	shown := "internal: something went wrong; the log of the service says what"
	var ours *problem
	switch f, isFault := errors.AsType[*fault.Error](err); {
	case errors.As(err, &ours), judge.CodeOf(err) != "":
		shown = err.Error()
	case isFault && f.Kind != fault.Internal:
		shown = "unavailable: " + f.Message
	default:
		x.s.Log.ErrorContext(ctx, "a trial failed", "run", x.run.ID, "case", x.cases[t.Case].ID, "err", err)
	}
	if e, ok := errors.AsType[*judge.Error](err); ok {
		shown, t.Evidence.Judge = e.Error(), shortened(e.Record)
	}
	shown = beginning(shown)
	t.Verdict, t.Score, t.Error, t.Evidence.Summary = Error, nil, &shown, shown
	return t
}

// tail is the end of a text, without half a character at its beginning.
func tail(text string, size int) string {
	if cut := len(text) - size; cut > 0 {
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut++
		}
		text = text[cut:]
	}
	return plainText(text)
}

// beginning is as much of a text as is kept of what others say, without half a
// character at its end.
func beginning(text string) string {
	if size := maxRaw; len(text) > size {
		for size > 0 && !utf8.RuneStart(text[size]) {
			size--
		}
		text = text[:size]
	}
	return plainText(text)
}
