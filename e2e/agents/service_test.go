package agents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
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
	key string
}

func (s *service) newOrganisation(t *testing.T) organisation {
	t.Helper()
	name := strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "-"))
	s.command(t, nil, "org", "create", name, "--plan", "team", "--data", s.data)
	var made struct {
		APIKey string `json:"api_key"`
	}
	out := s.command(t, nil, "key", "create", "--org", name, "--role", "owner", "--json", "--data", s.data)
	if err := json.Unmarshal(out, &made); err != nil {
		t.Fatal(err)
	}
	return organisation{s, made.APIKey}
}

// command runs the command line with a home of its own.
func (s *service) command(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("whetstone %s: %v\n%s", strings.Join(args, " "), err, stderr)
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
		o.post(t, e)
	}
}

func (o organisation) post(t *testing.T, e export) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.URL+e.path, bytes.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = e.header.Clone()
	req.Header.Set("Authorization", "Bearer "+o.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %s %s", e.path, res.Status, body)
	}
}

func (o organisation) get(t *testing.T, path string, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+o.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %s %v", path, res.Status, body, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, body)
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
	o.get(t, "/v1/skills/"+skill, &out)
	f := figures{Sessions: out.Skill.UniqueSessions, TriggerRate: out.Skill.TriggerRate, Confidence: out.Skill.AvgConfidence}
	for _, day := range out.DailyStats {
		f.Checks += day.Checks
		f.Triggers += day.Triggers
	}
	return f
}

func (o organisation) skillNames(t *testing.T) []string {
	t.Helper()
	var out struct {
		Skills []struct {
			Name string `json:"name"`
		} `json:"skills"`
	}
	o.get(t, "/v1/skills?per_page=100", &out)
	names := []string{}
	for _, skill := range out.Skills {
		names = append(names, skill.Name)
	}
	return names
}

// wantSkills checks the list of skills and the figures of each.
func (o organisation) wantSkills(t *testing.T, want map[string]figures) {
	t.Helper()
	got := map[string]figures{}
	for _, name := range o.skillNames(t) {
		got[name] = o.figures(t, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
}
