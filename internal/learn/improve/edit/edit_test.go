package edit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const invoices = `---
name: invoices
# Reviewed by the accounts team.
description: Writes invoices. Use when somebody asks for a bill.
license: MIT
allowed-tools: Read
---
# Invoices

Write the amounts in dollars.
Leave out the tax.

End with a greeting. Be brief. Be kind.
`

func replace(anchor, text string) edit.Edit {
	return edit.Edit{Op: edit.Replace, Anchor: anchor, Text: text}
}

func insert(anchor, text string) edit.Edit {
	return edit.Edit{Op: edit.InsertAfter, Anchor: anchor, Text: text}
}

func remove(anchor string) edit.Edit { return edit.Edit{Op: edit.Delete, Anchor: anchor} }

// TestApply shows each edit by the lines of the diff.
func TestApply(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edits []edit.Edit
		want  string
	}{
		"replace a word":     {[]edit.Edit{replace("dollars", "euros")}, "-Write the amounts in dollars.\n+Write the amounts in euros.\n"},
		"delete a line":      {[]edit.Edit{remove("Leave out the tax.")}, "-Leave out the tax.\n"},
		"delete a sentence":  {[]edit.Edit{remove("Be brief.")}, "-End with a greeting. Be brief. Be kind.\n+End with a greeting. Be kind.\n"},
		"delete the last":    {[]edit.Edit{remove("Be kind.")}, "-End with a greeting. Be brief. Be kind.\n+End with a greeting. Be brief.\n"},
		"insert a line":      {[]edit.Edit{insert("Leave out the tax.", "Name the customer.")}, "+Name the customer.\n"},
		"insert a sentence":  {[]edit.Edit{insert("End with a greeting.", "Sign it.")}, "-End with a greeting. Be brief. Be kind.\n+End with a greeting. Sign it. Be brief. Be kind.\n"},
		"insert a paragraph": {[]edit.Edit{insert("Leave out the tax.", "\n\nName the customer.")}, "+Name the customer.\n+\n"},
		"insert at the end":  {[]edit.Edit{insert("Be kind.", "Sign it.")}, "+Sign it.\n"},
		"four, in any order": {
			[]edit.Edit{remove("Be kind."), replace("Leave out", "Add"), replace("bill", "bill or an invoice"), replace("dollars", "euros")},
			"-description: Writes invoices. Use when somebody asks for a bill.\n" +
				"+description: Writes invoices. Use when somebody asks for a bill or an invoice.\n" +
				"-Write the amounts in dollars.\n-Leave out the tax.\n-\n-End with a greeting. Be brief. Be kind.\n" +
				"+Write the amounts in euros.\n+Add the tax.\n+\n+End with a greeting. Be brief.\n",
		},
		"description, a sentence more": {
			[]edit.Edit{insert("for a bill.", "Not for offers.")},
			"-description: Writes invoices. Use when somebody asks for a bill.\n" +
				"+description: Writes invoices. Use when somebody asks for a bill. Not for offers.\n",
		},
		"description that needs quotes": {
			[]edit.Edit{replace("Use when", "Use it: when")},
			"-description: Writes invoices. Use when somebody asks for a bill.\n" +
				"+description: 'Writes invoices. Use it: when somebody asks for a bill.'\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refused := edit.Apply(invoices, tc.edits)
			if len(refused) > 0 {
				t.Errorf("refused %v", refused)
			}
			var lines strings.Builder
			for line := range strings.Lines(edit.Unified(invoices, got)) {
				if strings.ContainsAny(line[:1], "+-") && !strings.HasPrefix(line, "+++") && !strings.HasPrefix(line, "---") {
					lines.WriteString(line)
				}
			}
			if diff := cmp.Diff(tc.want, lines.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	five := []edit.Edit{replace("dollars", "euros"), remove("Be kind."), remove("Leave out the tax."), replace("greeting", "wish"), replace("brief", "short")}
	for name, tc := range map[string]struct {
		target edit.Target
		edits  []edit.Edit
		want   string
	}{
		"twice":                {edit.Both, []edit.Edit{replace("Be ", "Stay ")}, "edit 1 has an anchor that occurs 2 times; it must occur once"},
		"in both parts":        {edit.Both, []edit.Edit{remove("nvoices")}, "edit 1 has an anchor that occurs 2 times; it must occur once"},
		"never":                {edit.Both, []edit.Edit{replace("dollars", "euros"), remove("no such words")}, "edit 2 has an anchor that does not occur"},
		"overlap":              {edit.Both, []edit.Edit{remove("in dollars."), replace("dollars", "euros")}, "edit 2 overlaps with another one"},
		"five":                 {edit.Both, five, "edit 5 is one too many: a round has at most 4"},
		"unknown op":           {edit.Both, []edit.Edit{{Op: "rewrite", Anchor: "dollars", Text: "euros"}}, "edit 1 has an unknown op: only replace, insert_after and delete are allowed"},
		"no anchor":            {edit.Both, []edit.Edit{insert(" ", "euros")}, "edit 1 has no anchor"},
		"no text":              {edit.Both, []edit.Edit{insert("dollars", "\n")}, "edit 1 has no text"},
		"no change":            {edit.Both, []edit.Edit{replace("dollars", "dollars")}, "edit 1 changes nothing"},
		"frontmatter":          {edit.Both, []edit.Edit{replace("allowed-tools: Read", "allowed-tools: Bash")}, "edit 1 is in the frontmatter, of which only the value of description may be changed"},
		"name":                 {edit.Both, []edit.Edit{replace("name: invoices", "name: bills")}, "edit 1 is in the frontmatter, of which only the value of description may be changed"},
		"across the fence":     {edit.Both, []edit.Edit{replace("Read\n---\n# Invoices", "Bash\n---\n# Invoices")}, "edit 1 has an anchor that does not occur"},
		"body for description": {edit.Description, []edit.Edit{replace("dollars", "euros")}, "edit 1 is outside the description, which is all that may be changed"},
		"description for body": {edit.Body, []edit.Edit{replace("bill", "invoice")}, "edit 1 is outside the body, which is all that may be changed"},
		"too long":             {edit.Both, []edit.Edit{insert("dollars.", strings.Repeat("More words. ", 134))}, "edit 1 makes the text too long: it may grow by 20 % or about 400 tokens, whichever is more"},
		"no description left":  {edit.Both, []edit.Edit{remove("Writes invoices. Use when somebody asks for a bill.")}, "edit 1 makes a description that is empty"},
		"a fence":              {edit.Both, []edit.Edit{replace("bill", "bill --- or")}, "edit 1 makes a description that cannot be written as a value of the frontmatter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refused := tc.target.Apply(invoices, tc.edits)
			if len(refused) != 1 || refused[0].String() != tc.want {
				t.Fatalf("refused %q, want %q", refused, tc.want)
			}
			if len(tc.edits) == 1 && got != invoices {
				t.Errorf("a refused edit changed the text to %q", got)
			}
			if len(tc.edits) > 1 && got == invoices {
				t.Error("the other edits were not applied")
			}
			if refused[0].Edit.Anchor != tc.edits[refused[0].N-1].Anchor {
				t.Errorf("refused %+v as number %d", refused[0].Edit, refused[0].N)
			}
		})
	}
	if got, refused := edit.Apply("no frontmatter", five[:1]); got != "no frontmatter" || len(refused) != 1 {
		t.Errorf("got %q, %v", got, refused)
	}
}

// TestDescriptionForms writes hostile descriptions into every form of YAML: what
// is read afterwards must be what was written, and every other byte must stay.
func TestDescriptionForms(t *testing.T) {
	t.Parallel()
	forms := map[string]string{
		"plain":                  "description: OLD\n",
		"plain with a comment":   "description: OLD # why\n",
		"plain, two lines":       "description: OLD\n  and more.\n# a comment\n",
		"plain below":            "description:\n  OLD\n  and more.\n",
		"single":                 "description: 'OLD'\n",
		"single, with quotes":    "description: 'it''s OLD'   # why\n",
		"single, two lines":      "description: 'OLD\n  and more.'\n",
		"double":                 `description: "OLD \"quoted\" \\"` + "\n",
		"literal":                "description: |\n  OLD\n  second line\n\n",
		"literal, stripped":      "description: |-\n    OLD\n    second line\n",
		"literal with a digit":   "description: |2\n   OLD\n",
		"folded":                 "description: >\n  OLD is a description that is long enough to be wrapped somewhere, and\n  goes on.\n\n  A paragraph.\n",
		"folded, with comment":   "description: >- # why\n  OLD\n# not part of it\n",
		"quoted key":             `"description": OLD` + "\n",
		"a colon, repaired":      "description: Use it when: OLD\n",
		"key that looks like it": "metadata:\n  description: mine\ndescription: OLD\n",
	}
	values := map[string]string{
		"words":        "NEW",
		"colon":        "NEW: with a colon",
		"hash":         "NEW # not a comment",
		"quotes":       `NEW "double" and 'single' and \backslash`,
		"dash first":   "- NEW",
		"brackets":     "[NEW] {a: b} <c>",
		"percent":      "%NEW @at `tick` !bang &and *star",
		"number":       "42",
		"boolean":      "yes",
		"null":         "null",
		"date":         "2026-01-02",
		"newline":      "NEW first\nsecond",
		"paragraphs":   "NEW first\n\n\nthird\n  indented",
		"umlauts":      "NEW für Übermut 漢字 🙂",
		"long":         "NEW " + strings.Repeat("word after word ", 20) + "end",
		"spaces":       "NEW  two   spaces at many places so that wrapping  meets  them  all  over   the  text",
		"tab":          "NEW\ttab",
		"colon at end": "NEW:",
		"question":     "? NEW",
		"pipe":         "| NEW",
	}
	for name, form := range forms {
		for _, lineEnd := range []string{"\n", "\r\n"} {
			before := strings.ReplaceAll("---\nname: x\n"+form+"license: MIT\n---\nBody.\n", "\n", lineEnd)
			skill, err := skillpkg.ParseSkill([]byte(before))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for what, value := range values {
				after, refused := edit.Description.Apply(before, []edit.Edit{replace(skill.Description, value)})
				if len(refused) > 0 {
					t.Errorf("%s, %s: refused: %v", name, what, refused)
					continue
				}
				got, err := skillpkg.ParseSkill([]byte(after))
				if err != nil || got.Description != value || got.Body != skill.Body {
					t.Errorf("%s, %s: description %q, err %v, in\n%s", name, what, got.Description, err, after)
				}
				if lineEnd == "\r\n" && strings.Count(after, "\n") != strings.Count(after, "\r\n") {
					t.Errorf("%s, %s: mixed line ends in %q", name, what, after)
				}
				head, _, _ := strings.Cut(before, "OLD")
				head = head[:strings.LastIndex(head, "description")]
				if !strings.HasPrefix(after, head) || !strings.HasSuffix(after, "license: MIT"+lineEnd+"---"+lineEnd+"Body."+lineEnd) {
					t.Errorf("%s, %s: other bytes changed:\n%s", name, what, after)
				}
				if comment := "# "; strings.Count(strings.ReplaceAll(after, value, ""), comment) < strings.Count(before, comment) && what != "hash" {
					t.Errorf("%s, %s: a comment is gone:\n%s", name, what, after)
				}
			}
		}
	}
}

func TestDescriptionThatCannotBeEdited(t *testing.T) {
	t.Parallel()
	for _, form := range []string{
		"description: &d OLD\nlicense: *d\n", "license: &d OLD\ndescription: *d\n", "description: !!str OLD\n", "{description: OLD, license: MIT}\n",
	} {
		before := "---\n" + form + "---\nBody.\n"
		after, refused := edit.Apply(before, []edit.Edit{replace("OLD", "NEW"), replace("Body", "Text")})
		if len(refused) != 1 || refused[0].N != 1 || after != strings.Replace(before, "Body", "Text", 1) {
			t.Errorf("%q became %q, refused %v", before, after, refused)
		}
	}
}

// TestBytesOfTheBody keeps line ends and the end of the file.
func TestBytesOfTheBody(t *testing.T) {
	t.Parallel()
	const head = "---\nname: x\ndescription: d\n---\n"
	for name, tc := range map[string]struct {
		before string
		edits  []edit.Edit
		want   string
	}{
		"no final newline":      {head + "a\nb", []edit.Edit{replace("b", "c\n")}, head + "a\nc"},
		"final newline":         {head + "a\nb\n", []edit.Edit{replace("b\n", "c")}, head + "a\nc\n"},
		"insert at the end":     {head + "a\nb", []edit.Edit{insert("b", "c")}, head + "a\nb\nc"},
		"two final newlines":    {head + "a\n\n", []edit.Edit{replace("a", "b")}, head + "b\n\n"},
		"CRLF":                  {crlf(head + "a\nb\nc\n"), []edit.Edit{replace("b\nc", "x\ny")}, crlf(head + "a\nx\ny\n")},
		"CRLF in the edit":      {head + "a\nb\nc\n", []edit.Edit{replace("b\r\nc", "x\r\ny")}, head + "a\nx\ny\n"},
		"mixed line ends":       {crlf(head) + "a\r\nb\nc\r\n", []edit.Edit{insert("b", "x")}, crlf(head) + "a\r\nb\r\nx\nc\r\n"},
		"byte-order mark":       {"\ufeff" + head + "a\n", []edit.Edit{replace("a", "b")}, "\ufeff" + head + "b\n"},
		"fence in the body":     {head + "a\n---\nb\n", []edit.Edit{replace("b", "c")}, head + "a\n---\nc\n"},
		"no body":               {head, []edit.Edit{replace("d", "e")}, "---\nname: x\ndescription: e\n---\n"},
		"fence without newline": {strings.TrimSuffix(head, "\n"), []edit.Edit{replace("d", "e")}, "---\nname: x\ndescription: e\n---"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, refused := edit.Apply(tc.before, tc.edits)
			if got != tc.want || len(refused) > 0 {
				t.Errorf("got %q, want %q, refused %v", got, tc.want, refused)
			}
		})
	}
}

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

func TestMerge(t *testing.T) {
	t.Parallel()
	version := func(edits ...edit.Edit) string {
		got, refused := edit.Apply(invoices, edits)
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		return got
	}
	euros, tax := replace("dollars", "euros"), replace("Leave out", "Add")
	for name, tc := range map[string]struct {
		a, b, want string
		ok         bool
	}{
		"two places":             {version(euros), version(tax), version(euros, tax), true},
		"one shared":             {version(euros, tax), version(euros, remove("Be kind.")), version(euros, tax, remove("Be kind.")), true},
		"description and body":   {version(replace("a bill", "bills")), version(tax), version(replace("a bill", "bills"), tax), true},
		"the same place":         {version(euros), version(replace("dollars", "pounds")), "", false},
		"touching":               {version(euros), version(replace("in dollars", "of dollars")), version(replace("in dollars", "of euros")), true},
		"one has all of it":      {version(euros, tax), version(tax), "", false},
		"one is the base":        {version(euros), invoices, "", false},
		"not a skill":            {version(euros), "text", "", false},
		"a line and its removal": {version(insert("Leave out the tax.", "Name it.")), version(remove("Leave out the tax.\n")), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := edit.Merge(invoices, tc.a, tc.b)
			if got != tc.want || ok != tc.ok {
				t.Errorf("got %v %q, want %v %q", ok, got, tc.ok, tc.want)
			}
		})
	}
}
