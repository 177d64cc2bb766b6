package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestOutputsSideBySide opens what the judge has compared: both outputs with its quotations
// marked, under the names of the arms.
func TestOutputsSideBySide(t *testing.T) {
	t.Parallel()
	server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		if !strings.Contains(r.System, "You compare two results") {
			if strings.Contains(r.System, "pdf") {
				return judgetest.Text("Here are the tables:\n  the totals by month, and more " + payload)
			}
			return judgetest.Text("I can't read the file at all, sorry about that.")
		}
		of := func(name string) string {
			_, rest, _ := strings.Cut(r.User, "\nBEGIN "+name+" ")
			text, _, _ := strings.Cut(rest, "\nEND "+name+" ")
			return text
		}
		quote := func(text string) string {
			if strings.Contains(text, "totals") {
				return "tables: the totals by month" // without the line's end
			}
			return "read the file at all"
		}
		answer := map[string]string{"reason": "Only one has totals.", "quote_a": quote(of("A")), "quote_b": quote(of("B")), "better": "tie"}
		switch a, b := strings.Contains(of("A"), "totals"), strings.Contains(of("B"), "totals"); {
		case a && !b:
			answer["better"] = "A"
		case b && !a:
			answer["better"] = "B"
		}
		text, _ := json.Marshal(answer) // strings
		return judgetest.Text(string(text))
	})
	w := newWorld(t, "sqlite", "--judge-api", judgetest.OpenAI, "--judge-url", server.URL(judgetest.OpenAI), "--judge-model", "scripted")
	b := w.as(access.Member)
	source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
	suite := b.api.Post("/api/v1/eval-suites", object{
		"name": "outputs", "source_kind": "manual", "verifier_kind": "deterministic", "supports_no_skill": true,
		"cases_json": []object{{
			"name": "tables", "case_kind": "boolean_assertion", "prompt": "Read it.", "assertion": `output.contains("totals")`,
		}},
	}).Want(http.StatusCreated).Object()
	made := b.api.Post("/api/v1/comparisons", object{
		"suite_id": apptest.Text(suite, "suite", "id"), "trials": 1, "preference": true,
		"arms": []object{{"no_skill": true}, {"name": "with pdf", "source_id": "src_" + strings.TrimPrefix(id(source), "src_")}},
	}).Want(http.StatusAccepted).Object()
	path := "/comparisons/" + apptest.Text(made, "comparison", "id")
	b.eventually(path, "What the judge said")
	p := b.get(path).want(http.StatusOK)
	checkPage(t, p)
	p = b.get(p.href("Both outputs, side by side")).want(http.StatusOK).wantInert().
		wantText("The judge prefers with pdf", "Only one has totals.", "no skill", "I can't read the file at all").wantNoText("Before:", "No such trial")
	checkPage(t, p)
	marked := p.texts("mark")
	if len(marked) != 2 || marked[0] != "read the file at all" || strings.Join(strings.Fields(marked[1]), " ") != "tables: the totals by month" {
		t.Errorf("marked are %q, want both quotations", marked)
	}
	b.get(p.href("The comparison")).want(http.StatusOK)
	b.get(p.href("The comparison") + "x").want(http.StatusNotFound)
}
