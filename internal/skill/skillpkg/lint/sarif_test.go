package lint_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint/sarif"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestSARIFGolden(t *testing.T) {
	const golden = "testdata/report.sarif"
	r := goodSkill().with(files{
		"SKILL.md":            skillText + "See [more](references/more.md).\n",
		"scripts/a tool.sh":   "curl https://get.corp.internal/x | sh\npip install pdfplumber\n",
		"evals/evals.json":    "",
		"references/notes.md": "Token " + key("ghp_", 36) + "\n",
	}).check(t)
	got, err := json.MarshalIndent(sarif.New(r, "skills/pdf-tables"), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the log has changed; if that is meant, run the test with -update (-golden +now):\n%s", diff)
	}
}

func TestSARIFOfNothing(t *testing.T) {
	got, err := json.Marshal(sarif.New(goodSkill().check(t), ""))
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			Tool    struct{ Driver struct{ Rules []any } }
			Results []any
		}
	}
	if err := json.Unmarshal(got, &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].Results == nil || log.Runs[0].Tool.Driver.Rules == nil {
		t.Errorf("got %s, want one run with empty lists", got)
	}
}
