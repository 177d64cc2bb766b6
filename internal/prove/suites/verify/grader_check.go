package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// ErrNoAgent means that a grader needs what an agent did or left, and there was no
// agent.
var ErrNoAgent = errors.New("the graders look at what an agent did, and no agent took part")

// A GraderCheck decides the deterministic graders of a case on a sample. The results of
// judged graders are zero. All graders share one budget.
type GraderCheck func(ctx context.Context, s Sample) ([]Result, error)

// Graders compiles the graders of a case.
func Graders(all []Grader) (GraderCheck, error) {
	checks := make([]graderCheck, len(all))
	for i, g := range all {
		if reason := g.Unsupported(); reason != "" {
			return nil, fmt.Errorf("grader %s: %s", quote(g.Name), reason)
		}
		checks[i], _ = compileGrader(g) // Unsupported has tried it
	}
	return func(ctx context.Context, s Sample) ([]Result, error) {
		b, stop := newBudget(ctx)
		defer stop()
		results := make([]Result, len(all))
		for i, check := range checks {
			if s.Agent == nil && all[i].needsCalls() || s.Files == nil && all[i].needsFiles() {
				return nil, ErrNoAgent
			}
			if check == nil {
				continue
			}
			var err error
			if results[i], err = check(b, s); err != nil {
				return nil, fmt.Errorf("grader %s: %w", quote(all[i].Name), err)
			}
		}
		return results, nil
	}, nil
}

// A graderCheck decides one grader, within the budget of them all.
type graderCheck func(b *budget, s Sample) (Result, error)

// compileGrader compiles a grader; nil if it is a judge that decides.
func compileGrader(g Grader) (none graderCheck, err error) {
	switch g.Type {
	case Regex:
		return compileRegex(g)
	case ToolUsed:
		return compileToolUsed(g)
	case ToolOrder:
		return compileToolOrder(g)
	case FileExists:
		return compileFileExists(g)
	case LLM, Baseline:
	}
	return none, nil // a judge decides it
}

func compileRegex(g Grader) (graderCheck, error) {
	p, err := compileJavaScript(g.Pattern, g.Flags)
	if err != nil {
		return nil, err
	}
	return func(b *budget, s Sample) (Result, error) {
		content, err := s.Read(g.On)
		if err != nil {
			return fail("%s", err)
		}
		if n, ok := strings.CutPrefix(g.Match, "count:"); ok {
			want, _ := strconv.Atoi(n) // it was parsed before
			// One more than expected is enough to fail.
			got, err := p.count(b, content, want+1)
			if err != nil {
				return Result{}, err
			}
			found := strconv.Itoa(got)
			if got > want {
				found = "more"
			}
			return Result{got == want, fmt.Sprintf("%d matches are expected in %s, %s were found", want, g.On, found)}, nil
		}
		found, err := p.match(b, content)
		switch {
		case err != nil:
			return Result{}, err
		case found:
			return Result{g.Match == "contains", fmt.Sprintf("%s matches in %s", quote(g.Pattern), g.On)}, nil
		}
		return Result{g.Match != "contains", fmt.Sprintf("%s does not match in %s", quote(g.Pattern), g.On)}, nil
	}, nil
}

// Read returns the text that a grader reads. The error says why there is none, e.g.
// that the file doesn't exist.
func (s Sample) Read(t Target) (string, error) {
	switch t.Source {
	case "files":
		return strings.Join(slices.Sorted(maps.Keys(s.Files)), "\n"), nil
	case "file":
		content, ok := s.Files[path.Clean(t.Path)]
		if !ok {
			return "", fmt.Errorf("the file %s does not exist", quote(t.Path))
		}
		return content, nil
	}
	return s.Output, nil
}

// A toolPattern is a compiled ToolMatch.
type toolPattern struct {
	tool  string
	input *pattern // nil for all
}

func compileTool(m ToolMatch) (toolPattern, error) {
	p := toolPattern{tool: m.Tool}
	if m.Input == "" {
		return p, nil
	}
	var err error
	p.input, err = compileJavaScript(m.Input, "")
	return p, err
}

// find returns the indexes of the calls that match.
func (p toolPattern) find(b *budget, calls []ToolCall) (found []int, err error) {
	for i, c := range calls {
		if c.Tool != p.tool {
			continue
		}
		ok := true
		if p.input != nil {
			if ok, err = p.input.match(b, compactJSON(c.Input)); err != nil {
				return nil, err
			}
		}
		if ok {
			found = append(found, i)
		}
	}
	return found, nil
}

// compactJSON removes insignificant white space from JSON, so that patterns need not
// expect it. A text that isn't JSON stays as it is.
func compactJSON(input string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(input)) != nil {
		return input
	}
	return b.String()
}

func compileToolUsed(g Grader) (graderCheck, error) {
	p, err := compileTool(g.Tool)
	// Once or more by default; -1 means no upper limit.
	least, most := 1, -1
	if g.Min != nil {
		least = *g.Min
	}
	if g.Max != nil {
		most = *g.Max
	}
	expected := fmt.Sprintf("%d or more", least)
	if most >= 0 {
		expected = fmt.Sprintf("%d to %d", least, most)
	}
	return func(b *budget, s Sample) (Result, error) {
		calls, err := p.find(b, s.Agent.Calls)
		n := len(calls)
		return Result{n >= least && (most < 0 || n <= most), fmt.Sprintf("%s was called %d times, expected %s",
			g.Tool.Tool, n, expected)}, err
	}, err
}

// compileToolOrder compares the first calls of the two tools.
func compileToolOrder(g Grader) (graderCheck, error) {
	before, err := compileTool(g.Tool)
	if err != nil {
		return nil, err
	}
	after, err := compileTool(g.After)
	return func(b *budget, s Sample) (Result, error) {
		first, err := before.find(b, s.Agent.Calls)
		if err != nil {
			return Result{}, err
		}
		second, err := after.find(b, s.Agent.Calls)
		switch {
		case err != nil:
			return Result{}, err
		case len(first) == 0:
			return fail("%s was never called", g.Tool.Tool)
		case len(second) == 0:
			return fail("%s was never called", g.After.Tool)
		case first[0] < second[0]:
			return pass("%s was called before %s", g.Tool.Tool, g.After.Tool)
		}
		return fail("%s was not called before %s", g.Tool.Tool, g.After.Tool)
	}, err
}

func compileFileExists(g Grader) (graderCheck, error) {
	p, err := compilePattern(globPattern(g.Path))
	return func(b *budget, s Sample) (Result, error) {
		found := ""
		for _, name := range slices.Sorted(maps.Keys(s.Files)) {
			ok, err := p.match(b, name)
			if err != nil {
				return Result{}, err
			}
			if ok {
				found = name
				break
			}
		}
		if found != "" {
			return Result{g.Exists, fmt.Sprintf("%s exists", quote(found))}, nil
		}
		return Result{!g.Exists, fmt.Sprintf("no file matches %s", quote(g.Path))}, nil
	}, err
}

// globPattern translates a glob into a regular expression: * is part of a name, ** any
// number of folders, and ? one character.
func globPattern(glob string) string {
	var b strings.Builder
	b.WriteString(`^(?s:`)
	for rest := glob; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString(`(?:.*/)?`)
			rest = rest[3:]
		case strings.HasPrefix(rest, "**"):
			b.WriteString(`.*`)
			rest = rest[2:]
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
			rest = rest[1:]
		case rest[0] == '?':
			b.WriteString(`.`)
			rest = rest[1:]
		default:
			end := strings.IndexAny(rest, "*?")
			if end < 0 {
				end = len(rest)
			}
			b.WriteString(regexp.QuoteMeta(rest[:end]))
			rest = rest[end:]
		}
	}
	return b.String() + `)$`
}

// A GraderResult is the verdict of one grader on a trial.
type GraderResult struct {
	Name    string     `json:"name"`
	Type    GraderType `json:"type"`
	Passed  bool       `json:"passed"`
	Weight  float64    `json:"weight"`
	Scored  bool       `json:"scored"` // false: it does not count in the verdict
	Details string     `json:"details,omitempty"`
}

// Score returns the share of the scored graders that passed, by weight; 0 without any.
func Score(all []GraderResult) float64 {
	passed, total := 0.0, 0.0
	for _, r := range all {
		if !r.Scored {
			continue
		}
		total += r.Weight
		if r.Passed {
			passed += r.Weight
		}
	}
	if total == 0 {
		return 0
	}
	return passed / total
}

// FailedGraders returns the scored graders that failed, with the reasons, e.g. "greets:
// no match".
func FailedGraders(all []GraderResult) (failed []string) {
	for _, r := range all {
		if r.Scored && !r.Passed {
			failed = append(failed, text.PlainLine(r.Name)+": "+r.Details)
		}
	}
	return failed
}
