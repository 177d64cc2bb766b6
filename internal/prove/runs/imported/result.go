package imported

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// Tool is the name of the tool whose results are read.
const Tool = "claude plugin eval"

// Limits of a result.
const (
	MaxFile   = 10 << 20
	maxCases  = 500
	maxTrials = 30_000 // as many as the largest run of our own has
	maxText   = 1 << 10
	maxOutput = 64 << 10
)

// A Result is what a file reports.
type Result struct {
	Origin    Origin
	StartedAt time.Time
	Duration  time.Duration
	Compared  bool // there is an arm without the plugin
	Judged    bool // a judge took part
	Cases     []Case
}

// A Case is a case of the file, with its trials in both arms.
type Case struct {
	// Fields are the case in the format of the suites API.
	Fields        map[string]json.RawMessage
	With, Without []Trial
}

// A Trial is one run of a case.
type Trial struct {
	Verdict  string // pass, fail or error
	Score    *float64
	Summary  string
	Error    string // why there is no verdict
	Output   string
	Graders  []verify.GraderResult
	Duration time.Duration
	Reported Reported
}

// Reported is what the tool measured in a trial.
type Reported struct {
	Turns        int     `json:"turns"`
	CostUSD      float64 `json:"cost_usd"`
	JudgeCostUSD float64 `json:"judge_cost_usd"`
	Error        string  `json:"error,omitempty"` // the trial was graded although it ended with this error
}

// USD returns the cost in the form of costs that may be unknown.
func (r Reported) USD() *float64 { return &r.CostUSD }

// file is aggregate-result.json; fields that we have no use for are ignored.
type file struct {
	SchemaVersion *int       `json:"schemaVersion"`
	ClaudeVersion string     `json:"claudeVersion"`
	StartedAt     time.Time  `json:"startedAt"`
	Seconds       float64    `json:"durationSeconds"`
	CostUSD       float64    `json:"costUsd"`
	Partial       bool       `json:"partial"`
	PartialReason string     `json:"partialReason"`
	Suite         fileSuite  `json:"suite"`
	Cases         []fileCase `json:"cases"`
	Aggregates    struct {
		CasesPassed  int      `json:"casesPassed"`
		OverallScore float64  `json:"overallScore"`
		MeanDelta    *float64 `json:"meanDelta"`
	} `json:"aggregates"`
}

type fileSuite struct {
	Model      string   `json:"modelOverride"`
	JudgeModel string   `json:"judgeModel"`
	Threshold  float64  `json:"threshold"`
	Plugins    []Plugin `json:"plugins"`
}

type fileCase struct {
	Name     string `json:"name"`
	Dir      string `json:"dir"`
	Prompt   string `json:"promptMarkdown"`
	Model    string `json:"model"`
	Timeout  int    `json:"timeoutSeconds"`
	MaxTurns int    `json:"maxTurns"`
	Graders  []struct {
		Name   string                     `json:"name"`
		Type   verify.GraderType          `json:"type"`
		Weight float64                    `json:"weight"`
		Config map[string]json.RawMessage `json:"config"`
	} `json:"graders"`
	Arms struct {
		With    []fileTrial `json:"with"`
		Without []fileTrial `json:"without"`
	} `json:"arms"`
}

type fileTrial struct {
	Score        float64 `json:"score"`
	Passed       bool    `json:"passed"`
	Turns        int     `json:"turns"`
	CostUSD      float64 `json:"costUsd"`
	JudgeCostUSD float64 `json:"judgeCostUsd"`
	Seconds      float64 `json:"durationSeconds"`
	Error        *string `json:"error"`
	Skipped      bool    `json:"skippedPaidGraders"`
	Aborted      *struct {
		Server string `json:"server"`
		Tool   string `json:"tool"`
		Reason string `json:"reason"`
	} `json:"aborted"`
	Graders []struct {
		Name        string  `json:"name"`
		Passed      bool    `json:"passed"`
		Weight      float64 `json:"weight"`
		Explanation string  `json:"explanation"`
		WithOnly    bool    `json:"withOnly"`
		Scored      *bool   `json:"scored"`
		Evidence    string  `json:"evidence"`
	} `json:"graders"`
}

// Parse reads an aggregate-result.json. Its errors are Invalid: the file is at fault.
func Parse(raw []byte) (r Result, err error) {
	var f file
	if err := json.Unmarshal(raw, &f); err != nil {
		return r, fault.Invalid("file", "the file is no aggregate-result.json of claude plugin eval: %s", err)
	}
	trials := 0
	for _, c := range f.Cases {
		trials += len(c.Arms.With) + len(c.Arms.Without)
	}
	switch {
	case f.SchemaVersion == nil || f.ClaudeVersion == "":
		return r, fault.Invalid("file",
			"the file is no aggregate-result.json of claude plugin eval: it has no schemaVersion or claudeVersion")
	case *f.SchemaVersion != 1:
		return r, fault.Invalid("file", "the file has the schemaVersion %d; 1 can be read", *f.SchemaVersion)
	case len(f.Cases) < 1 || len(f.Cases) > maxCases:
		return r, fault.Invalid("file", "the file must have 1 to %d cases, not %d", maxCases, len(f.Cases))
	case trials < 1 || trials > maxTrials:
		return r, fault.Invalid("file", "the file must have 1 to %d runs of cases, not %d", maxTrials, trials)
	case f.StartedAt.IsZero():
		return r, fault.Invalid("file", "startedAt in the file is missing")
	}
	r = Result{Origin: f.origin(raw), StartedAt: f.StartedAt.UTC(), Duration: seconds(f.Seconds)}
	for i, id := range f.ids() {
		c := f.Cases[i]
		fields, judged := c.fields(id)
		one := Case{Fields: fields}
		for _, t := range c.Arms.With {
			one.With = append(one.With, t.trial(c))
		}
		for _, t := range c.Arms.Without {
			one.Without = append(one.Without, t.trial(c))
		}
		r.Judged, r.Compared = r.Judged || judged, r.Compared || len(one.Without) > 0
		r.Cases = append(r.Cases, one)
	}
	return r, nil
}

func (f file) origin(raw []byte) Origin {
	// The digest is of the compact form: the same result with other white space counts
	// as imported before.
	var compact bytes.Buffer
	_ = json.Compact(&compact, raw) // it was decoded before
	sum := sha256.Sum256(compact.Bytes())
	o := Origin{
		Tool: Tool, Version: line(f.ClaudeVersion), Model: line(f.Suite.Model), JudgeModel: line(f.Suite.JudgeModel),
		Plugins: []Plugin{}, Threshold: f.Suite.Threshold, CasesPassed: f.Aggregates.CasesPassed,
		Score:     f.Aggregates.OverallScore,
		MeanDelta: f.Aggregates.MeanDelta, CostUSD: f.CostUSD, Digest: hex.EncodeToString(sum[:]),
	}
	if o.Model == "" {
		o.Model = f.commonModel()
	}
	if f.Partial {
		o.Partial = cmp.Or(line(f.PartialReason), "interrupted")
	}
	for _, p := range f.Suite.Plugins[:min(len(f.Suite.Plugins), 20)] {
		o.Plugins = append(o.Plugins, Plugin{Name: line(p.Name), Version: line(p.Version), Problem: line(p.Problem)})
	}
	return o
}

// commonModel returns the model that all cases name, or "" if they differ.
func (f file) commonModel() string {
	for _, c := range f.Cases {
		if c.Model != f.Cases[0].Model {
			return ""
		}
	}
	return line(f.Cases[0].Model)
}

// line returns a text of the file for display: on one line, and truncated.
func line(s string) string { return text.PlainLine(text.Truncate(s, 200)) }

// long returns a text of the file that may have several lines, truncated.
func long(s string) string { return text.Clean(text.Truncate(s, maxText)) }

func seconds(n float64) time.Duration {
	return time.Duration(min(max(n, 0), math.MaxInt32) * float64(time.Second))
}

// ids returns a unique id for each case: its name, else its folder, else a number.
func (f file) ids() []string {
	all := make([]string, len(f.Cases))
	for i, c := range f.Cases {
		all[i] = line(cmp.Or(c.Name, c.Dir))
		if all[i] == "" || slices.Contains(all[:i], all[i]) {
			all[i] = line(c.Dir)
		}
		if all[i] == "" || slices.Contains(all[:i], all[i]) {
			all[i] = fmt.Sprintf("case %d", i+1)
		}
	}
	return all
}

// fields returns the case in the format of the suites API, and whether a judge takes
// part. Grader settings that are null are left out, as if they were not given.
func (c fileCase) fields(id string) (fields map[string]json.RawMessage, judged bool) {
	graders := []map[string]json.RawMessage{}
	for _, g := range c.Graders {
		one := map[string]json.RawMessage{}
		for name, value := range g.Config {
			if len(value) > 0 && string(value) != "null" {
				one[name] = value
			}
		}
		one["name"], one["type"], one["weight"] = encode(g.Name), encode(g.Type), encode(g.Weight)
		graders = append(graders, one)
		judged = judged || g.Type == verify.LLM || g.Type == verify.Baseline
	}
	kind := "boolean_assertion"
	if judged {
		kind = "llm_rubric"
	}
	return map[string]json.RawMessage{
		"id": encode(id), "name": encode(line(cmp.Or(c.Name, id))), "case_kind": encode(kind),
		"prompt":  encode(text.Clean(c.Prompt)),
		"graders": encode(graders), "agent": encode(map[string]int{"max_turns": c.MaxTurns, "timeout_s": c.Timeout}),
	}, judged
}

func encode(value any) json.RawMessage {
	raw, _ := json.Marshal(value) // it was decoded before
	return raw
}

// trial converts one run of a case. One that ended with an error and did not pass has
// no verdict: whether the skill is to blame isn't known. One that a stand-in (mock)
// server aborted did something forbidden, so it failed.
func (t fileTrial) trial(c fileCase) Trial {
	score := min(max(t.Score, 0), 1)
	out := Trial{
		Score: &score, Duration: seconds(t.Seconds), Output: t.output(c),
		Reported: Reported{Turns: max(t.Turns, 0), CostUSD: t.CostUSD, JudgeCostUSD: t.JudgeCostUSD},
	}
	types := map[string]verify.GraderType{}
	for _, g := range c.Graders {
		types[g.Name] = g.Type
	}
	for _, g := range t.Graders[:min(len(t.Graders), verify.MaxGraders)] {
		scored := !g.WithOnly
		if g.Scored != nil {
			scored = *g.Scored
		}
		out.Graders = append(out.Graders, verify.GraderResult{
			Name: line(g.Name), Type: types[g.Name], Passed: g.Passed, Weight: g.Weight, Scored: scored,
			Details: long(g.Explanation),
		})
	}
	problem := ""
	if t.Error != nil {
		problem = cmp.Or(long(*t.Error), "it ended with an error")
	}
	switch {
	case t.Passed:
		out.Verdict, out.Reported.Error = "pass", problem
		out.Summary = fmt.Sprintf("all of %d graders passed", len(out.Graders))
	case t.Aborted != nil:
		out.Verdict = "fail"
		out.Summary = fmt.Sprintf("the stand-in %s aborted it at %s: %s",
			line(t.Aborted.Server), line(t.Aborted.Tool), long(t.Aborted.Reason))
	case problem != "":
		out.noVerdict("agent_failed: " + problem)
	case t.Skipped:
		out.noVerdict("budget_spent: graders that cost something were skipped")
	case len(out.Graders) == 0:
		out.noVerdict("agent_failed: it was not graded")
	default:
		failed := verify.FailedGraders(out.Graders)
		out.Verdict = "fail"
		out.Summary = long(fmt.Sprintf("%d of %d graders failed: %s", len(failed), len(out.Graders), strings.Join(failed, "; ")))
	}
	return out
}

func (t *Trial) noVerdict(reason string) {
	t.Verdict, t.Score, t.Error, t.Summary = "error", nil, reason, reason
}

// output returns the last message as a judge was shown it, the only place where the
// file has it.
func (t fileTrial) output(c fileCase) string {
	for _, g := range c.Graders {
		focus := string(g.Config["focus"])
		if g.Type != verify.LLM || focus != "" && focus != `"last_message"` {
			continue
		}
		for _, r := range t.Graders {
			if r.Name == g.Name && r.Evidence != "" {
				return text.Clean(text.Tail(r.Evidence, maxOutput))
			}
		}
	}
	return ""
}
