package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// agentSample is what an agent did: a skill, two commands, a file in a folder.
func agentSample() verify.Sample {
	return verify.Sample{
		Output: "Hello Alex,\nthe total is 42.",
		Files:  map[string]string{"out/report.md": "# Report\ntotal: 42\n", "notes.txt": "draft draft"},
		Agent: &verify.Agent{Calls: []verify.ToolCall{
			{Tool: "Skill", Input: `{"skill": "greeter"}`},
			{Tool: "Bash", Input: `{"command": "ls -la"}`},
			{Tool: "Write", Input: `{"file_path":"out/report.md"}`},
			{Tool: "Bash", Input: `{"command": "git push"}`},
		}},
	}
}

func TestGraders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		grader string
		pass   bool
	}{
		"contains":             {`{"type":"regex","pattern":"Alex"}`, true},
		"contains not":         {`{"type":"regex","pattern":"Berta"}`, false},
		"case":                 {`{"type":"regex","pattern":"hello ALEX"}`, false},
		"flag i":               {`{"type":"regex","pattern":"hello ALEX","flags":"gi"}`, true},
		"dot and lines":        {`{"type":"regex","pattern":"Alex.+total"}`, false},
		"flag s":               {`{"type":"regex","pattern":"Alex.+total","flags":"s"}`, true},
		"line start":           {`{"type":"regex","pattern":"^the"}`, false},
		"flag m":               {`{"type":"regex","pattern":"^the","flags":"m"}`, true},
		"any character":        {`{"type":"regex","pattern":"Alex,[^]the"}`, true},
		"escaped":              {`{"type":"regex","pattern":"\\u0041lex"}`, true},
		"not_contains":         {`{"type":"regex","pattern":"error","match":"not_contains"}`, true},
		"not_contains, found":  {`{"type":"regex","pattern":"Alex","match":"not_contains"}`, false},
		"count":                {`{"type":"regex","pattern":"draft","match":"count:2","target":{"source":"file","path":"notes.txt"}}`, true},
		"count, more":          {`{"type":"regex","pattern":"draft","match":"count:1","target":{"source":"file","path":"./notes.txt"}}`, false},
		"count of none":        {`{"type":"regex","pattern":"zzz","match":"count:0"}`, true},
		"missing file":         {`{"type":"regex","pattern":"x","match":"not_contains","target":{"source":"file","path":"no.txt"}}`, false},
		"paths":                {`{"type":"regex","pattern":"^out/report\\.md$","flags":"m","target":"files"}`, true},
		"paths, not contents":  {`{"type":"regex","pattern":"total","target":"files"}`, false},
		"file":                 {`{"type":"file_exists","path":"out/*.md"}`, true},
		"file in any folder":   {`{"type":"file_exists","path":"**/report.md"}`, true},
		"file at the top":      {`{"type":"file_exists","path":"*.md"}`, false},
		"file, any depth":      {`{"type":"file_exists","path":"**/notes.txt"}`, true},
		"file, dot":            {`{"type":"file_exists","path":"out/report?md"}`, true},
		"file, literal dot":    {`{"type":"file_exists","path":"out/reportXmd"}`, false},
		"no file":              {`{"type":"file_exists","path":"*.exe","exists":false}`, true},
		"no file, but there":   {`{"type":"file_exists","path":"*.txt","exists":false}`, false},
		"tool":                 {`{"type":"tool_used","tool":"Write"}`, true},
		"tool, never":          {`{"type":"tool_used","tool":"Edit"}`, false},
		"tool, input":          {`{"type":"tool_used","tool":"Bash","input_match":"\"command\":\"git"}`, true},
		"tool, other input":    {`{"type":"tool_used","tool":"Bash","input_match":"rm -rf"}`, false},
		"tool, at least":       {`{"type":"tool_used","tool":"Bash","min":3}`, false},
		"tool, at most":        {`{"type":"tool_used","tool":"Bash","max":1}`, false},
		"tool, must not":       {`{"type":"tool_used","tool":"Edit","min":0,"max":0}`, true},
		"order":                {`{"type":"tool_order","before":"Skill","after":"Bash"}`, true},
		"order, first calls":   {`{"type":"tool_order","before":"Write","after":"Bash"}`, false},
		"order by input":       {`{"type":"tool_order","before":"Write","after":{"tool":"Bash","input_match":"push"}}`, true},
		"order, never called":  {`{"type":"tool_order","before":"Edit","after":"Bash"}`, false},
		"order, after missing": {`{"type":"tool_order","before":"Bash","after":"Edit"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check, err := verify.Graders(graders(t, tt.grader))
			if err != nil {
				t.Fatal(err)
			}
			got, err := check(t.Context(), agentSample())
			if err != nil || got[0].Pass != tt.pass || got[0].Evidence == "" {
				t.Errorf("got %+v, %v, want %v", got, err, tt.pass)
			}
		})
	}
}

// graders parses graders without names.
func graders(t *testing.T, all ...string) []verify.Grader {
	t.Helper()
	for i, g := range all {
		all[i] = strings.Replace(g, "{", `{"name":"g`+string(rune('a'+i))+`",`, 1)
	}
	parsed, err := verify.ParseGraders(json.RawMessage("[" + strings.Join(all, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestParseGraders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ graders, want string }{
		"no array":      {`{}`, "array"},
		"none":          {`[]`, "1 to 256"},
		"no name":       {`[{"type":"llm","criteria":"c"}]`, "name is required"},
		"twice":         {`[{"name":"a","type":"llm","criteria":"c"},{"name":"a","type":"llm","criteria":"c"}]`, "two graders"},
		"unknown type":  {`[{"name":"a","type":"vibes"}]`, "vibes"},
		"unknown field": {`[{"name":"a","type":"llm","criteria":"c","pattern":"x"}]`, `no field "pattern"`},
		"no pattern":    {`[{"name":"a","type":"regex"}]`, "pattern is required"},
		"bad match":     {`[{"name":"a","type":"regex","pattern":"x","match":"count:x"}]`, "match must be"},
		"bad weight":    {`[{"name":"a","type":"llm","criteria":"c","weight":0}]`, "weight"},
		"bad arm":       {`[{"name":"a","type":"llm","criteria":"c","arm":"left"}]`, "arm"},
		"bad target":    {`[{"name":"a","type":"regex","pattern":"x","target":"moon"}]`, "target"},
		"bad file":      {`[{"name":"a","type":"regex","pattern":"x","target":{"source":"url","path":"x"}}]`, "target"},
		"negative":      {`[{"name":"a","type":"tool_used","tool":"Bash","min":-1}]`, "negative"},
		"null":          {`[{"name":"a","type":"tool_used","tool":null}]`, "tool must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := verify.ParseGraders(json.RawMessage(tt.graders)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestUnsupportedGraders(t *testing.T) {
	t.Parallel()
	for _, g := range []string{
		`{"type":"baseline","baseline_file":"b.jsonl","criteria":"c"}`,
		`{"type":"regex","pattern":"x","target":"trace"}`,
		`{"type":"llm","criteria":"c","focus":"mock_calls"}`,
		`{"type":"regex","pattern":"(?=x)"}`,
		`{"type":"regex","pattern":"(a)\\1"}`,
		`{"type":"regex","pattern":"[]"}`,
		`{"type":"regex","pattern":"x","flags":"y"}`,
		`{"type":"regex","pattern":"x","target":{"source":"file","path":"../../etc/passwd"}}`,
		`{"type":"regex","pattern":"((((a{99}){99}){99}){99})"}`,
		`{"type":"tool_used","tool":"Bash","input_match":"(?<!x)"}`,
		`{"type":"tool_order","before":"Bash","after":{"tool":"Bash","input_match":"("}}`,
	} {
		all := graders(t, g)
		if all[0].Unsupported() == "" {
			t.Errorf("%s is supported", g)
		}
		if _, err := verify.Graders(all); err == nil {
			t.Errorf("%s compiles", g)
		}
	}
}

// A model that answered alone has called no tools and left no files, which is not
// the same as an agent that called none.
func TestGradersWithoutAgent(t *testing.T) {
	t.Parallel()
	alone := verify.Sample{Output: "hello"}
	for g, want := range map[string]error{
		`{"type":"regex","pattern":"hello"}`:                verify.ErrNoAgent,
		`{"type":"tool_used","tool":"Bash","min":0}`:        verify.ErrNoAgent,
		`{"type":"file_exists","path":"x","exists":false}`:  verify.ErrNoAgent,
		`{"type":"llm","criteria":"c","focus":"files"}`:     verify.ErrNoAgent,
		`{"type":"tool_order","before":"Bash","after":"B"}`: verify.ErrNoAgent,
	} {
		check, err := verify.Graders(graders(t, g))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(g, "hello") {
			want = nil
		}
		if _, err := check(t.Context(), alone); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", g, err, want)
		}
	}
}

// The most expensive grader that is allowed ends within the budget.
func TestGradersBounded(t *testing.T) {
	t.Parallel()
	sample := verify.Sample{Output: strings.Repeat("a", 1<<20)}
	for _, g := range []string{
		`{"type":"regex","pattern":"a{900}b|a{901}c|a{902}d|a{903}e|a{904}f|a{905}g"}`,
		`{"type":"regex","pattern":"a(.*b)?","match":"count:1000000"}`,
		`{"type":"regex","pattern":"a","match":"count:2000000000"}`,
	} {
		check, err := verify.Graders(graders(t, g))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := check(t.Context(), sample); err == nil || !strings.Contains(err.Error(), "too many steps") {
			t.Errorf("%s: %v", g, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check, err := verify.Graders(graders(t, `{"type":"regex","pattern":"b"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := check(ctx, sample); err == nil {
		t.Error("a check goes on after its run was cancelled")
	}
}

func TestScored(t *testing.T) {
	t.Parallel()
	all := graders(t, `{"type":"tool_used","tool":"Skill"}`, `{"type":"llm","criteria":"c"}`,
		`{"type":"regex","pattern":"x","arm":"with-only"}`, `{"type":"tool_used","tool":"Skill","arm":"both"}`)
	for name, tt := range map[string]struct {
		graders  []verify.Grader
		compared bool
		want     []bool
	}{
		"alone":          {all, false, []bool{true, true, true, true}},
		"compared":       {all, true, []bool{false, true, false, true}},
		"only with-only": {all[:1], true, []bool{true}},
	} {
		got := verify.Scored(tt.graders, tt.compared)
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %v, want %v", name, got, tt.want)
			}
		}
	}
}

func FuzzGraders(f *testing.F) {
	f.Add(`[{"name":"a","type":"regex","pattern":"a[^]\\s.\\u0041","flags":"ims","match":"count:2"}]`, "a b")
	f.Add(`[{"name":"a","type":"file_exists","path":"**/a?[*"},{"name":"b","type":"tool_order","before":"X","after":{"tool":"Y"}}]`, "x")
	f.Fuzz(func(t *testing.T, raw, output string) {
		all, err := verify.ParseGraders(json.RawMessage(raw))
		if err != nil {
			return
		}
		check, err := verify.Graders(all)
		if err != nil {
			return
		}
		s := agentSample()
		s.Output = output
		if got, err := check(t.Context(), s); err == nil && len(got) != len(all) {
			t.Errorf("%d results of %d graders", len(got), len(all))
		}
	})
}
