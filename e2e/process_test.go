package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// hookSecret signs what the code host sends.
const hookSecret = "the secret of the code host"

// process is the real binary with a database of its own, until the test ends.
type process struct {
	*server
	url, key string
	env      []string
	client   *apptest.Client
}

func startProcess(t *testing.T, database string, flags ...string) *process {
	t.Helper()
	return startProcessIn(t, &cage{}, database, flags...)
}

// startProcessIn starts the binary in a cage that bounds its memory.
func startProcessIn(t *testing.T, c *cage, database string, flags ...string) *process {
	t.Helper()
	p := &process{server: &server{dir: t.TempDir(), prefix: c.prefix()}}
	p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "WHETSTONE_DATA=" + filepath.Join(p.dir, "data")}
	p.env = append(p.env, c.env()...)
	if database == "postgres" {
		p.env = append(p.env, "WHETSTONE_DATABASE_URL="+storetest.URL(t, database))
	}
	var err error
	p.url, p.key, err = p.start(p.env, append([]string{"--repohost-webhook-secret", hookSecret, "--alert-interval", "1s"}, flags...))
	if err != nil {
		t.Fatal(err)
	}
	p.client = apptest.NewClient(t, p.url)
	p.client.HTTP.Timeout = 2 * time.Minute
	t.Cleanup(func() {
		if err := p.end(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			said, err := os.ReadFile(filepath.Join(p.dir, "server.log"))
			t.Logf("the server said: %s (%v)", said[max(0, len(said)-20_000):], err)
		}
	})
	return p
}

func (p *process) repos(t *testing.T) *hosttest.Repos {
	t.Helper()
	return hosttest.At(t, filepath.Join(p.dir, "data", "repos"))
}

// newKey makes an organisation with an owner, and returns the owner's key.
func (p *process) newKey(t *testing.T, org string) string {
	t.Helper()
	p.command(t, "org", "create", org, "--plan", "enterprise")
	var made struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal(p.command(t, "key", "create", "--org", org, "--role", "owner", "--json"), &made); err != nil {
		t.Fatal(err)
	}
	return made.APIKey
}

// command runs the command line beside the server.
func (p *process) command(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "whetstone"), args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("whetstone %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// metric reads a figure that the server shows of itself.
func (p *process) metric(ctx context.Context, name string) (int64, error) {
	found, err := p.metrics(ctx, name+" ")
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no metric %s", name)
	}
	if err != nil {
		return 0, err
	}
	return found[0], nil
}

// metrics reads the figures whose names, with their labels, begin like this.
func (p *process) metrics(ctx context.Context, prefix string) (found []int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := p.client.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, prefix) {
			figure, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			if err != nil {
				return nil, err
			}
			found = append(found, int64(figure))
		}
	}
	return found, nil
}

// awaitJobs waits until no jobs are left of the kinds that begin like this.
func (p *process) awaitJobs(t *testing.T, kinds string) {
	t.Helper()
	apptest.Eventually(t, "the end of "+kinds, func() bool {
		left, err := p.metrics(t.Context(), `whetstone_jobs{kind="`+kinds)
		return err == nil && !slices.ContainsFunc(left, func(n int64) bool { return n > 0 })
	})
}

func (p *process) usage(t *testing.T) usage {
	t.Helper()
	var figures [3]int64
	for i, name := range []string{"process_resident_memory_bytes", "go_memstats_heap_alloc_bytes", "go_goroutines"} {
		value, err := p.metric(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		figures[i] = value
	}
	return usage{figures[0], figures[1], figures[2]}
}

// settleTime is how long a server may take to come to rest.
const settleTime = 20 * time.Second

// settle waits until the server has collected its garbage a few times, to
// which it is driven by requests that leave some, and returns what it holds.
func (p *process) settle(t *testing.T) usage {
	t.Helper()
	p.client.HTTP.CloseIdleConnections()
	before, err := p.metric(t.Context(), "go_gc_duration_seconds_count")
	for deadline := time.Now().Add(settleTime); err == nil && time.Now().Before(deadline); {
		for range 20 {
			if _, err := p.client.Do(t.Context(), apptest.Request{Method: "GET", Path: "/openapi.json"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		var now int64
		if now, err = p.metric(t.Context(), "go_gc_duration_seconds_count"); now >= before+3 {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.usage(t)
}
