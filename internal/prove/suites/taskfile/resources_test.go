package taskfile_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
)

func TestManifestResources(t *testing.T) {
	for text, want := range map[string]taskfile.Resources{
		"cpus = 2\nmemory_mb = 4096\nstorage_mb = 10240": {CPUs: 2, Memory: 4 << 30, Storage: 10 << 30},
		"cpus = 0.5\nmemory = '4G'\nstorage = '512MiB'":  {CPUs: 0.5, Memory: 4 << 30, Storage: 512 << 20},
		"cpus = 'two'\nmemory_mb = -1\nmemory = '4X'":    {},
		"cpus = nan\nmemory_mb = inf\ngpus = 0":          {},
	} {
		s, err := taskfile.ParseManifest("[environment]\n" + text + "\n[agent]\ntimeout_sec = 900.5")
		if diff := cmp.Diff(want, s.Resources()); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
		if got := s.AgentTimeout(); got != 900500*time.Millisecond {
			t.Errorf("agent: %v", got)
		}
	}
}

func TestResources(t *testing.T) {
	var fields map[string]json.RawMessage
	text := `{"cpus":1.5,"memory_mb":512,"storage_mb":"x","processes":10,"timeout_ms":1500,"other":{}}`
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	r := taskfile.ParseResources(fields)
	if diff := cmp.Diff(taskfile.Resources{CPUs: 1.5, Memory: 512 << 20, Processes: 10, Timeout: 1500 * time.Millisecond}, r); diff != "" {
		t.Errorf("parsed (-want +got):\n%s", diff)
	}
	limit := taskfile.Resources{CPUs: 1, Memory: 1 << 30, Storage: 5}
	if diff := cmp.Diff(taskfile.Resources{CPUs: 1, Memory: 512 << 20, Storage: 5, Processes: 10, Timeout: r.Timeout}, r.Within(limit)); diff != "" {
		t.Errorf("within (-want +got):\n%s", diff)
	}
	if got := r.AtMost(limit); got.Storage != 0 || got.CPUs != 1 {
		t.Errorf("at most: %+v", got)
	}
	if got := r.Or(limit); got.Storage != 5 || got.CPUs != 1.5 {
		t.Errorf("or: %+v", got)
	}
}
