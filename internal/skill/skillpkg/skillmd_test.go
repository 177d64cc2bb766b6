package skillpkg_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

func TestParseSkill(t *testing.T) {
	raw := `---
name: " pdf-ﬁlling "
description: >
  Fills PDF forms.
  Use when a form is at hand.
license: Apache-2.0
compatibility: 1.0
allowed-tools: Bash(git:*) Read
metadata:
  author: someone
  version: 1.0
  stable: true
  since: 2026-01-02
  none:
argument-hint: on
model: 007
---

# Body
---
text
`
	got, err := skillpkg.ParseSkill([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	metadata := map[string]string{"author": "someone", "version": "1.0", "stable": "true", "since": "2026-01-02", "none": ""}
	nested := map[string]any{}
	for k, v := range metadata {
		nested[k] = v
	}
	want := skillpkg.Skill{
		Name:          "pdf-filling",
		Description:   "Fills PDF forms. Use when a form is at hand.",
		License:       "Apache-2.0",
		Compatibility: "1.0",
		AllowedTools:  "Bash(git:*) Read",
		Metadata:      metadata,
		Fields: []skillpkg.Field{
			{Key: "name", Value: " pdf-ﬁlling ", Line: 2},
			{Key: "description", Value: "Fills PDF forms. Use when a form is at hand.\n", Line: 3},
			{Key: "license", Value: "Apache-2.0", Line: 6},
			{Key: "compatibility", Value: "1.0", Line: 7},
			{Key: "allowed-tools", Value: "Bash(git:*) Read", Line: 8},
			{Key: "metadata", Value: nested, Line: 9},
			{Key: "argument-hint", Value: "on", Line: 15},
			{Key: "model", Value: "007", Line: 16},
		},
		Body:     "\n# Body\n---\ntext\n",
		BodyLine: 18,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Fields[6:], got.Extra()); diff != "" {
		t.Error(diff)
	}
}

func TestParseSkillNotes(t *testing.T) {
	for _, c := range []struct {
		name  string
		raw   string
		notes []skillpkg.Note
		want  func(skillpkg.Skill) (got, want any)
	}{
		{"none", skillText, nil, nil},
		{"CRLF", strings.ReplaceAll(skillText, "\n", "\r\n"), nil, func(s skillpkg.Skill) (any, any) { return s.Body, "# Demo\n" }},
		{"blanks after the fences", "--- \t\nname: a\n---  \nb", nil, func(s skillpkg.Skill) (any, any) { return s.Body, "b" }},
		{"no line after the fence", "---\nname: a\n---", nil, func(s skillpkg.Skill) (any, any) { return s.Body, "" }},
		{"BOM", "\ufeff" + skillText, []skillpkg.Note{{Code: skillpkg.CodeBOM, Line: 1}}, nil},
		{
			"fence in a value", "---\nname: a\ndescription: one --- two\n---\n",
			[]skillpkg.Note{{Code: skillpkg.CodeAmbiguousFence, Line: 1}},
			func(s skillpkg.Skill) (any, any) { return s.Description, "one --- two" },
		},
		{
			"unquoted colon", "---\nname: a\ndescription: Use when: it's time\nlicense: MIT\n---\n",
			[]skillpkg.Note{{Code: skillpkg.CodeRepaired, Line: 3}},
			func(s skillpkg.Skill) (any, any) { return s.Description, "Use when: it's time" },
		},
		{
			"unquoted colon at the end", "---\nname: a\ndescription: Do this: or that:\n---\n",
			[]skillpkg.Note{{Code: skillpkg.CodeRepaired, Line: 3}},
			func(s skillpkg.Skill) (any, any) { return s.Description, "Do this: or that:" },
		},
		{
			"text is not repaired", "---\nnotes: |\n  a: b: c\n\n  d: e: f\nmetadata:\n  x: g: h\n---\n",
			[]skillpkg.Note{{Code: skillpkg.CodeRepaired, Line: 7}},
			func(s skillpkg.Skill) (any, any) {
				return []any{s.Fields[0].Value, s.Metadata["x"]}, []any{"a: b: c\n\nd: e: f\n", "g: h"}
			},
		},
		{
			"anchor", "---\nname: &n a\ndescription: *n\n---\n",
			[]skillpkg.Note{{Code: skillpkg.CodeYAMLFeature, Line: 2}},
			func(s skillpkg.Skill) (any, any) { return s.Description, "a" },
		},
		{"tag", "---\nname: a\nx: !!str 1\n---\n", []skillpkg.Note{{Code: skillpkg.CodeYAMLFeature, Line: 3}}, nil},
		{
			"tools as a list", "---\nallowed-tools:\n  - Read\n  - Bash(git:*)\n---\n",
			[]skillpkg.Note{{Code: skillpkg.CodeToolsNotString, Line: 2}},
			func(s skillpkg.Skill) (any, any) { return s.AllowedTools, "Read Bash(git:*)" },
		},
		{
			"nested metadata", "---\nmetadata:\n  openclaw:\n    emoji: <x>\n    bins: [a]\n---\n",
			[]skillpkg.Note{{Code: skillpkg.CodeYAMLFeature, Line: 5}, {Code: skillpkg.CodeMetadataNotStrings, Line: 2}},
			func(s skillpkg.Skill) (any, any) {
				return s.Metadata, map[string]string{"openclaw": `{"bins":["a"],"emoji":"<x>"}`}
			},
		},
		{"metadata as text", "---\nmetadata: x\n---\n", []skillpkg.Note{{Code: skillpkg.CodeMetadataNotStrings, Line: 2}}, nil},
		{"compatibility as a list", "---\ncompatibility:\n- x\n---\n", []skillpkg.Note{{Code: skillpkg.CodeCompatNotString, Line: 2}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			skill, err := skillpkg.ParseSkill([]byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			var notes []skillpkg.Note
			for _, n := range skill.Notes {
				if n.Detail == "" {
					t.Errorf("%s says nothing", n.Code)
				}
				notes = append(notes, skillpkg.Note{Code: n.Code, Line: n.Line})
			}
			if diff := cmp.Diff(c.notes, notes); diff != "" {
				t.Error(diff)
			}
			if c.want == nil {
				return
			}
			got, want := c.want(skill)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// aliasBomb would be a billion words if aliases were written out.
func aliasBomb() string {
	bomb := "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
	for i := '1'; i <= '9'; i++ {
		p := string(i - 1)
		bomb += "a" + string(i) + ": &a" + string(i) + " [" + strings.Repeat("*a"+p+",", 9) + "*a" + p + "]\n"
	}
	return bomb
}

func TestParseSkillRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		raw  string
		code skillpkg.Code
		line int
	}{
		{"not UTF-8", "---\nname: \xff\n---\n", skillpkg.CodeNotUTF8, 0},
		{"empty", "", skillpkg.CodeNoFrontmatter, 1},
		{"no fence", "# Demo\n", skillpkg.CodeNoFrontmatter, 1},
		{"blank line first", "\n" + skillText, skillpkg.CodeNoFrontmatter, 1},
		{"two BOMs", "\ufeff\ufeff" + skillText, skillpkg.CodeNoFrontmatter, 1},
		{"four dashes", "----\nname: a\n----\n", skillpkg.CodeNoFrontmatter, 1},
		{"unclosed", "---\nname: a\n", skillpkg.CodeUnclosed, 1},
		{"closed by an indented fence", "---\nname: a\n ---\n", skillpkg.CodeUnclosed, 1},
		{"bad YAML", "---\nname: a\nx: [1\n---\n", skillpkg.CodeYAMLInvalid, 2},
		{"tab", "---\nname: a\n\tx: 1\n---\n", skillpkg.CodeYAMLInvalid, 2},
		{"duplicate key", "---\nname: a\nname: b\n---\n", skillpkg.CodeYAMLInvalid, 3},
		{"duplicate key inside", "---\nmetadata:\n  a: 1\n  a: 2\n---\n", skillpkg.CodeYAMLInvalid, 4},
		{"key that is a list", "---\n? [a]\n: b\n---\n", skillpkg.CodeYAMLInvalid, 2},
		{"two documents", "---\nname: a\n...\nname: b\n---\n", skillpkg.CodeYAMLInvalid, 1},
		{"unknown alias", "---\nname: *a\n---\n", skillpkg.CodeYAMLInvalid, 1},
		{"alias to itself", "---\nname: &a [*a]\n---\n", skillpkg.CodeYAMLInvalid, 2},
		{"alias bomb", "---\n" + aliasBomb() + "---\n", skillpkg.CodeYAMLInvalid, 2},
		{"deep brackets", "---\nname: " + strings.Repeat("[", 60_000) + "\n---\n", skillpkg.CodeYAMLInvalid, 2},
		{"deep closed brackets", "---\nname: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n---\n", skillpkg.CodeYAMLInvalid, 2},
		{"deep lists", "---\n" + strings.Repeat("- ", 30_000) + "\n---\n", skillpkg.CodeYAMLInvalid, 2},
		{"empty frontmatter", "---\n---\n", skillpkg.CodeNotMapping, 1},
		{"comment only", "---\n# x\n---\n", skillpkg.CodeNotMapping, 1},
		{"list", "---\n- a\n---\n", skillpkg.CodeNotMapping, 1},
		{"text", "---\nhello\n---\n", skillpkg.CodeNotMapping, 1},
		{"huge", "---\nname: " + strings.Repeat("a", 64<<10) + "\n---\n", skillpkg.CodeFrontmatterTooLong, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := skillpkg.ParseSkill([]byte(c.raw))
			wantCode(t, err, c.code)
			refused, ok := errors.AsType[*skillpkg.Error](err)
			if ok && refused.Line != c.line {
				t.Errorf("got line %d (%v), want %d", refused.Line, err, c.line)
			}
		})
	}
}
