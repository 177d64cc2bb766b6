package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// keptFor is how long ago content was switched on: all sessions since then that failed are
// those of sessions.yaml, so a newcomer who opens a failure sees why.
const keptFor = 26 * time.Hour

// keptSkill is what a skill is expected to do, and sessions of it whose content is kept.
type keptSkill struct {
	Expectations []struct{ Text, Label string }
	Sessions     []keptSession // newest first
}

// A keptSession is a session with its words and its verdicts; see sessions.yaml.
type keptSession struct {
	Ask      string
	Steps    []step
	More     string // a second prompt, which Then follows
	Then     []step
	Answer   string
	Verdicts []string
	Person   *string
}

// A step is what the agent says, and which tool it calls then.
type step struct {
	Say, Tool, In, Out string
	Fails              bool
}

// keep switches content on, pushes the sessions of sessions.yaml with their words, and has
// them graded by the judge and by people.
func (f *filling) keep(ctx context.Context) error {
	if err := f.Content.SetEnabled(ctx, f.owner, true); err != nil {
		return err
	}
	byJudge := *f.Grades
	byJudge.Judge = judge.NewRecorded(judge.Recorded{Grade: f.verdictsOf, Complete: f.labelsOf})
	for n, name := range slices.Sorted(maps.Keys(f.kept)) {
		pushed, err := f.pushKept(ctx, n, name)
		if err != nil {
			return err
		}
		if err := byJudge.GradeNow(ctx, f.owner.OrgID, pushed); err != nil {
			return err
		}
		if err := f.gradeByPeople(ctx, name); err != nil {
			return err
		}
		if err := byJudge.LabelFailures(ctx, f.owner.OrgID, *f.find(name).entry.SkillID); err != nil {
			return err
		}
	}
	return nil
}

// gradeByPeople adds what people said about sessions of a skill.
func (f *filling) gradeByPeople(ctx context.Context, name string) error {
	for i, one := range f.kept[name].Sessions {
		if one.Person == nil {
			continue
		}
		v := grades.Verdict{SessionID: keptID(name, one), Skill: name, Passed: *one.Person == "", Reason: *one.Person}
		if _, _, err := f.Grades.Grade(ctx, f.people[i%2], v); err != nil {
			return fmt.Errorf("%s: %w", one.Ask, err)
		}
	}
	return nil
}

// keptID is the id of a session, as its agent calls it.
func keptID(skill string, one keptSession) string { return idOf("kept\n%s\n%s", skill, one.Ask) }

// pushKept sets the grader of a skill and pushes its sessions, whose ids it returns.
func (f *filling) pushKept(ctx context.Context, n int, name string) (hashes []string, err error) {
	k, sample, cost := f.kept[name], 20, .5
	g := grades.Grader{Enabled: true, SamplePerDay: &sample, MaxCostUSD: &cost, Threshold: 1}
	for _, e := range k.Expectations {
		g.Expectations = append(g.Expectations, e.Text)
	}
	if err := f.Grades.SetGrader(ctx, f.owner, name, g); err != nil {
		return nil, err
	}
	for i, one := range k.Sessions {
		p := &batch{by: f.people[(n+i)%len(f.people)], number: 1000 + 100*n + i, records: map[string][]object{}}
		at := f.now.Add(-time.Hour - time.Duration(i+1)*(keptFor-2*time.Hour)/time.Duration(len(k.Sessions)))
		f.tell(p, f.find(name), one, keptID(name, one), at)
		if err := f.push(ctx, p); err != nil {
			return nil, err
		}
		hashes = append(hashes, skills.SessionHash(p.by.UserID, keptID(name, one)))
	}
	return hashes, nil
}

// A story adds the records of one session, in the order of what was said.
type story struct {
	*batch
	skill   *published
	version string // content hash
	id      string
	now     time.Time
	said    int
}

// tell adds the records of a session.
func (f *filling) tell(p *batch, s *published, one keptSession, id string, at time.Time) {
	number := len(s.Releases) - 1
	if s.Releases[number].Undone > 0 {
		number--
	}
	t := &story{batch: p, skill: s, version: s.hashes[number], id: id, now: at}
	began := at.Format(time.RFC3339)
	p.add("skill_offers", object{"session_id": id, "occurred_at": began, "skill_names": []string{s.Name}})
	t.prompt(0, one.Ask)
	t.work(one.Steps)
	if one.More != "" {
		t.prompt(1, one.More)
		t.work(one.Then)
	}
	t.answer(strings.TrimSpace(one.Answer))
	p.add("sessions", object{
		"session_id": id, "platform": "claude_code", "started_at": began, "normalized_at": began,
		"ended_at": t.now.Format(time.RFC3339),
	})
}

// record returns the fields that all records have, some time after the one before.
func (t *story) record(after time.Duration) object {
	t.now, t.said = t.now.Add(after), t.said+1
	return object{"session_id": t.id, "platform": "claude_code", "occurred_at": t.now.Format(time.RFC3339Nano)}
}

func (t *story) prompt(index int, text string) {
	r := t.record(time.Duration(index) * 40 * time.Second)
	id := fmt.Sprintf("%s-%d", t.id, index)
	t.add("prompts", with(r, object{
		"prompt_id": id, "normalized_at": r["occurred_at"], "prompt_kind": "user", "prompt_index": index, "prompt_text": text,
	}))
	t.add("transcripts", with(r, object{"prompt_id": id, "role": "user", "text": text}))
	t.add("skill_invocations", with(t.record(2*time.Second), object{
		"skill_invocation_id": id, "matched_prompt_id": id, "skill_name": t.skill.Name,
		"skill_version_hash": t.version, "invocation_mode": "implicit", "triggered": true,
	}))
}

func (t *story) answer(text string) {
	r := with(t.record(9*time.Second), object{
		"request_id": fmt.Sprintf("%s-r%d", t.id, t.said), "source_prompt_id": t.id + "-0", "model": "claude-sonnet-4-5",
		"skill_name": t.skill.Name, "input_tokens": 380 + 7*len(text)%200, "output_tokens": 40 + len(text)/4,
		"cache_read_tokens": max(t.skill.Context, defaultContext) + 900*t.said, "cache_creation_tokens": 900,
	})
	t.add("model_requests", r)
	t.add("transcripts", with(r, object{"role": "assistant", "text": text}))
}

func (t *story) work(steps []step) {
	for _, step := range steps {
		if step.Say != "" {
			t.answer(step.Say)
		}
		if step.Tool == "" {
			continue
		}
		r := with(t.record(6*time.Second), object{
			"tool_call_id": fmt.Sprintf("%s-t%d", t.id, t.said), "tool_name": step.Tool, "success": !step.Fails,
			"duration_ms": 300 + 61*len(step.Out),
		})
		t.add("tool_calls", r)
		t.add("transcripts", with(r, object{"role": "tool", "input": step.In, "output": strings.TrimSpace(step.Out)}))
	}
}

// with returns a record with more fields.
func with(record, more object) object {
	record = maps.Clone(record)
	maps.Copy(record, more)
	return record
}

// verdictsOf returns what the data says about the session in a transcript.
func (f *filling) verdictsOf(r judge.GradeRequest) (all []judge.Result) {
	for _, k := range f.kept {
		for _, one := range k.Sessions {
			if !strings.Contains(r.Material, "    "+one.Ask+"\n") {
				continue
			}
			for _, v := range one.Verdicts {
				all = append(all, judge.Result{Passed: v[0] == '+', Evidence: v[2:]})
			}
			return all
		}
	}
	return nil
}

// labelsOf answers the prompt for labels of what sessions should have done, of which
// each is a line with a JSON object.
func (f *filling) labelsOf(p judge.Prompt) string {
	labels := map[string]string{}
	for _, k := range f.kept {
		for _, e := range k.Expectations {
			labels[e.Text] = e.Label
		}
	}
	answer := []object{}
	for line := range strings.Lines(p.User) {
		var reason struct {
			ID       int
			Expected string
		}
		if json.Unmarshal([]byte(line), &reason) == nil && labels[reason.Expected] != "" {
			answer = append(answer, object{"id": reason.ID, "label": labels[reason.Expected]})
		}
	}
	raw, err := json.Marshal(object{"labels": answer})
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return string(raw)
}
