package suites_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// FuzzCases: cases are refused with paths, or what is stored of them is valid
// text, has unique ids, and parses to the same cases.
func FuzzCases(f *testing.F) {
	for _, seed := range []string{
		`[{"case_kind":"trigger_query","query":"q","expectation":"should_trigger","weight":2,"tags":["a"]}]`,
		`[{"case_kind":"exact_match","output":"a","expected":"A","normalize":["case","trim"]},{"prompt":"x","schema":{"type":"object"}}]`,
		`[{"command":["ls"],"assertion":"exit_code == 0"},{"id":"a","query":"x"},{"id":"a","query":"x"},{"query":"\u0000"}]`,
		`[{"case_kind":"task_package","environment_ref":"https://x/y.tar.gz","verifier_ref":"../x","resource_hints":{"timeout_ms":1e9}}]`,
		`[{"rubric":"r","input":"i","expectations":["e"],"threshold":2}]`, `[{}]`, `[null]`, `[]`,
	} {
		f.Add("llm_judge", []byte(seed))
		f.Add("deterministic", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, verifier string, raw []byte) {
		if verifier != "llm_judge" {
			verifier = "deterministic"
		}
		var all []suites.Fields
		if json.Unmarshal(raw, &all) != nil {
			return
		}
		cases, issues, document, err := suites.ReadCases(suites.VerifierKind(verifier), all)
		if err != nil {
			t.Fatal(err)
		}
		for _, issue := range issues {
			if issue.Message == "" || len(issue.Path) == 0 || issue.Path[0] != "cases_json" {
				t.Errorf("bad issue %+v", issue)
			}
		}
		if len(issues) > 0 {
			return
		}
		checkCases(t, suites.VerifierKind(verifier), cases, document)
	})
}

func checkCases(t *testing.T, verifier suites.VerifierKind, cases []suites.Case, document json.RawMessage) {
	t.Helper()
	if !utf8.Valid(document) || strings.ContainsRune(string(document), 0) {
		t.Errorf("a database keeps no %q", document)
	}
	var kept []suites.Fields
	if err := json.Unmarshal(document, &kept); err != nil {
		t.Fatal(err)
	}
	again, issues, second, err := suites.ReadCases(verifier, kept)
	if err != nil || len(issues) > 0 {
		t.Fatalf("what was kept is refused: %v %v", err, issues)
	}
	if diff := cmp.Diff(string(document), string(second)); diff != "" {
		t.Errorf("what was kept reads as something else:\n%s", diff)
	}
	for i := range cases {
		if cases[i].ID != again[i].ID || cases[i].Kind != again[i].Kind {
			t.Errorf("case %d was %s %s and is %s %s", i, cases[i].Kind, cases[i].ID, again[i].Kind, again[i].ID)
		}
	}
}

// FuzzImport: a file is refused with an issue about it, or gives cases.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{
		`[{"query":"q","should_trigger":true}]`, `{"skill_name":"s","evals":[{"id":1,"prompt":"p","expected_output":"e","expectations":["x"]}]}`,
		`{"cases":[{"question":"q","expected_behavior":["b"]}]}`, "\ufeff" + `{"name":"n","source_kind":"manual","verifier_kind":"deterministic","cases_json":[{"output":"a","expected":"a"}]}`,
		`{"evals":[null]}`, `{"evals":5}`, `[5]`, `{}`, ``, `nonsense`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		suite, err := suites.DraftJSON(raw)
		if err != nil {
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Kind != fault.Malformed || len(e.Issues) != 1 || e.Issues[0].Path[0] != "file" {
				t.Fatalf("%v is not about the file", err)
			}
			return
		}
		for i, fields := range suite.Cases {
			if fields == nil {
				t.Errorf("case %d is null", i)
			}
		}
		if _, _, _, err := suites.ReadCases(suite.VerifierKind, suite.Cases); err != nil {
			t.Error(err)
		}
	})
}

// FuzzTask: whatever a task's manifest, Dockerfile and compose file contain, the
// import gives cases or reasons, never an internal error.
func FuzzTask(f *testing.F) {
	f.Add("[task]\nname = \"t\"\n[verifier]\ntimeout_sec = 5\n[environment]\nworkdir = \"/app\"\n",
		"FROM ubuntu:24.04\nWORKDIR /app\nCOPY a.txt b/ \\\n /app/\nRUN x\n", "")
	f.Add("[verifier]\ntimeout_sec = 1e300\nenv = {A = \"${B:-c}\"}\n",
		"FROM scratch\nCOPY --from=x . ../../etc\nADD [\"a\", \"/b\"]\n", "services:\n  main:\n    image: x\n    volumes: [a]\n")
	f.Add("name = 5", "FROM a\nFROM b", "services: [")
	f.Add("", "FROM debian\nCOPY a.txt /data\nRUN mkdir -p /data/x && true\n", "services: {main: {build: ., environment: [A=b, C]}}")
	f.Add("[[steps]]\n[environment]\ngpus = 1\n", "", "a: &a [*a]")
	f.Fuzz(func(t *testing.T, manifest, docker, compose string) {
		archive := tarball(map[string]string{
			"t/task.toml": manifest, "t/instruction.md": "Do it.", "t/environment/Dockerfile": docker, "t/environment/a.txt": "a",
			"t/environment/docker-compose.yaml": compose, "t/tests/test.sh": "exit 0", "t/solution/solve.sh": "x",
		})
		reasons, err := suites.ReadTasks(t.Context(), archive)
		if err != nil && fault.Of(err) == fault.Internal {
			t.Fatal(err)
		}
		for _, reason := range reasons {
			if !utf8.ValidString(reason) && utf8.ValidString(manifest+docker+compose) {
				t.Errorf("%q is no text", reason)
			}
		}
	})
}
