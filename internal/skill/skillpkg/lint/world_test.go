package lint_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// skillText is a SKILL.md that nothing is wrong with. What body adds begins on
// line firstAdded.
const (
	skillText = `---
name: pdf-tables
description: Extracts tables from PDF files as CSV. Use when the user asks for tables or figures of a PDF.
license: MIT
compatibility: Needs Python 3.11.
metadata:
  version: "1.2.0"
allowed-tools: Read Bash(python:*)
---

# PDF tables

1. Read [the guide](references/guide.md#columns).
2. Run ` + "`python scripts/extract.py FILE`" + `, and say which pages had no table.

`
	firstAdded = 16
)

// files is the content of a folder.
type files map[string]string

// goodSkill returns a skill without any finding.
func goodSkill() files {
	return files{
		"SKILL.md": skillText,
		"scripts/extract.py": `import csv
import subprocess
import sys

# Never build this command as text.
out = subprocess.run(["pdftotext", "-layout", sys.argv[1], "-"], capture_output=True, check=True)
csv.writer(sys.stdout).writerows(line.split() for line in out.stdout.decode().splitlines())
`,
		"references/guide.md": "# Guide\n\n## Columns\n\nSee [SKILL](../SKILL.md) and [the site](https://example.com/docs).\n",
		"evals/evals.json":    `{"skill_name": "pdf-tables", "evals": [{"id": 1, "prompt": "Get the table.", "expectations": ["It is CSV."]}]}`,
	}
}

// with returns a copy of the folder with other files in it; an empty text
// removes a file.
func (f files) with(changes files) files {
	f = maps.Clone(f)
	for path, text := range changes {
		f[path] = text
		if text == "" {
			delete(f, path)
		}
	}
	return f
}

// edit is a SKILL.md with a part replaced.
func edit(old, text string) files {
	if !strings.Contains(skillText, old) {
		panic("skillText does not hold " + old)
	}
	return files{"SKILL.md": strings.Replace(skillText, old, text, 1)}
}

// body is a SKILL.md with text added at its end.
func body(format string, args ...any) files {
	return files{"SKILL.md": skillText + fmt.Sprintf(format, args...) + "\n"}
}

func fence(lang, text string) string { return "```" + lang + "\n" + text + "\n```" }

// pack makes a package of the folder, which knows its name.
func (f files) pack(t testing.TB) *skillpkg.Package {
	t.Helper()
	folder := fstest.MapFS{}
	for path, text := range f {
		folder[path] = &fstest.MapFile{Data: []byte(text)}
	}
	var archive bytes.Buffer
	limits := skillpkg.DefaultLimits()
	limits.Ratio = 1 << 20 // test data repeat themselves
	packed, err := skillpkg.Pack(t.Context(), folder, &archive, skillpkg.PackOptions{Format: skillpkg.Zip, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	p, err := skillpkg.Open(t.Context(), bytes.NewReader(archive.Bytes()), packed.Size, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	p.Folder = "pdf-tables"
	return p
}

func (f files) check(t testing.TB) lint.Report {
	t.Helper()
	r, err := lint.Check(t.Context(), f.pack(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// places writes the findings as people see them, without their words.
func places(r lint.Report) []string {
	all := []string{}
	for _, f := range r.Findings {
		at := f.Path
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.Path, f.Line)
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Severity, f.Code, at)))
	}
	return all
}

// checkHomeless checks the skill as if its folder were not known.
func (f files) checkHomeless(t testing.TB) lint.Report {
	t.Helper()
	p := f.pack(t)
	p.Folder = ""
	r, err := lint.Check(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
