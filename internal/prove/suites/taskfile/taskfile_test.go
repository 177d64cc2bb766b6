package taskfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

func TestParseManifest(t *testing.T) {
	s, err := taskfile.ParseManifest(`
		[task]
		name = "acme/tables"
		[metadata]
		tags = ["pdf"]
		category = "office"
		[verifier]
		timeout_sec = 1.5
		[environment]
		gpus = 2`)
	if err != nil || s.Title() != "acme/tables" || s.TimeoutMS() != 1500 || s.Environment.GPUs != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	if diff := cmp.Diff([]string{"pdf", "office"}, s.Tags()); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// TestParseManifestPartly: a key of another type is an error, but does not hide
// the other sections.
func TestParseManifestPartly(t *testing.T) {
	s, err := taskfile.ParseManifest("name = 5\n[metadata]\ntags = 7\n[environment]\ngpus = 1\n[[steps]]\nname = 'a'\n")
	if err == nil || s.Environment.GPUs != 1 || len(s.Steps) != 1 || s.TimeoutMS() != 600_000 {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := taskfile.ParseManifest("[environment"); err == nil {
		t.Error("no TOML is parsed")
	}
}

func TestDockerInstructions(t *testing.T) {
	got := taskfile.DockerInstructions("# base\nFROM scratch\n\nCOPY a \\\n  b /app/\n")
	if diff := cmp.Diff([]string{"FROM scratch", "COPY a  b /app/"}, got); diff != "" {
		t.Errorf("instructions (-want +got):\n%s", diff)
	}
}

func TestNetworkUse(t *testing.T) {
	for script, want := range map[string]string{
		"apt-get -y install jq":                             "apt-get -y install",
		"pip3 install pytest":                               "pip3 install",
		"pip install --no-index wheel.whl":                  "",
		"# curl https://example.org":                        "",
		"curl https://example.org/x":                        "curl",
		"curl http://127.0.0.1:8080/health":                 "",
		"[ -n \"$BENCHFLOW_SKIP_VERIFIER_DEPS\" ] || uvx x": "",
	} {
		if got := taskfile.NetworkUse(script); got != want {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
}

func TestVariables(t *testing.T) {
	for name, refused := range map[string]bool{
		"MODE": false, "MAX_TOKENS": false, "PATH": true, "LD_PRELOAD": true, "home": true, "API_TOKEN": true, "A-B": true,
	} {
		if reason := taskfile.RefusedVariable(name); (reason != "") != refused {
			t.Errorf("%s: %q", name, reason)
		}
	}
	for value, want := range map[string]string{"a": "a", "${A:-b}c": "bc", "${A:-}": ""} {
		if got, ok := taskfile.ExpandDefaults(value); got != want || !ok {
			t.Errorf("%s: got %q, %t", value, got, ok)
		}
	}
	if _, ok := taskfile.ExpandDefaults("x${A}"); ok {
		t.Error("a placeholder without a default has a value")
	}
}
