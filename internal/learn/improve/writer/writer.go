// Package writer asks a model for edits of a SKILL.md that mend the cases which
// fail with it. All that it shows the model is data that others wrote, and its
// answer is not trusted: edits that cannot be applied, or that do more than change
// words, are refused. It owns no tables.
package writer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
)

// A Request asks for edits.
type Request struct {
	// Skill is the SKILL.md to change, and Original the one that the improve run
	// began with, which the guard compares with.
	Skill, Original string
	Target          edit.Target
	// Failing and Passing are cases of the training split, of which the first few
	// are shown. No other case may be among them.
	Failing, Passing []Case
	// Refused are what was tried before and not kept, the oldest first.
	Refused []Tried
	// Production is what people's use tells. Their own words may be in it only where
	// the organisation allows that.
	Production []string
	Guard      edit.Guard
}

// A Case is a case that was tried with the skill loaded.
type Case struct {
	ID     string
	Prompt string
	// Expectation is what the output should be like.
	Expectation string
	Output      string
	// Quotation is the passage that the judge based its verdict on, or why a check
	// failed.
	Quotation string
}

// Tried are edits that were not kept.
type Tried struct {
	Edits  []edit.Edit
	Effect string // e.g. "3 of 8 cases passed, 5 of 8 before"
}

// An Answer is what the writer proposes. Without edits, Reason says why there are
// none.
type Answer struct {
	Edits []edit.Edit
	// Skill is the SKILL.md with the edits.
	Skill  string
	Reason string
	// Record has the calls. Failed ones cost money, too.
	Record judge.Record
}

// Write asks a judge's model for edits. An answer that cannot be used is asked for
// once more, with the problem. If that one cannot be used either, or the model
// refuses, the Answer has no edits. Its errors are those of judge.Complete that
// concern more than this answer. The judge's second attempt has the problem in its prompt.
func Write(ctx context.Context, j *judge.Judge, r Request) (Answer, error) {
	var out Answer
	var stopped error
	done, err := j.Complete(ctx, judge.Prompt{
		Version: PromptVersion, System: r.system(), User: r.user(), Schema: schema,
		Check: func(answer string) error {
			var problem error
			out, problem, stopped = r.read(ctx, answer)
			if stopped != nil {
				return nil //nolint:nilerr // no second call for an answer that could not be checked; the error is returned below
			}
			return problem
		},
	})
	unusable, ok := errors.AsType[*judge.Error](err)
	switch {
	case stopped != nil:
		return Answer{}, stopped
	case ok && unusable.Code == judge.Unusable:
		return Answer{Reason: "the writer's answer was not usable: " + unusable.Message, Record: unusable.Record}, nil
	case err != nil:
		return Answer{}, err
	}
	out.Record = done.Record
	// A model that repeats the key would put it into a published skill.
	if j.Redact(out.Skill) != out.Skill {
		return Answer{Reason: "the writer's answer was not usable: it has the judge's key in it", Record: done.Record}, nil
	}
	out.Reason = j.Redact(out.Reason)
	for i := range out.Edits {
		out.Edits[i].Why = j.Redact(out.Edits[i].Why)
	}
	return out, nil
}

// Limits of an answer.
const (
	maxReason = 500 // characters
	maxWhy    = 300
)

// read parses an answer strictly: it is used as a whole or not at all, since edits
// of one answer may rely on each other. The problem quotes nothing of the answer. Its third result
// is an error of the check itself, e.g. a context that has ended.
func (r Request) read(ctx context.Context, answer string) (_ Answer, problem, err error) {
	var got struct {
		Reason string       `json:"reason"`
		Edits  *[]edit.Edit `json:"edits"`
	}
	if json.Unmarshal([]byte(answer), &got) != nil || got.Edits == nil {
		return Answer{}, errors.New("the answer does not have the form of the schema"), nil
	}
	out := Answer{Edits: *got.Edits, Reason: plain(got.Reason, maxReason)}
	if len(out.Edits) == 0 {
		if out.Reason == "" {
			out.Reason = "the writer proposed no edit"
		}
		out.Edits = nil
		return out, nil, nil
	}
	if len(out.Edits) > edit.MaxEdits {
		return Answer{}, fmt.Errorf("the answer has more than %d edits", edit.MaxEdits), nil
	}
	// The model names cases by the numbers of the prompt, r1 to rN.
	for i := range out.Edits {
		e := &out.Edits[i]
		e.Why = plain(e.Why, maxWhy)
		e.Cases = r.named(e.Cases)
	}
	changed, refused := r.Target.Apply(r.Skill, out.Edits)
	if len(refused) > 0 {
		var why []string
		for _, one := range refused {
			why = append(why, one.String())
		}
		return Answer{}, errors.New(strings.Join(why, "; ")), nil
	}
	problems, err := r.Guard.Check(ctx, r.Original, changed)
	if err != nil {
		return Answer{}, nil, err
	}
	if len(problems) > 0 {
		return Answer{}, errors.New(strings.Join(problems, "; ")), nil
	}
	out.Skill = changed
	return out, nil, nil
}

// shown returns the cases that the request shows.
func (r Request) shown() (failing, passing []Case) {
	return first(r.Failing, maxFailing), first(r.Passing, maxPassing)
}

// named returns the ids of the cases that an answer names as the request does. Numbers that the
// request didn't have are dropped.
func (r Request) named(names []string) (ids []string) {
	failing, passing := r.shown()
	for i, c := range slices.Concat(failing, passing) {
		if slices.Contains(names, caseID(i+1)) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// plain returns the beginning of an untrusted text, in one line. Of a text that is
// mostly white space it may return less than the limit.
func plain(s string, limit int) string {
	return text.Ellipsis(text.PlainLine(text.Truncate(s, 8*limit)), limit)
}
