package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// A Problem is why a trial or a run has no verdict. It is safe to show.
type Problem = attempt.Problem

// try makes one trial. An error means that it has no verdict; only an attempt.Defect
// becomes a fail.
func (x *execution) try(ctx context.Context, key TrialKey) (t Trial, err error) {
	t.TrialKey = key
	start := time.Now()
	defer func() {
		// A bug in a check must cost one trial, not the worker and all runs on it.
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		t.Duration = time.Since(start)
	}()
	c := x.cases[key.Case]
	if reason := x.run.skipReason(c, key.Arm); reason != "" {
		t.Verdict, t.Evidence.Summary = Skipped, reason
		return t, nil
	}
	switch {
	case c.Graders != nil:
		err = x.decideGraders(ctx, c, &t)
	case c.Kind == suites.TriggerQuery:
		if agent := x.run.agentOf(c); agent != nil {
			err = x.activate(ctx, c, *agent, &t)
			break
		}
		err = t.Route(ctx, x.s.Judge, judge.RouteRequest{
			Query: c.Query, Skill: x.skills[key.Arm].Skill, Distractors: x.run.Distractors, Seed: x.run.Seed, Trial: key.N,
		}, c.Expectation)
	case c.Kind == suites.LLMRubric:
		err = x.grade(ctx, c, &t)
	case c.Kind == suites.TaskPackage:
		err = x.runPackage(ctx, c, &t)
	case c.Kind == "":
		err = &Problem{Code: "case_broken", Message: "the case has no kind"}
	default:
		err = x.verify(ctx, c, &t)
	}
	if d, ok := errors.AsType[*attempt.Defect](err); ok {
		t.decide(false, 0, "%s", d)
		err = nil
	}
	return t, err
}

// Calls is how many trials of a planned run ask a model, by an agent or as a judge.
func (r Run) Calls() (n int, err error) {
	cases, err := r.cases()
	for _, c := range cases {
		for _, arm := range r.Baseline.Arms() {
			if (r.agentOf(c) != nil || r.isJudged(c)) && r.skipReason(c, arm) == "" {
				n += r.Trials
			}
		}
	}
	return n, err
}

// SameCases reports whether two planned runs ask the same.
func SameCases(a, b Run) bool { return bytes.Equal(a.document, b.document) }

// comparedWithNone reports whether the trials are compared with, or are, those without the skill.
func (r Run) comparedWithNone() bool {
	return r.Baseline == NoSkill || r.Baseline == NoSkillOnly || r.Terms.Compared
}

// skipReason returns why a case isn't tried in an arm, or "".
func (r Run) skipReason(c suites.Case, arm Arm) string {
	switch {
	case arm == WithoutSkill && !r.noSkill:
		return "the suite does not support the baseline no_skill: set its supports_no_skill"
	case arm != WithSkill && c.Subject.Output != nil:
		return "the output is given: it does not depend on the skill"
	}
	return ""
}

// checkBaseline refuses a baseline in which every case would be skipped.
func (r Run) checkBaseline(cases []suites.Case) error {
	arms, reason := r.Baseline.Arms(), ""
	for _, c := range cases {
		if reason = r.skipReason(c, arms[len(arms)-1]); reason == "" {
			return nil
		}
	}
	if len(cases) == 0 {
		return nil
	}
	return fault.Invalid("baseline", "baseline %s would skip every case: %s", r.Baseline, reason)
}

// decide gives the trial its verdict and a score of 0 to 1.
func (t *Trial) decide(pass bool, score float64, format string, args ...any) {
	t.Verdict, t.Score, t.Evidence.Summary = Fail, &score, fmt.Sprintf(format, args...)
	if pass {
		t.Verdict = Pass
	}
}

// decideBinary decides a trial without partial credit: its score is 0 or 1.
func (t *Trial) decideBinary(pass bool, format string, args ...any) {
	score := 0.0
	if pass {
		score = 1
	}
	t.decide(pass, score, format, args...)
}

// isJudged reports whether the judge's model takes part in a case: as judge, as router
// of a trigger query, or by answering a prompt that no agent works on.
func (r Run) isJudged(c suites.Case) bool {
	asks := c.Kind == suites.TriggerQuery || c.Subject.Prompt != nil
	judged := c.Graders == nil || slices.ContainsFunc(c.Graders, verify.Grader.IsJudged)
	return asks && r.agentOf(c) == nil || c.Kind == suites.LLMRubric && judged
}

// Route asks the judge which skill a query would trigger. The trial passes if that
// agrees with the expectation.
func (t *Trial) Route(ctx context.Context, j *judge.Judge, ask judge.RouteRequest, e suites.Expectation) error {
	got, err := j.Route(ctx, ask)
	if err != nil {
		return err
	}
	triggered := got.Skill != "" && got.Skill == ask.Skill.Name
	chosen := "no skill"
	if got.Skill != "" {
		chosen = "the skill " + got.Skill
	}
	t.Evidence.Chosen, t.Evidence.Judge = &got.Skill, truncatedRecord(got.Record)
	t.decideBinary(triggered == (e == suites.ShouldTrigger), "%s",
		strings.TrimSuffix("the query triggers "+chosen+": "+got.Reason, ": "))
	return nil
}

// maxText is how many bytes are stored of a model's raw answer, and of an error.
const maxText = 1 << 10

// Truncate cleans a text of a model or an error and shortens it to what is
// stored.
func Truncate(s string) string { return text.Clean(text.Truncate(s, maxText)) }

func truncatedRecord(r judge.Record) *judge.Record {
	r.Raw = Truncate(r.Raw)
	return &r
}

// roundingError is by how much a share may miss a threshold: 0.7 isn't exactly 7/10 in
// binary.
const roundingError = 1e-9

// grade decides a rubric case: the judge compares the output with each criterion, and
// the trial passes if the share of those that are met reaches the case's threshold.
func (x *execution) grade(ctx context.Context, c suites.Case, t *Trial) error {
	sample, err := x.produce(ctx, c, t)
	if err != nil {
		return err
	}
	criteria := criteriaOf(c)
	task := strings.Join(c.Subject.Command, " ")
	if c.Subject.Prompt != nil {
		task = *c.Subject.Prompt
	}
	got, err := x.s.Judge.Grade(ctx, judge.GradeRequest{
		Task: task, Criteria: criteria, Material: materialOf(sample), Others: x.otherCriteria(t.Case),
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
	t.Evidence.Judge = truncatedRecord(got.Record)
	t.decide(got.Score >= c.Threshold-roundingError, got.Score, "%d of %d criteria are met", met, len(criteria))
	return nil
}

// maxOthers is about how many criteria of other cases the judge gets as controls.
const maxOthers = 50

// otherCriteria returns the criteria of the cases that follow one in the suite,
// wrapping around. The judge uses them as controls that should not be met.
func (x *execution) otherCriteria(of int) (all []string) {
	for i := 1; i < len(x.cases) && len(all) < maxOthers; i++ {
		if c := x.cases[(of+i)%len(x.cases)]; c.Kind == suites.LLMRubric {
			all = append(all, criteriaOf(c)...)
		}
	}
	return all
}

// decideGraders decides a case by its graders, all of which must pass. The score is the
// share of those that did, by weight.
func (x *execution) decideGraders(ctx context.Context, c suites.Case, t *Trial) error {
	check, err := verify.Graders(c.Graders)
	if err != nil {
		return &Problem{Code: "case_broken", Message: err.Error()}
	}
	if c.Subject.Prompt != nil && x.run.agentOf(c) == nil && slices.ContainsFunc(c.Graders, verify.Grader.NeedsAgent) {
		return noAgent(verify.ErrNoAgent)
	}
	sample, err := x.produce(ctx, c, t)
	if err != nil {
		return err
	}
	r := gradeRequest{
		Graders: c.Graders, Check: check, Sample: sample, Compared: x.run.comparedWithNone(), Without: t.Arm == WithoutSkill,
		Others: x.otherCriteria(t.Case), Seed: x.run.Seed, Trial: t.N,
	}
	if c.Subject.Prompt != nil {
		r.Task = *c.Subject.Prompt
	}
	got, err := decideGraders(ctx, x.s.Judge, r)
	if got.Judge != nil {
		t.Evidence.Judge = truncatedRecord(*got.Judge)
	}
	switch {
	case errors.Is(err, verify.ErrNoAgent):
		return noAgent(err)
	case err != nil && ctx.Err() == nil && judge.CodeOf(err) == "" && c.Subject.Output != nil:
		return &Problem{Code: "check_failed", Message: err.Error()} // no skill took part: the case is to blame
	case err != nil && ctx.Err() == nil && judge.CodeOf(err) == "":
		return attempt.NewDefect("check_failed", err.Error())
	case err != nil:
		return err
	}
	t.Evidence.Graders = got.Results
	failed := verify.FailedGraders(got.Results)
	summary := fmt.Sprintf("all of %d graders passed", len(got.Results))
	if len(failed) > 0 {
		summary = fmt.Sprintf("%d of %d graders failed: %s", len(failed), len(got.Results), strings.Join(failed, "; "))
	}
	t.decide(len(failed) == 0, verify.Score(got.Results), "%s", Truncate(summary))
	return nil
}

// noAgent is the problem of graders about an agent's work in a run without an agent.
func noAgent(err error) error {
	return &Problem{Code: attempt.Unsupported, Message: err.Error() + "; run the suite with one"}
}

// verify decides a deterministic case. If the check can't be evaluated, the case is to
// blame where it brings the output along. Otherwise it is a defect: no skill may avoid
// a fail by an output that breaks the check.
func (x *execution) verify(ctx context.Context, c suites.Case, t *Trial) error {
	check, err := x.checks[t.Case]()
	if err != nil {
		return &Problem{Code: "case_broken", Message: err.Error()}
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
		return &Problem{Code: "check_failed", Message: err.Error()} // no skill took part: the case is to blame
	case err != nil:
		return attempt.NewDefect("check_failed", err.Error())
	}
	t.decideBinary(got.Pass, "%s", got.Evidence)
	return nil
}

// produce makes the output that a case tests (given, or by an agent, a model or a
// command) and stores its tail.
func (x *execution) produce(ctx context.Context, c suites.Case, t *Trial) (s verify.Sample, err error) {
	switch {
	case c.Subject.Output != nil:
		return verify.Sample{Output: *c.Subject.Output}, nil // the case has its tail
	case c.Subject.Prompt != nil:
		if agent := x.run.agentOf(c); agent != nil {
			s, err = x.attempt(ctx, *agent, *c.Subject.Prompt, t)
		} else {
			s, err = x.answer(ctx, *c.Subject.Prompt, t)
		}
	default:
		s, err = runCommand(ctx, commandRequest{
			Sandbox: x.s.Sandbox, Argv: c.Subject.Command, Dir: x.dir, SkillDir: x.skills[t.Arm].dir, Most: x.resources,
			Files: c.Kind == suites.BooleanAssertion,
		})
		t.Evidence.ExitCode = s.ExitCode
	}
	t.OutputTail = x.tail(s.Output)
	return s, err
}

// answer asks the judge's model the prompt of a case that no agent works on, with the
// skill loaded.
func (x *execution) answer(ctx context.Context, prompt string, t *Trial) (verify.Sample, error) {
	skill, start := x.skills[t.Arm], time.Now()
	got, err := x.s.Judge.Answer(ctx, judge.AnswerRequest{Prompt: prompt, SkillName: skill.Name, Skill: skill.text})
	if err != nil {
		return verify.Sample{}, err
	}
	t.Evidence.Producer = truncatedRecord(got.Record)
	t.Evidence.Producer.Raw = "" // it is the output
	return verify.Sample{Output: got.Text, Duration: time.Since(start)}, nil
}

// errorTrial turns an error into a trial without a verdict. Messages of problems, of
// the judge and of faults are shown; any other error may have internal details, so it
// is only logged.
func (x *execution) errorTrial(ctx context.Context, t Trial, err error) Trial {
	shown := "internal: something went wrong; the log of the service says what"
	var problem *Problem
	switch f, isFault := errors.AsType[*fault.Error](err); {
	case errors.As(err, &problem), judge.CodeOf(err) != "":
		shown = err.Error()
	case isFault && f.Kind != fault.Internal:
		shown = "unavailable: " + f.Message
	default:
		x.s.Log.ErrorContext(ctx, "a trial failed", "run", x.run.ID, "case", x.cases[t.Case].ID, "error", x.redact(err.Error()))
	}
	if e, ok := errors.AsType[*judge.Error](err); ok {
		shown, t.Evidence.Judge = e.Error(), truncatedRecord(e.Record)
	}
	shown = Truncate(x.hide(shown))
	t.Verdict, t.Score, t.Error, t.Evidence.Summary = Error, nil, &shown, shown
	return t
}
