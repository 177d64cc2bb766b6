package cli_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// gateService is a service with the skill pdf and a suite of queries on it.
func gateService(t *testing.T) (s service, m machine, suite string) {
	t.Helper()
	s = startService(t)
	m = s.loggedIn(t)
	dir := t.TempDir()
	writeDescribed(t, dir, "Extracts tables from PDF files.")
	m.must(t, "push", dir)
	other := skillFolder(t, "weather", "Sun.")
	m.must(t, "push", other)
	var cases []map[string]any
	for i := range 10 {
		cases = append(cases, map[string]any{
			"id": fmt.Sprint("c", i), "case_kind": "trigger_query", "expectation": "should_trigger",
			"query": fmt.Sprintf("extracts tables from file %d", i),
		})
	}
	answer := s.api(t).Post("/api/v1/eval-suites", map[string]any{
		"name": "Queries", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": cases,
	}).Want(http.StatusCreated)
	return s, m, answer.Text("suite", "id")
}

func writeDescribed(t *testing.T, dir, description string) {
	t.Helper()
	put(t, dir, "SKILL.md", "---\nname: pdf\ndescription: "+description+"\n---\nDo it.\n")
}

// TestGate: the exit code is the verdict, and the formats say the same.
func TestGate(t *testing.T) {
	_, m, suite := gateService(t)
	good, bad := t.TempDir(), t.TempDir()
	writeDescribed(t, good, "Extracts tables from PDF files, also scanned ones.")
	writeDescribed(t, bad, "Tells jokes.")
	r := m.run(t, "gate", good, "--suite", suite)
	if r.code != term.ExitOK || !strings.HasPrefix(r.stdout, "**pass: better on 0, worse on 0 of 10 cases**") {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = m.run(t, "gate", bad, "--suite", "Queries", "--against", "1.0.0")
	if r.code != term.ExitFailed || !strings.HasPrefix(r.stdout, "**block: better on 0, worse on 10 of 10 cases**") {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r = m.run(t, "gate", good, "--suite", suite, "--min-cases", "11"); r.code != term.ExitInconclusive {
		t.Errorf("exit code %d of an inconclusive gate: %s%s", r.code, r.stdout, r.stderr)
	}
	m.run(t, "gate", good).want(t, term.ExitUsage, "name a suite with --suite")

	file := filepath.Join(t.TempDir(), "gate")
	m.run(t, "gate", bad, "--suite", suite, "--format", "junit", "-o", file).want(t, term.ExitFailed, "")
	var report struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Failures int    `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	if content, err := os.ReadFile(file); err != nil || xml.Unmarshal(content, &report) != nil {
		t.Fatalf("%v: %s", err, content)
	}
	if len(report.Suites) != 2 || report.Suites[0].Failures != 1 || report.Suites[1].Failures != 10 {
		t.Errorf("JUnit: %+v", report)
	}
	var log struct {
		Version string
		Runs    []struct {
			Results []struct {
				Level     string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	put(t, bad, "evals/cases.json", "[\n{\"id\": \"c0\"}\n]\n")
	r = m.run(t, "gate", bad, "--suite", suite, "--format", "sarif")
	if err := json.Unmarshal([]byte(r.stdout), &log); err != nil || log.Version != "2.1.0" || len(log.Runs[0].Results) != 11 {
		t.Errorf("SARIF: %v: %s", err, r.stdout)
	}
	for i, want := range map[int]string{0: "SKILL.md:3", 1: "evals/cases.json:2", 2: "SKILL.md:3"} {
		at := log.Runs[0].Results[i].Locations[0].PhysicalLocation
		if got := fmt.Sprintf("%s:%d", at.ArtifactLocation.URI, at.Region.StartLine); !strings.HasSuffix(got, want) {
			t.Errorf("finding %d is at %s, want %s", i, got, want)
		}
	}
	var gate struct {
		Verdict string
		Suites  []struct{ Worse []string }
	}
	for _, args := range [][]string{{"--format", "json"}, {"--json"}, {"--json", "--format", "junit"}} {
		r = m.run(t, append([]string{"gate", bad, "--suite", suite}, args...)...)
		if err := json.Unmarshal([]byte(r.stdout), &gate); err != nil || gate.Verdict != "block" || len(gate.Suites[0].Worse) != 10 {
			t.Errorf("%v: %v: %s", args, err, r.stdout)
		}
	}
}

// TestGatePolicyForPeople names the suites, and lists the floors that are set.
func TestGatePolicyForPeople(t *testing.T) {
	s, m, suite := gateService(t)
	s.api(t).Do(http.MethodPut, "/api/v1/settings/gate-policy", map[string]any{
		"mode": "enforce", "suites": []string{suite}, "floors": map[string]any{"pass_rate": 0.9, "validation": "pass"},
	}).Want(http.StatusOK)
	out := m.must(t, "gates", "policy")
	if strings.Contains(out, suite) || !strings.Contains(out, "pass_rate 0.9, validation pass") {
		t.Errorf("the policy has ids, or lacks its floors:\n%s", out)
	}
	// What completes a name asks the server, and is silent without one.
	if got := m.must(t, "__complete", "rollback", ""); got != "pdf\t\nweather\t\n" {
		t.Errorf("completed by %q", got)
	}
	if r := newMachine(t).run(t, "__complete", "rollback", ""); r.stdout+r.stderr != "" || r.code != 0 {
		t.Errorf("without a login: %+v", r)
	}
}

// TestPushHeld: a push that a gate holds says so.
func TestPushHeld(t *testing.T) {
	s, m, suite := gateService(t)
	s.api(t).Do(http.MethodPut, "/api/v1/settings/gate-policy", map[string]any{"mode": "enforce", "suites": []string{suite}}).
		Want(http.StatusOK)
	dir := t.TempDir()
	writeDescribed(t, dir, "Tells jokes.")
	if out := m.must(t, "push", dir); !strings.Contains(out, "pdf 1.0.1 is a candidate") {
		t.Errorf("push prints %q", out)
	}
}

// TestCIScripts runs the script of deploy/ci as the workflows do.
func TestCIScripts(t *testing.T) {
	script, err := filepath.Abs("../../deploy/ci/gate.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		code int // of the program
		env  []string
		want int
	}{
		"pass": {0, nil, 0}, "block": {1, nil, 1}, "inconclusive passes": {3, nil, 0},
		"inconclusive fails": {3, []string{"GATE_ON_INCONCLUSIVE=fail"}, 3}, "another failure": {5, nil, 5},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "bin/whetstone", fmt.Sprintf("#!/bin/sh\necho \"$@\" >> args\necho '**verdict**'\nexit %d\n", test.code))
			if err := os.Chmod(filepath.Join(dir, "bin/whetstone"), 0o755); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "sh", script)
			command.Dir = dir
			command.Env = append([]string{
				"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "SKILL=skills/pdf", "SUITES=a b", "GATE_REPORT=gate.md",
				"GITHUB_STEP_SUMMARY=" + filepath.Join(dir, "summary"),
			}, test.env...)
			out, err := command.CombinedOutput()
			if code := command.ProcessState.ExitCode(); code != test.want {
				t.Errorf("exit code %d, want %d: %v: %s", code, test.want, err, out)
			}
			args, _ := os.ReadFile(filepath.Join(dir, "args"))
			if got := strings.TrimSpace(string(args)); got != "gate skills/pdf --against current --suite a --suite b" {
				t.Errorf("it runs whetstone %s", got)
			}
			for _, file := range []string{"gate.md", "summary"} {
				if content, _ := os.ReadFile(filepath.Join(dir, file)); !strings.Contains(string(content), "**verdict**") {
					t.Errorf("%s has %q", file, content)
				}
			}
		})
	}
}
