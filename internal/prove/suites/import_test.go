package suites_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/environments/environmentstest"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// TestImportJSON has a row for every format of JSON file.
func TestImportJSON(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, file string
		suite      object // some of its fields
		cases      []object
		warnings   int
	}{
		{
			"trigger queries", `[{"query":"a","should_trigger":true,"note":"n"},{"query":"b","should_trigger":false}]`,
			object{"name": "file", "source_kind": "manual", "verifier_kind": "llm_judge", "runnable": true},
			[]object{
				{"case_kind": "trigger_query", "query": "a", "expectation": "should_trigger", "note": "n"},
				{"case_kind": "trigger_query", "query": "b", "expectation": "should_not_trigger"},
			},
			0,
		},
		{
			"incomplete trigger queries", "\xef\xbb\xbf" + `[{"query":"a","should_trigger":"yes"}]`,
			object{"runnable": false},
			[]object{{"case_kind": "trigger_query", "query": "a", "should_trigger": "yes"}},
			0,
		},
		{
			"evals.json", `{"skill_name":"pdf-tables","evals":[
				{"id":1,"prompt":"p","expected_output":"o","files":["evals/files/x"],"expectations":["e"]},
				{"id":2,"prompt":"p","assertions":["e","f"]},
				{"id":3,"prompt":"p","expected_output":"a table","expectations":[]}]}`,
			object{"name": "pdf-tables", "source_kind": "manual", "verifier_kind": "llm_judge", "runnable": true},
			[]object{
				{"id": 1, "case_kind": "llm_rubric", "prompt": "p", "expected_output": "o", "files": []string{"evals/files/x"}, "expectations": []string{"e"}},
				{"id": 2, "case_kind": "llm_rubric", "prompt": "p", "expectations": []string{"e", "f"}},
				{"id": 3, "case_kind": "llm_rubric", "prompt": "p", "expected_output": "a table", "expectations": []string{}, "rubric": "The result is as described here: a table"},
			},
			1,
		},
		{
			"the variant, judged", `{"version":"1","skill_name":"s","cases":[
				{"id":"x","question":"q","expected_behavior":["b"]},{"id":"y","question":"q","ground_truth":"g"}]}`,
			object{"name": "s", "verifier_kind": "llm_judge", "runnable": true},
			[]object{
				{"id": "x", "case_kind": "llm_rubric", "prompt": "q", "expectations": []string{"b"}},
				{"id": "y", "case_kind": "llm_rubric", "prompt": "q", "ground_truth": "g", "rubric": "The answer agrees with this one: g"},
			},
			0,
		},
		{
			"the variant, compared", `{"skill_name":"s","cases":[{"id":"y","question":"q","ground_truth":"g"}]}`,
			object{"name": "s", "verifier_kind": "deterministic", "runnable": true},
			[]object{{"id": "y", "case_kind": "exact_match", "prompt": "q", "expected": "g", "normalize": []string{"trim", "whitespace"}}},
			0,
		},
		{
			"a suite", `{"name":"n","source_kind":"org_exemplars","verifier_kind":"deterministic","supports_no_skill":true,
				"resource_limits_json":{"a":1},"cases_json":[{"id":"i","output":"a","expected":"a"}]}`,
			object{
				"name": "n", "source_kind": "org_exemplars", "verifier_kind": "deterministic",
				"supports_no_skill": true, "runnable": false,
			},
			[]object{{"id": "i", "case_kind": "exact_match", "output": "a", "expected": "a"}},
			0,
		},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				a := c.In(t).Import("folder/file.json", []byte(row.file)).Want(http.StatusCreated)
				suite := a.Field("suite")
				for field, want := range row.suite {
					if suite[field] != want {
						t.Errorf("%s is %v, want %v", field, suite[field], want)
					}
				}
				got := apptest.List(t, suite, "cases_json")
				for i, o := range got {
					if _, given := row.cases[i]["id"]; !given {
						delete(o, "id")
					}
				}
				if diff := cmp.Diff(apptest.Plain(t, row.cases), apptest.Plain(t, got)); diff != "" {
					t.Errorf("cases (-want +got):\n%s", diff)
				}
				if warnings := a.Object()["warnings"].([]any); len(warnings) != row.warnings {
					t.Errorf("warnings %v", warnings)
				}
			})
		}
		source := c.Source()
		suite := c.Import("x.json", []byte(rows[0].file), "name", "Mine", "source_id",
			"src_"+source).Want(http.StatusCreated).Field("suite")
		if suite["name"] != "Mine" || suite["source_id"] != source {
			t.Errorf("got %v", suite)
		}
	})
}

func TestImportRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		for _, row := range []struct {
			name, file, part string
			path             string
		}{
			{"empty", "", "neither JSON", "file"},
			{"text", "hello", "neither JSON", "file"},
			{"another object", `{"a":1}`, "none of", "file"},
			{"evals of another type", `{"evals":{}}`, "wrong type", "file"},
			{"array of texts", `["a"]`, "wrong type", "file"},
			{"a null case", `{"cases":[null]}`, "null", "file"},
			{"no cases", `[]`, "1 to 500", "cases_json"},
			{"no evals", `{"evals":[]}`, "1 to 500", "cases_json"},
			{"too many cases", "[" + strings.Repeat("{},", 500) + "{}]", "1 to 500", "cases_json"},
			{"suite of an unknown verifier", `{"source_kind":"manual","verifier_kind":"x","cases_json":[]}`, "verifier_kind", "file"},
			{"suite of an unknown kind", `{"source_kind":"x","verifier_kind":"llm_judge","cases_json":[]}`, "source_kind", "file"},
			{"suite with a wrong case", `{"source_kind":"manual","verifier_kind":"llm_judge","cases_json":[{"case_kind":"exact_match"}]}`, "exact_match", "cases_json.0.case_kind"},
			{"broken archive", "PK\x03\x04", "", "archive"},
			{"archive without tasks", string(tarball(map[string]string{"a/b": "c"})), "task.toml", "file"},
		} {
			t.Run(row.name, func(t *testing.T) {
				c.In(t).Import("a", []byte(row.file)).WantIssueWith(row.path, row.part)
			})
		}
		c.Import("a", []byte("["+strings.Repeat(" ", 1<<20)+"]")).WantErrorWith(http.StatusRequestEntityTooLarge, "1 MiB")
		c.Import("a", []byte("[]"), "oracle", "maybe").WantIssueWith("oracle", "true or false")
		c.Import("a", []byte("[]"), "source_id", "maybe").WantIssueWith("source_id", "source_id")
		c.Import("a", []byte("[]"), "name", strings.Repeat("n", 201)).WantIssueWith("name", "200")
	})
}

// tarball is a tar.gz of files; one that begins with #! is executable.
func tarball(files map[string]string) []byte {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: 0o644}
		if strings.HasPrefix(files[name], "#!") {
			h.Mode = 0o755
		}
		_ = tw.WriteHeader(h) // a buffer takes everything
		_, _ = tw.Write([]byte(files[name]))
	}
	_ = tw.Close()
	_ = zw.Close()
	return buf.Bytes()
}

func zipped(files map[string]string) []byte {
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		part, _ := zw.Create(name) // a buffer takes everything
		_, _ = part.Write([]byte(files[name]))
	}
	_ = zw.Close()
	return buf.Bytes()
}

// harbor is a task folder, below the folder if it is not "".
func harbor(folder string, files map[string]string) map[string]string {
	all := map[string]string{
		"task.toml": `schema_version = "1.1"
			[task]
			name = "acme/tables"
			[metadata]
			tags = ["pdf"]
			category = "office"
			[verifier]
			timeout_sec = 900.0
			env = { MODE = "fast", PATH = "/x", OPENAI_API_KEY = "${OPENAI_API_KEY}", LEVEL = "${LEVEL:-3}", WHO = "${USER}" }`,
		"instruction.md":                       "Extract the tables.",
		"tests/test.sh":                        "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
		"tests/data/x.txt":                     "x",
		"solution/solve.sh":                    "#!/bin/bash\ntrue\n",
		"environment/Dockerfile":               "# comment\nFROM python:3.12-slim\nWORKDIR /app\nRUN pip install \\\n  pandas\nCOPY input.pdf data ./\nCOPY [\"conf/*.ini\", \"/etc/tool/\"]\nCOPY skills /root/.claude/skills\n",
		"environment/input.pdf":                "pdf",
		"environment/data/a/b.csv":             "1,2",
		"environment/conf/x.ini":               "[x]",
		"environment/skills/tables/SKILL.md":   "---\nname: tables\n---\n",
		"environment/skills/tables/scripts/it": "it",
	}
	maps.Copy(all, files)
	out := map[string]string{}
	for name, content := range all {
		if content != "" {
			out[strings.TrimPrefix(folder+"/"+name, "/")] = content
		}
	}
	return out
}

// TestImportTask follows one task into its case and its environment.
func TestImportTask(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		for _, row := range []struct {
			name    string
			archive []byte
			folder  string
		}{
			{"tar.gz", tarball(harbor("tables", nil)), "tables"},
			{"zip at the root", zipped(harbor("", nil)), "tasks"},
		} {
			t.Run(row.name, func(t *testing.T) {
				a := c.In(t).Import("tasks.tgz", row.archive, "oracle", "true").Want(http.StatusCreated)
				suite := a.Field("suite")
				if suite["source_kind"] != "imported" || suite["verifier_kind"] != "deterministic" || suite["suite_kind"] != "task_package" ||
					suite["runnable"] != true || suite["supports_no_skill"] != true || suite["name"] != row.folder {
					t.Errorf("got %v", suite)
				}
				got := apptest.List(t, suite, "cases_json")[0]
				ref := got["environment_ref"].(string)
				want := apptest.Plain(t, object{
					"case_kind": "task_package", "id": got["id"], "name": "acme/tables", "task_id": row.folder, "source": "harbor",
					"tags": []string{"pdf", "office"}, "weight": 1, "environment_ref": ref, "instruction": "Extract the tables.",
					"verifier_ref": "tests/test.sh", "skill_bundle_ref": "environment/skills/tables", "oracle_ref": "solution/solve.sh",
					"resource_hints": object{"working_dir": "app", "timeout_ms": 900000, "env": object{"MODE": "fast", "LEVEL": "3"}},
				})
				if diff := cmp.Diff(want, any(got)); diff != "" {
					t.Errorf("case (-want +got):\n%s", diff)
				}
				if n := len(a.Object()["warnings"].([]any)); n != 5 { // image, RUN, three variables
					t.Errorf("warnings %v", a.Object()["warnings"])
				}
				wantEnvironment(t, w, c, ref, row.name == "tar.gz")
			})
		}
	})
}

// openEnvironment opens the archive of an imported task.
func openEnvironment(t *testing.T, w *runstest.World, c *client, ref string) *skillpkg.Package {
	t.Helper()
	key, ok := w.Suites.EnvironmentKey(c.Org.ID, ref)
	if !ok {
		t.Fatalf("no key in %s", ref)
	}
	body, _, err := w.Blobs.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	p, err := skillpkg.Read(t.Context(), body, skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func wantEnvironment(t *testing.T, w *runstest.World, c *client, ref string, modes bool) {
	t.Helper()
	p := openEnvironment(t, w, c, ref)
	var names []string
	for _, f := range p.Files {
		names = append(names, f.Path)
		if modes && strings.HasSuffix(f.Path, ".sh") != (f.Mode == 0o755) {
			t.Errorf("%s has the mode %v", f.Path, f.Mode)
		}
	}
	want := []string{
		"app/a/b.csv", "app/input.pdf", "environment/Dockerfile", "environment/conf/x.ini", "environment/data/a/b.csv",
		"environment/input.pdf", "etc/tool/x.ini", "instruction.md", "solution/solve.sh",
		"task.toml", "tests/data/x.txt", "tests/test.sh",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// TestImportTasks imports the runnable tasks, and refuses the others with a
// reason.
func TestImportTasks(t *testing.T) {
	t.Parallel()
	const docker = "environment/Dockerfile"
	bad := []struct{ folder, file, content, reason string }{
		{"compose", "environment/docker-compose.yaml", "services: {main: {}, db: {}}", "more than one service"},
		{"compose-image", "environment/docker-compose.yml", "services: {main: {image: postgres:17}}", "postgres:17"},
		{"compose-broken", "environment/docker-compose.yaml", "services: [", "cannot be read"},
		{"gpus", "task.toml", "[environment]\ngpus = 2", "2 GPUs"},
		{"steps", "task.toml", "[[steps]]\nname = \"a\"", "step a has no instruction.md"},
		{"mcp", "task.toml", "[[environment.mcp_servers]]\nname = \"a\"", "MCP"},
		{"compose-build", "environment/docker-compose.yaml", "services: {main: {build: {context: ./other}}}", "does not build"},
		{"toml-broken", "task.toml", "[", "cannot be read"},
		{"base", docker, "FROM nvidia/cuda:12", "nvidia/cuda:12"},
		{"stages", docker, "FROM debian AS a\nFROM debian", "several stages"},
		{"copy-from", docker, "FROM debian\nCOPY --from=a /x /y", "cannot be followed"},
		{"copy-missing", docker, "FROM debian\nCOPY nothing.txt /y", "nothing.txt"},
		{"add-url", docker, "FROM debian\nADD https://example.org/x /y", "cannot be followed"},
		{"copies", docker, "FROM debian\n" + strings.Repeat("COPY data /x\n", 1<<14), "longer than 120 KiB"},
		{"instruction", "instruction.md", strings.Repeat("x", 120<<10+1), "longer than 120 KiB"},
		{"no-verifier", "tests/test.sh", "", "tests/test.sh"},
	}
	files := harbor("all/good", map[string]string{
		"tests/test.sh": "#!/bin/sh\n# curl\napt-get install -y curl\n",
		docker:          "FROM --platform=linux/amd64 docker.io/library/debian:12\nWORKDIR /work\nWORKDIR sub\n",
	})
	for _, b := range bad {
		maps.Copy(files, harbor("all/"+b.folder, map[string]string{b.file: b.content}))
	}
	for _, b := range bad {
		if b.content == "" {
			delete(files, "all/"+b.folder+"/"+b.file)
		}
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		a := c.Import("tasks.tgz", tarball(files)).Want(http.StatusCreated)
		cases := apptest.List(t, a.Field("suite"), "cases_json")
		if len(cases) != 1 || cases[0]["task_id"] != "good" || !slices.Contains(cases[0]["tags"].([]any), any("needs_network")) ||
			cases[0]["oracle_ref"] != nil || cases[0]["resource_hints"].(object)["working_dir"] != "work/sub" {
			t.Errorf("cases %v", cases)
		}
		reasons := map[string]string{}
		for _, r := range apptest.List(t, a.Object(), "refused") {
			reasons[r["task"].(string)] = r["reasons"].([]any)[0].(string)
		}
		for _, b := range bad {
			if !strings.Contains(reasons[b.folder], b.reason) {
				t.Errorf("%s: %q, want a reason with %q", b.folder, reasons[b.folder], b.reason)
			}
		}
		if len(reasons) != len(bad) {
			t.Errorf("refused %v", reasons)
		}
		large := harbor("large", map[string]string{"environment/big": padded(3 << 20), docker: "FROM debian\n" + copies(20)})
		c.Import("tasks.tgz", tarball(large)).WantIssueWith("file.large", "environment is too large")
		many := map[string]string{}
		for i := range 40 {
			maps.Copy(many, harbor(fmt.Sprint("t", i), map[string]string{"instruction.md": padded(110 << 10)}))
		}
		c.Import("tasks.tgz", tarball(many)).WantErrorWith(http.StatusRequestEntityTooLarge, "4 MiB")
		c.Import("tasks.tgz", tarball(harbor("only",
			map[string]string{docker: "FROM x"}))).WantIssueWith("file.only", "only: its image x")
		c.Import("tasks.tgz", tarball(harbor("only", map[string]string{
			docker: "", "task.toml": "[environment]\ndocker_image = \"ghcr.io/acme/tool@sha256:1\"",
		}))).WantIssueWith("file.only", "ghcr.io/acme/tool")
		c.Import("tasks.tgz", tarball(harbor("only", map[string]string{
			docker: "", "environment/docker-compose.yaml": "services: {main: {image: '${MAIN_IMAGE_NAME}'}}",
		}))).WantIssueWith("file.only", "which is not there")
	})
}

// TestImportBuildable: a task whose image can be built is imported as it is, also if
// the service's own machine could not stand in for the image.
func TestImportBuildable(t *testing.T) {
	t.Parallel()
	const docker = "environment/Dockerfile"
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		w.Suites.Environments = environmentstest.New(t)
		for name, test := range map[string]struct {
			files      map[string]string
			needsImage any
		}{
			"followed":     {map[string]string{docker: "FROM debian:12\nWORKDIR /app\nRUN make\nCOPY input.pdf ./"}, nil},
			"stages":       {map[string]string{docker: "FROM debian:12 AS a\nFROM debian:12\nCOPY --from=a /x /y"}, true},
			"docker_image": {map[string]string{docker: "", "task.toml": "[environment]\ndocker_image = \"debian:12\""}, nil},
			"compose":      {map[string]string{docker: "", "environment/docker-compose.yaml": "services: {main: {image: 'debian:12'}}"}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				a := c.In(t).Import("tasks.tgz", tarball(harbor("tables", test.files))).Want(http.StatusCreated)
				hints := apptest.List(t, a.Field("suite"), "cases_json")[0]["resource_hints"].(object)
				if hints["needs_image"] != test.needsImage {
					t.Errorf("hints %v", hints)
				}
				if warnings := fmt.Sprint(a.Object()["warnings"]); strings.Contains(warnings, "RUN") || strings.Contains(warnings, "own system") {
					t.Errorf("warnings %v", warnings)
				}
			})
		}
		c.Import("tasks.tgz", tarball(harbor("tables", map[string]string{docker: "FROM golang:1.26"}))).
			WantIssueWith("file.tables", "golang_1.26.tar")
	})
}

// TestImportSteps: a task of several steps becomes one case.
func TestImportSteps(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		a := c.Import("tasks.tgz", tarball(harbor("tables", map[string]string{
			"task.toml": "[[steps]]\nname = 'one'\n[[steps]]\nname = 'two'\n", "solution/solve.sh": "",
			"steps/one/instruction.md": "First.\n", "steps/two/instruction.md": "Then.\n", "steps/two/tests/test.sh": "exit 0",
			"steps/two/solution/solve.sh": "true",
		})), "oracle", "true").Want(http.StatusCreated)
		got := apptest.List(t, a.Field("suite"), "cases_json")[0]
		if got["oracle_ref"] != "steps/two/solution/solve.sh" ||
			got["instruction"] != "Step 1 of 2: one\n\nFirst.\nStep 2 of 2: two\n\nThen.\n" {
			t.Errorf("the case is %v", got)
		}
	})
}

// TestImportPrefersDockerfile: most public tasks name an image that was built of
// their Dockerfile, in task.toml or as a variable of their only service.
func TestImportPrefersDockerfile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		const compose = "environment/docker-compose.yaml"
		for name, files := range map[string]map[string]string{
			"docker_image":     {"task.toml": "[environment]\ndocker_image = \"alexgshaw/tables:1\"\nenv = {MODE = \"slow\"}"},
			"image a variable": {compose: "services: {main: {image: '${MAIN_IMAGE_NAME}', environment: [MODE=slow, HOST_USER]}}"},
			"builds":           {compose: "services: {main: {build: {context: '${CONTEXT_DIR}'}, environment: {MODE: slow}}}"},
			"builds here":      {compose: "services: {main: {build: ., image: acme/tables, environment: {MODE: slow}}}"},
		} {
			t.Run(name, func(t *testing.T) {
				files["environment/Dockerfile"] = "FROM python:3.12\nWORKDIR /workspace\nRUN mkdir -p /data out && pip install x\nCOPY input.pdf .\n"
				if files["task.toml"] == "" {
					files["task.toml"] = "[task]\nname = \"a\""
				}
				a := c.In(t).Import("tasks.tgz", tarball(harbor("tables", files))).Want(http.StatusCreated)
				got := apptest.List(t, a.Field("suite"), "cases_json")[0]
				hints := got["resource_hints"].(object)
				if hints["working_dir"] != "workspace" || !cmp.Equal(hints["env"], any(object{"MODE": "slow"})) {
					t.Errorf("hints %v", hints)
				}
				p := openEnvironment(t, w, c, got["environment_ref"].(string))
				if diff := cmp.Diff([]string{"data", "environment/skills/tables", "workspace", "workspace/out"}, p.Folders); diff != "" {
					t.Errorf("folders (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// TestImportCopies: a Dockerfile can copy a file many times. The environments of
// all tasks of an archive share one limit, and nothing is stored over the quota.
func TestImportCopies(t *testing.T) {
	t.Parallel()
	tasks := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		maps.Copy(tasks, harbor(name, map[string]string{
			"environment/big": padded(1 << 20), "environment/Dockerfile": "FROM debian\n" + copies(40),
		}))
	}
	archive := tarball(tasks)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		a := c.Import("tasks.tgz", archive).Want(http.StatusCreated)
		refused := apptest.List(t, a.Object(), "refused")
		if len(refused) != 1 || refused[0]["task"] != "c" {
			t.Fatalf("refused %v, want the third task", refused)
		}
		if reasons := refused[0]["reasons"].([]any); len(reasons) != 1 || !strings.Contains(reasons[0].(string), "100 MiB together") {
			t.Errorf("reasons %v, want the limit once", reasons)
		}
		if n := len(w.BlobKeys()); n != 2 {
			t.Errorf("%d blobs, want 2", n)
		}
		// The archive itself would fit.
		limit := int64(len(archive)) + 100<<10
		w.Suites.Quota = &quota.Service{DB: db, Limits: quota.Limits{c.Org.Plan: limit}}
		full := w.Org("full")
		full.Import("tasks.tgz", archive).WantErrorWith(http.StatusRequestEntityTooLarge, "no room")
		if n := len(w.BlobKeys()); n != 2 {
			t.Errorf("%d blobs after an import over the quota, want 2", n)
		}
	})
}

// TestEnvironmentQuota: a suite that refers to an environment pays for it, also if
// the environment was imported later.
func TestEnvironmentQuota(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		q := &quota.Service{DB: db, Counts: []quota.Count{suites.Stored()}}
		w.Suites.Quota = q
		c := w.Org("acme")
		archive := tarball(harbor("a", nil))
		imported := c.Import("a", archive).Want(http.StatusCreated).Field("suite")
		ref := apptest.List(t, imported, "cases_json")[0]["environment_ref"].(string)
		used := func() int64 {
			u, err := q.Usage(t.Context(), c.Org.ID)
			if err != nil {
				t.Fatal(err)
			}
			return u.Used
		}
		size := used()
		remove := func(suite object) {
			c.Do(http.MethodDelete, suitesPath+"/"+apptest.Text(suite, "id"), nil).Want(http.StatusNoContent)
		}
		remove(imported)
		if err := w.Suites.Sweep(t.Context(), time.Nanosecond); err != nil || used() != 0 || size == 0 {
			t.Fatalf("%d bytes, then %d, %v", size, used(), err)
		}
		early := c.Create(deterministic(object{"case_kind": "task_package", "environment_ref": ref}))
		if used() != 0 {
			t.Errorf("%d bytes of an environment that does not exist", used())
		}
		imported = c.Import("a", archive).Want(http.StatusCreated).Field("suite")
		if used() != 2*size {
			t.Errorf("%d bytes of two suites with %d each", used(), size)
		}
		c.Patch(apptest.Text(early, "id"), object{"name": "renamed"}).Want(http.StatusOK)
		remove(imported)
		if used() != size {
			t.Errorf("%d bytes of one suite with %d", used(), size)
		}
		if found, err := q.Check(t.Context(), db); err != nil || len(found) != 1 || found[0].Status != invariants.Good {
			t.Errorf("the doctor says %v, %v", found, err)
		}
		remove(early)
		if used() != 0 {
			t.Errorf("%d bytes of no suite", used())
		}
	})
}

// padded is a text that is not compressed by more than an archive may be.
func padded(size int) string {
	random := make([]byte, size/40)
	for i := range random {
		random[i] = byte('a' + rand.N(26))
	}
	return string(random) + strings.Repeat("x", size-len(random))
}

func copies(n int) (lines string) {
	for i := range n {
		lines += fmt.Sprintf("COPY big /%d\n", i)
	}
	return lines
}

// TestSweep removes an environment when no suite refers to it.
func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		archive := tarball(harbor("a", nil))
		first, second := c.Import("a", archive).Want(201).Field("suite"), c.Import("a", archive).Want(201).Field("suite")
		ref := apptest.List(t, first, "cases_json")[0]["environment_ref"].(string)
		key, _ := w.Suites.EnvironmentKey(c.Org.ID, ref)
		there := func() bool {
			if err := w.Suites.Sweep(t.Context(), time.Nanosecond); err != nil {
				t.Fatal(err)
			}
			_, err := w.Blobs.Stat(t.Context(), key)
			return err == nil
		}
		c.Do(http.MethodDelete, suitesPath+"/"+first["id"].(string), nil).Want(204)
		if !there() {
			t.Fatal("removed while a suite refers to it")
		}
		c.Patch(second["id"].(string), object{"cases_json": []object{{"environment_ref": "s3://a/b"}}}).Want(200)
		c.Patch(second["id"].(string), object{"cases_json": []object{{"environment_ref": ref}}}).Want(200)
		if !there() {
			t.Fatal("removed although a suite refers to it again")
		}
		c.Do(http.MethodDelete, suitesPath+"/"+second["id"].(string), nil).Want(204)
		if there() {
			t.Fatal("kept although no suite refers to it")
		}
	})
}
