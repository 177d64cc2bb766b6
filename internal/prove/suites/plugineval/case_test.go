package plugineval_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/plugineval"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const helloPrompt = "---\nmax_turns: 5\ntimeout_seconds: 120\nallowed_tools: [Skill]\nruns: 3\ntags: [greeting]\n---\nSay hello to Alex.\n"

// hello is a case in prose, and report one in YAML, as people write them.
func hello() plugineval.Folder {
	return plugineval.Folder{
		"prompt.md":                 helloPrompt,
		"graders/friendly-tone.md":  "---\ntype: llm\nweight: 2\n---\n\nThe greeting is friendly.\nIt is short.\n",
		"graders/greets-by-name.md": "---\ntype: regex\nflags: i\n---\nhello,? alex\n",
		"graders/README.md":         "What the graders are for.\n",
	}
}

func report() plugineval.Folder {
	return plugineval.Folder{"case.yaml": `# a comment that stays
schema_version: "1.0"
name: weekly report
description: Writes the report
execution:
  prompt: |
    Write report.md with the
    total of the week.
  model: sonnet
graders:
  - {name: file, type: file_exists, path: "**/report.md"}
  - name: used
    type: tool_used
    tool: Bash
    input_match: "git log"
    min: 1
    weight: 0.5
  - name: order
    type: tool_order
    before: {tool: Read}
    after: Write
  - name: total
    type: llm
    criteria: "It has a total: 42"
    focus: {source: file, path: report.md}
expected_outcome: a report
`}
}

// archive packs files into a zip and opens it.
func archive(t *testing.T, files map[string]string) *skillpkg.Package {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, b.Bytes())
}

func open(t *testing.T, raw []byte) *skillpkg.Package {
	t.Helper()
	limits := skillpkg.DefaultLimits()
	limits.Files, limits.Depth, limits.Ratio = 5000, 20, 1000
	p, err := skillpkg.Open(t.Context(), bytes.NewReader(raw), int64(len(raw)), limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// below puts files into a folder.
func below(dir string, files ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, some := range files {
		for name, text := range some {
			all[dir+"/"+name] = text
		}
	}
	return all
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	files := below("my-plugin/evals/01-hello", hello())
	maps.Copy(files, below("my-plugin/evals/group/report", report()))
	files["my-plugin/.claude-plugin/plugin.json"] = `{"name": "greeter", "version": "1.2.0"}`
	files["my-plugin/skills/x/prompt.md"] = "not a case"
	files["my-plugin/evals/results/2026/prompt.md"] = "not a case"
	found, plugin, err := plugineval.Find(archive(t, files))
	if err != nil || plugin != "greeter" || len(found) != 2 {
		t.Fatalf("%d cases of %q, %v", len(found), plugin, err)
	}
	got := plugineval.Translate(found)
	if len(got.Refused) > 0 || !got.Judged {
		t.Fatalf("refused %v", got.Refused)
	}
	var cases []map[string]any
	for _, fields := range got.Cases {
		raw, _ := json.Marshal(fields)
		var c map[string]any
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	want := []map[string]any{
		{
			"id": "01-hello", "name": "01-hello", "case_kind": "llm_rubric", "prompt": "Say hello to Alex.", "tags": []any{"greeting"},
			"agent": map[string]any{"max_turns": 5.0, "timeout_s": 120.0},
			"graders": []any{
				map[string]any{"name": "friendly-tone", "type": "llm", "weight": 2.0, "criteria": "The greeting is friendly.\nIt is short."},
				map[string]any{"name": "greets-by-name", "type": "regex", "flags": "i", "pattern": "hello,? alex"},
			},
			"plugin_eval": map[string]any{"dir": "01-hello", "files": plain(hello())},
		},
		{
			"id": "weekly report", "name": "weekly report", "case_kind": "llm_rubric", "description": "Writes the report", "expected_outcome": "a report",
			"prompt": "Write report.md with the\ntotal of the week.\n",
			"agent":  map[string]any{"max_turns": 10.0, "timeout_s": 300.0},
			"graders": []any{
				map[string]any{"name": "file", "type": "file_exists", "path": "**/report.md"},
				map[string]any{"name": "used", "type": "tool_used", "tool": "Bash", "input_match": "git log", "min": 1.0, "weight": 0.5},
				map[string]any{"name": "order", "type": "tool_order", "before": map[string]any{"tool": "Read"}, "after": "Write"},
				map[string]any{"name": "total", "type": "llm", "criteria": "It has a total: 42", "focus": map[string]any{"source": "file", "path": "report.md"}},
			},
			"plugin_eval": map[string]any{"dir": "group/report", "files": plain(report())},
		},
	}
	if diff := cmp.Diff(want, cases); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	for _, want := range []string{
		"01-hello: execution.allowed_tools is kept", "group/report: execution.model is kept", "all cases: the case asks for 3 runs",
	} {
		if !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("no warning %q in %q", want, got.Warnings)
		}
	}
}

func plain(f plugineval.Folder) map[string]any {
	all := map[string]any{}
	for name, text := range f {
		all[name] = text
	}
	return all
}

// TestRoundTrip: what was not changed is exported byte for byte, and what was
// changed says what the case says now, and all else that its files said.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	files := below("evals/01-hello", hello())
	maps.Copy(files, below("evals/report", report()))
	found, _, err := plugineval.Find(archive(t, files))
	if err != nil {
		t.Fatal(err)
	}
	cases := plugineval.Translate(found).Cases
	if diff := cmp.Diff(files, export(t, cases)); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}

	for _, c := range cases {
		c["prompt"], c["tags"] = json.RawMessage(`"yes"`), json.RawMessage(`["1.0"]`)
	}
	changed := export(t, cases)
	if len(changed) != 2 {
		t.Fatalf("files %v", slices.Collect(maps.Keys(changed)))
	}
	for dir, before := range map[string]plugineval.Folder{"01-hello": hello(), "report": report()} {
		text := changed["evals/"+dir+"/case.yaml"]
		c, err := plugineval.Parse(dir, plugineval.Folder{"case.yaml": text})
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		was, err := plugineval.Parse(dir, before)
		if err != nil {
			t.Fatal(err)
		}
		if c.Prompt != "yes" || c.Tags[0] != "1.0" || c.Name != was.Name || c.Runs != was.Runs || c.MaxTurns != was.MaxTurns ||
			c.Description != was.Description || len(c.Warnings()) != len(was.Warnings()) {
			t.Errorf("%s: got %+v\n%s", dir, c, text)
		}
		if diff := cmp.Diff(object(t, was.Graders), object(t, c.Graders)); diff != "" {
			t.Errorf("%s: graders (-want +got):\n%s", dir, diff)
		}
	}
}

func object(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// export writes cases as an archive and returns its files.
func export(t *testing.T, cases []plugineval.Fields) map[string]string {
	t.Helper()
	var members []plugineval.Member
	for _, c := range cases {
		m, err := plugineval.FromFields(c)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	raw, err := plugineval.Archive(members)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	p := open(t, raw)
	for _, f := range p.Installed() {
		text, err := p.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Path] = string(text)
	}
	return files
}

// TestExportHostile: a case may come from anyone; its folder must not lead out of
// the archive, nor over the files of another one.
func TestExportHostile(t *testing.T) {
	t.Parallel()
	c := func(name, origin string) plugineval.Fields {
		return plugineval.Fields{
			"case_kind": json.RawMessage(`"llm_rubric"`), "name": json.RawMessage(`"` + name + `"`), "prompt": json.RawMessage(`"p"`),
			"expectations": json.RawMessage(`["e"]`), "plugin_eval": json.RawMessage(origin),
		}
	}
	files := export(t, []plugineval.Fields{
		c("One", `{"dir": "../../etc"}`),
		c("Two", `{"dir": "/abs", "files": {"../../x.md": "x"}}`),
		c("Three", `{"dir": "a\\..\\b", "files": {"graders/..\\x.md": "x"}}`),
		c("mocks", `{"dir": "mocks/a"}`),
		c("Five", `{"dir": "same"}`), c("Six", `{"dir": "SAME"}`), c("Seven", `{"dir": "same/inner"}`),
		c("..", `{"dir": "results"}`), c("ü", `{}`), c("one", `{}`),
	})
	want := []string{
		"evals/case-10/case.yaml", "evals/case-4/case.yaml", "evals/case-6/case.yaml", "evals/case-7/case.yaml", "evals/case-8/case.yaml",
		"evals/case-9/case.yaml", "evals/one/case.yaml", "evals/same/case.yaml", "evals/three/case.yaml", "evals/two/case.yaml",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestNotRepresentable(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{
		"trigger query": `{"case_kind": "trigger_query", "query": "q", "expectation": "should_trigger"}`,
		"command":       `{"case_kind": "llm_rubric", "command": ["ls"], "rubric": "r"}`,
		"threshold":     `{"case_kind": "llm_rubric", "prompt": "p", "expectations": ["a", "b"], "threshold": 0.5}`,
		"exact match":   `{"case_kind": "exact_match", "prompt": "p", "expected": "e", "rubric": "r"}`,
		"agent":         `{"case_kind": "llm_rubric", "prompt": "p", "rubric": "r", "agent": {"name": "codex"}}`,
		"turns":         `{"case_kind": "llm_rubric", "prompt": "p", "rubric": "r", "agent": {"max_turns": 900}}`,
		"graders":       `{"case_kind": "llm_rubric", "prompt": "p", "graders": [{"name": "a", "type": "vibes"}]}`,
	} {
		var f plugineval.Fields
		if err := json.Unmarshal([]byte(fields), &f); err != nil {
			t.Fatal(err)
		}
		if m, err := plugineval.FromFields(f); err == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	const graders = "graders: [{name: a, type: regex, pattern: x}]\n"
	definition := func(more string) string {
		return "schema_version: '1.0'\nname: n\nexecution: {prompt: p}\n" + graders + more
	}
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("b%d: &b%d [*%s]\n", i, i, strings.Repeat(fmt.Sprintf("b%d,*", i-1), 8)+fmt.Sprintf("b%d", i-1))
	}
	bomb = strings.ReplaceAll(bomb, "b-1", "a")
	for name, tt := range map[string]struct {
		files plugineval.Folder
		want  string
	}{
		"empty":            {plugineval.Folder{"case.yaml": ""}, "no prompt"},
		"no YAML":          {plugineval.Folder{"case.yaml": "a: ["}, "not valid YAML"},
		"a list":           {plugineval.Folder{"case.yaml": "[a]"}, "YAML object"},
		"two documents":    {plugineval.Folder{"case.yaml": "a: 1\n---\nb: 2\n"}, "more than one"},
		"twice":            {plugineval.Folder{"case.yaml": "a: 1\na: 2\n"}, "twice"},
		"deep":             {plugineval.Folder{"case.yaml": "a: " + deep}, "too deeply"},
		"bomb":             {plugineval.Folder{"case.yaml": bomb}, "too large"},
		"cycle":            {plugineval.Folder{"case.yaml": "a: &a [*a]\n"}, "nested"},
		"huge":             {plugineval.Folder{"case.yaml": strings.Repeat("#", 1<<20+1)}, "limit"},
		"number version":   {plugineval.Folder{"case.yaml": strings.Replace(definition(""), "'1.0'", "1.0", 1)}, "schema_version"},
		"newer":            {plugineval.Folder{"case.yaml": strings.Replace(definition(""), "'1.0'", "'2.0'", 1)}, "schema_version"},
		"runs":             {plugineval.Folder{"case.yaml": definition("runs: 51\n")}, "runs must be 1 to 50"},
		"tags":             {plugineval.Folder{"case.yaml": definition("tags: 5\n")}, "tags must not be"},
		"no graders":       {plugineval.Folder{"prompt.md": "hi"}, "graders"},
		"template":         {plugineval.Folder{"prompt.md": "TODO: describe what the agent should do"}, "template"},
		"unknown key":      {plugineval.Folder{"prompt.md": "---\nmax_turn: 5\n---\nhi"}, `"max_turn" is unknown`},
		"unterminated":     {plugineval.Folder{"prompt.md": "---\nmax_turns: 5\nhi"}, "closing"},
		"scaffold":         {plugineval.Folder{"case.yaml": definition("context: {scaffold_script: setup.sh}\n")}, "context.scaffold_script"},
		"fixtures":         {plugineval.Folder{"case.yaml": definition("context: {add_dirs: [data]}\n")}, "context.add_dirs"},
		"history":          {plugineval.Folder{"case.yaml": definition("context: {history_file: h.jsonl}\n")}, "context.history_file"},
		"system prompt":    {plugineval.Folder{"prompt.md": "---\nappend_system_prompt: x\n---\nhi", "graders/a.md": "---\ntype: llm\n---\nc"}, "append_system_prompt"},
		"variables":        {plugineval.Folder{"prompt.md": "---\nenv: {EVAL_A: x}\n---\nhi", "graders/a.md": "---\ntype: llm\n---\nc"}, "execution.env"},
		"publishing":       {plugineval.Folder{"prompt.md": "---\nartifact_publish: true\n---\nhi", "graders/a.md": "---\ntype: llm\n---\nc"}, "artifact_publish"},
		"trace":            {plugineval.Folder{"prompt.md": "hi", "graders/a.md": "---\ntype: regex\ntarget: trace\n---\nc"}, "trace"},
		"baseline":         {plugineval.Folder{"prompt.md": "hi", "graders/a.md": "---\ntype: baseline\nbaseline_file: b\n---\nc"}, "baseline"},
		"lookahead":        {plugineval.Folder{"prompt.md": "hi", "graders/a.md": "---\ntype: regex\n---\n(?=x)"}, "regular expression"},
		"grader's type":    {plugineval.Folder{"prompt.md": "hi", "graders/a.md": "---\nweight: 1\n---\nc"}, "type is required"},
		"grader, template": {plugineval.Folder{"prompt.md": "hi", "graders/a.md": "---\ntype: llm\n---\nTODO: describe what a successful response looks like"}, "template"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plugineval.Translate([]plugineval.Found{{Dir: "c", Files: tt.files}})
			if len(got.Refused) != 1 || len(got.Cases) > 0 || !strings.Contains(strings.Join(got.Refused[0].Reasons, "\n"), tt.want) {
				t.Errorf("refused %q, want %q", got.Refused, tt.want)
			}
		})
	}
	found, _, err := plugineval.Find(archive(t, map[string]string{
		"evals/a/prompt.md": "hi", "evals/a/graders/a.md": "---\ntype: llm\n---\nc", "evals/a/data.csv": "1", "evals/mocks/jira/search.md": "x",
		"evals/b/prompt.md": "hi \xff", "evals/b/graders/a.md": "---\ntype: llm\n---\nc",
	}))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(plugineval.Translate(found).Refused)
	for _, want := range []string{"evals/mocks/: MCP servers have no stand-ins here", "prompt.md is not a text in UTF-8"} {
		if !strings.Contains(got, want) {
			t.Errorf("refused %s, want %q", got, want)
		}
	}
	if w := fmt.Sprint(found[0].Warnings); w != "[the file data.csv is not imported]" {
		t.Errorf("warnings %s", w)
	}
}

// FuzzParse: whatever is accepted is exported as it was, and if it is changed, it
// is still accepted and says the same otherwise.
func FuzzParse(f *testing.F) {
	for _, folder := range []plugineval.Folder{hello(), report()} {
		f.Add(folder["case.yaml"], folder["prompt.md"], folder["graders/friendly-tone.md"])
	}
	f.Add("schema_version: '1.0'\nname: 'n: 1'\nruns: 1e1\nexecution: {prompt: \"\\u2028x\\t\"}\n", "", "---\ntype: regex\npattern: 1\n---\n")
	f.Fuzz(func(t *testing.T, definition, prompt, grader string) {
		files := plugineval.Folder{}
		for name, text := range map[string]string{"case.yaml": definition, "prompt.md": prompt, "graders/a.md": grader} {
			if text != "" {
				files[name] = text
			}
		}
		got := plugineval.Translate([]plugineval.Found{{Dir: "dir", Files: files}})
		if len(got.Cases) == 0 {
			if len(got.Refused) == 0 {
				t.Error("neither a case nor a reason")
			}
			return
		}
		m, err := plugineval.FromFields(got.Cases[0])
		if err != nil {
			t.Fatal(err)
		}
		same := true
		for name, text := range files {
			same = same && m.Files[name] == text
		}
		if !same && strings.ToValidUTF8(definition+prompt+grader, "") == definition+prompt+grader {
			t.Errorf("got %q, want %q", m.Files, files)
		}
		before, err := plugineval.Parse("dir", files)
		if err != nil {
			t.Fatal(err)
		}
		got.Cases[0]["prompt"] = json.RawMessage(`"another prompt"`)
		changed, err := plugineval.FromFields(got.Cases[0])
		if err != nil {
			t.Fatal(err)
		}
		after, err := plugineval.Parse("dir", changed.Files)
		if err != nil {
			t.Fatalf("%v\n%s", err, changed.Files["case.yaml"])
		}
		if after.Prompt != "another prompt" || after.Runs != before.Runs || !cmp.Equal(object(t, after.Graders), object(t, before.Graders)) {
			t.Errorf("got %+v\nfrom %s", after, changed.Files["case.yaml"])
		}
	})
}
