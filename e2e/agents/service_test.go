package agents_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A service is the real binary with a data folder of its own.
type service struct {
	*servertest.Server
	data string
}

func startService(t *testing.T) *service {
	t.Helper()
	s := &service{data: filepath.Join(t.TempDir(), "data")}
	var err error
	s.Server, err = servertest.Start(servertest.Command{
		Path: binary, Args: []string{"serve", "--addr", "127.0.0.1:0", "--data", s.data}, Dir: filepath.Dir(s.data),
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.data)}, Stdout: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Terminate(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// An organisation of the service, with the key of its owner.
type organisation struct {
	*service
	key       string
	reporting string // a key of the owner that can only report sessions
}

func (s *service) newOrganisation(t *testing.T) organisation {
	t.Helper()
	name := organisationName(t)
	s.command(t, nil, "org", "create", name, "--plan", "team", "--data", s.data)
	var made struct {
		APIKey string `json:"api_key"`
	}
	out := s.command(t, nil, "key", "create", "--org", name, "--role", "owner", "--json", "--data", s.data)
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatal(err)
	}
	return organisation{service: s, key: made.APIKey}
}

// newReporting creates an organisation with a key such as the connect page creates.
func (s *service) newReporting(t *testing.T, use string) (o organisation) {
	t.Helper()
	o.service = s
	name := organisationName(t) + use
	s.command(t, nil, "org", "create", name, "--plan", "team", "--data", s.data)
	for key, flags := range map[*string][]string{&o.key: nil, &o.reporting: {"--permissions", "telemetry:write"}} {
		var made struct {
			APIKey string `json:"api_key"`
		}
		args := []string{"key", "create", "--org", name, "--user", name + "@example.org", "--role", "owner", "--json", "--data", s.data}
		if err := json.Unmarshal(s.command(t, nil, append(args, flags...)...), &made); err != nil {
			t.Fatal(err)
		}
		*key = made.APIKey
	}
	return o
}

func organisationName(t *testing.T) string {
	return strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "-"))
}

// publish publishes two versions of pdf-tables, and alpha-notes.
func (o organisation) publish(t *testing.T) {
	t.Helper()
	for _, v := range []struct{ skill, version string }{{"pdf-tables", "1.0.0"}, {"pdf-tables", "1.0.1"}, {"alpha-notes", "1.0.0"}} {
		dir := filepath.Join(t.TempDir(), v.skill)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(skillFile(v.skill)+v.version+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o.command(t, []string{"WHETSTONE_SERVER=" + o.URL, "WHETSTONE_API_KEY=" + o.key}, "push", dir, "--version", v.version)
	}
}

// command runs the command line with a home of its own.
func (s *service) command(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("whetstone %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}

// importTranscripts imports what an agent has left in its home.
func (o organisation) importTranscripts(t *testing.T, home string, flags ...string) {
	t.Helper()
	args := append([]string{"import", filepath.Join(home, ".claude", "projects"), "--json"}, flags...)
	out := o.command(t, []string{"WHETSTONE_SERVER=" + o.URL, "WHETSTONE_API_KEY=" + o.key}, args...)
	var summary struct {
		Rejected     int `json:"rejected"`
		SkippedLines int `json:"skipped_lines"`
		FilesRead    int `json:"files_read"`
	}
	if err := json.Unmarshal(out, &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Rejected != 0 || summary.SkippedLines != 0 || summary.FilesRead == 0 {
		t.Errorf("import: %s", out)
	}
}

func (o organisation) api(t *testing.T) *apptest.Caller {
	return &apptest.Caller{T: t, URL: o.URL, Key: o.key}
}

// register publishes skills in the organisation's registry.
func (o organisation) register(t *testing.T, skills ...string) {
	t.Helper()
	for _, skill := range skills {
		dir := filepath.Join(t.TempDir(), skill)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(skillFile(skill)), 0o600); err != nil {
			t.Fatal(err)
		}
		o.command(t, []string{"WHETSTONE_SERVER=" + o.URL, "WHETSTONE_API_KEY=" + o.key}, "push", dir)
	}
}

// replay sends what an agent has sent once more, on behalf of this organisation.
func (o organisation) replay(t *testing.T, exports []export) {
	t.Helper()
	for _, e := range exports {
		if out := o.api(t).Do(http.MethodPost, e.path, e.body, e.headers...); out.Status >= 300 {
			t.Errorf("%s: status %d: %s", e.path, out.Status, out.Body)
		}
	}
}

// figures are the numbers of one skill.
type figures struct {
	Sessions, Checks, Triggers int64
	TriggerRate, Confidence    any // a float64, or nil
}

func (o organisation) figures(t *testing.T, skill string) figures {
	t.Helper()
	var out struct {
		Skill struct {
			UniqueSessions int64 `json:"unique_sessions"`
			TriggerRate    any   `json:"trigger_rate"`
			AvgConfidence  any   `json:"avg_confidence"`
		} `json:"skill"`
		DailyStats []struct {
			Checks   int64 `json:"checks"`
			Triggers int64 `json:"triggers"`
		} `json:"daily_stats"`
	}
	o.api(t).Get("/v1/skills/" + skill).Want(http.StatusOK).Into(&out)
	f := figures{Sessions: out.Skill.UniqueSessions, TriggerRate: out.Skill.TriggerRate, Confidence: out.Skill.AvgConfidence}
	for _, day := range out.DailyStats {
		f.Checks += day.Checks
		f.Triggers += day.Triggers
	}
	return f
}

// wantSkills checks the list of skills and the figures of each.
func (o organisation) wantSkills(t *testing.T, want map[string]figures) {
	t.Helper()
	got := map[string]figures{}
	for _, skill := range o.api(t).Get("/v1/skills?per_page=100").Want(http.StatusOK).List("skills") {
		name := apptest.Text(skill, "name")
		got[name] = o.figures(t, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
}
