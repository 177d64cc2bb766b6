package cluster_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

const root = "../.."

// deploycheck reads files of deploy/ with the libraries of Helm and Compose.
// Where it cannot be built the test is skipped.
func deploycheck(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	if out, err := exec.Command(filepath.Join(root, "scripts/deploycheck")).CombinedOutput(); err != nil {
		if os.Getenv("WHETSTONE_REQUIRE") == "all" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skip("scripts/deploycheck cannot be built without the Go module proxy")
	}
	cmd := exec.Command(filepath.Join(root, "scripts/deploycheck"), args...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(problems.String()))
	}
	return out, err
}

// settingNames are the settings that the binary has.
func settingNames(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command(binary, "config", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var settings []struct{ Name string }
	if err := json.Unmarshal(out, &settings); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range settings {
		names = append(names, variable(s.Name))
	}
	return names
}

// wantSettings checks that the binary has a setting for each variable.
func wantSettings(t *testing.T, env map[string]string) {
	t.Helper()
	known := settingNames(t)
	for name := range env {
		if strings.HasPrefix(name, "WHETSTONE_") && !slices.Contains(known, name) {
			t.Errorf("%s is no setting", name)
		}
	}
}

// A pod is one process as a file of deploy/ describes it.
type pod struct {
	args []string
	env  map[string]string
}

// serviceUser is the user of the image.
const serviceUser = 65532

// run starts the process as the file describes it, with addresses and a port of
// this machine instead of the container's.
func (p pod) run(t *testing.T, s *site, replace map[string]string) *servertest.Server {
	t.Helper()
	env := maps.Clone(p.env)
	maps.Copy(env, replace)
	c := servertest.Command{Path: binary, Args: p.args, Dir: s.command.Dir, Env: []string{"PATH=/usr/bin", "HOME=/nonexistent"}}
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	server, err := servertest.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Terminate(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// wantService checks two web processes and a worker: what is published at one is
// found at the other, and a run finishes.
func wantService(t *testing.T, s *site, key string, web []*servertest.Server, worker *servertest.Server) {
	t.Helper()
	for _, server := range append(slices.Clone(web), worker) {
		for _, path := range []string{"/healthz", "/readyz"} {
			if got, err := s.ask(t.Context(), http.MethodGet, server.URL+path, nil); err != nil || got.status != http.StatusOK {
				t.Fatalf("%s: %d %s, %v", path, got.status, got.body, err)
			}
		}
	}
	archive, err := skillArchive(t.Context(), "deployed", 1)
	if err != nil {
		t.Fatal(err)
	}
	first, last := s.clientOf(web[0].URL, key), s.clientOf(web[len(web)-1].URL, key)
	made, err := first.CreateEntry(t.Context(), client.Upload{
		Name: "deployed", Version: "1.0.0", Archive: bytes.NewReader(archive), Size: int64(len(archive)),
	})
	if err != nil {
		t.Fatal(err)
	}
	synced, err := last.Sync(t.Context(), []client.SyncItem{{EntryID: made.Entry.ID, CurrentVersionHash: client.NoHash}})
	if err != nil || len(synced) != 1 {
		t.Fatalf("sync: %+v, %v", synced, err)
	}
	// The link names the public address, from which a balancer leads to the pods.
	link, err := url.Parse(synced[0].DownloadURL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := last.Download(t.Context(), web[len(web)-1].URL+link.RequestURI(), client.Wanted{ContentHash: hashOf(archive)}); err != nil {
		t.Fatal(err)
	}
	suite, err := first.CreateEvalSuite(t.Context(), api.NewEvalSuite{
		Name: "deployed", SourceKind: "manual", VerifierKind: "llm_judge",
		Cases: []api.CaseFields{{
			"case_kind": json.RawMessage(`"trigger_query"`), "query": json.RawMessage(`"do thing number 1"`),
			"expectation": json.RawMessage(`"should_trigger"`),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	started, err := first.StartEvalRun(t.Context(), suite.ID, api.NewEvalRun{Subject: api.EvalSubject{EntryID: made.Entry.ID}})
	if err != nil {
		t.Fatal(err)
	}
	if run, err := last.WatchEvalRun(t.Context(), started.ID, func(client.EvalEvent) {}); err != nil || run.Status != "succeeded" {
		t.Fatalf("the run: %+v, %v", run, err)
	}
}

// TestCompose starts the services of the compose file as processes, on a real
// PostgreSQL and a real S3 server.
func TestCompose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, "deploy/compose/make-env"))
	if err != nil {
		t.Fatal(err)
	}
	maker := filepath.Join(dir, "make-env")
	if err := os.WriteFile(maker, script, 0o700); err != nil { // it is a script
		t.Fatal(err)
	}
	if out, err := exec.Command(maker).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := deploycheck(t, "compose", filepath.Join(root, "deploy/compose/compose.yaml"), filepath.Join(dir, ".env"))
	if err != nil {
		t.Fatal(err)
	}
	var project struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Healthcheck *struct{ Test []string }
			Privileged  bool
			ReadOnly    bool `json:"read_only"`
			Volumes     []struct{ Type, Target string }
			CapDrop     []string `json:"cap_drop"`
			MemLimit    string   `json:"mem_limit"`
		}
	}
	if err := json.Unmarshal(out, &project); err != nil {
		t.Fatal(err)
	}
	bucket := servertest.StartS3(t)
	s := newSite(t, plan{S3: bucket})
	replace := map[string]string{
		"WHETSTONE_ADDR": "127.0.0.1:0", "WHETSTONE_DATABASE_URL": databaseURL(t, "postgres"), "WHETSTONE_BLOB_URL": bucket.BlobURL,
		"WHETSTONE_DATA": filepath.Join(dir, "data"),
	}
	for _, pair := range bucket.Env {
		name, value, _ := strings.Cut(pair, "=")
		replace[name] = value
	}
	servers, key := map[string]*servertest.Server{}, ""
	for _, name := range []string{"web1", "web2", "worker"} {
		service, ok := project.Services[name]
		if !ok || service.Privileged || !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") || service.MemLimit == "" {
			t.Fatalf("%s is not held back: %+v", name, service)
		}
		// A tmpfs would count as memory, and large archives are there.
		if !slices.Contains(service.Volumes, struct{ Type, Target string }{"volume", "/tmp"}) {
			t.Errorf("%s has no disk at /tmp: %+v", name, service.Volumes)
		}
		wantSettings(t, service.Environment)
		servers[name] = pod{service.Command, service.Environment}.run(t, s, replace)
		key = service.Environment["WHETSTONE_BOOTSTRAP_KEY"]
		checkHealth(t, service.Healthcheck.Test, servers[name])
	}
	wantService(t, s, key, []*servertest.Server{servers["web1"], servers["web2"]}, servers["worker"])
}

// checkHealth runs a container's health check beside the process.
func checkHealth(t *testing.T, test []string, server *servertest.Server) {
	t.Helper()
	if len(test) < 3 || test[0] != "CMD" || test[1] != "/usr/local/bin/whetstone" {
		t.Fatalf("the health check is %q", test)
	}
	check := exec.Command(binary, test[2:]...)
	check.Env = []string{"WHETSTONE_ADDR=" + strings.TrimPrefix(server.URL, "http://")}
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the health check: %v\n%s", err, out)
	}
}

// A manifest is the part of a Kubernetes object that the tests check.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Replicas int
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int
				SecurityContext               struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
					RunAsUser    int  `yaml:"runAsUser"`
				} `yaml:"securityContext"`
				Containers []container
			}
		}
	}
}

type container struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	LivenessProbe   probe `yaml:"livenessProbe"`
	ReadinessProbe  probe `yaml:"readinessProbe"`
	StartupProbe    probe `yaml:"startupProbe"`
	SecurityContext struct {
		ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
		Escalation *bool `yaml:"allowPrivilegeEscalation"`
	} `yaml:"securityContext"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// renderChart renders the chart with values, written as YAML.
func renderChart(t *testing.T, values string) ([]manifest, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := deploycheck(t, "chart", filepath.Join(root, "deploy/helm/whetstone"), file)
	if err != nil {
		return nil, err
	}
	var all []manifest
	for decoder := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var m manifest
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if m.Kind != "" {
			all = append(all, m)
		}
	}
}

const chartValues = "settings: {blob-url: 's3://bucket?region=here', public-url: 'https://whetstone.example'}\n"

func TestChartKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, values, want string }{
		{"plain", chartValues, "Deployment Deployment PodDisruptionBudget Service ServiceAccount"},
		{
			"all", chartValues + "ingress: {enabled: true}\nnetworkPolicy: {enabled: true}\nweb: {autoscaling: {enabled: true}}\n",
			"Deployment Deployment HorizontalPodAutoscaler Ingress NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		},
	} {
		all, err := renderChart(t, c.values)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, m := range all {
			kinds = append(kinds, m.Kind)
		}
		slices.Sort(kinds)
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, wrong := range []string{
		"{}", "settings: {blob-url: 'gs://x', public-url: 'https://x'}",
		chartValues + "web: {replicas: 0}", chartValues + "webb: {}",
	} {
		if _, err := renderChart(t, wrong); err == nil {
			t.Errorf("the chart takes %q", wrong)
		}
	}
}

// TestChartFields puts a field into the chart that Kubernetes does not know.
func TestChartFields(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "deploy/helm/whetstone"))); err != nil {
		t.Fatal(err)
	}
	template := filepath.Join(dir, "templates/worker.yaml")
	text, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(template, bytes.Replace(text, []byte("\n  replicas:"), []byte("\n  replicaz:"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(chartValues), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := deploycheck(t, "chart", dir, values); err == nil || !strings.Contains(err.Error(), `unknown field "spec.replicaz"`) {
		t.Errorf("the chart with a wrong field: %v", err)
	}
}

// TestChart starts the pods of the chart as processes.
func TestChart(t *testing.T) {
	t.Parallel()
	all, err := renderChart(t, chartValues)
	if err != nil {
		t.Fatal(err)
	}
	bucket := servertest.StartS3(t)
	s := newSite(t, plan{S3: bucket})
	secrets := map[string]string{
		"database-url": databaseURL(t, "postgres"), "bootstrap-key": firstKey, "secret-key": secretKey,
		"database-read-url": "", "aws-access-key-id": "", "aws-secret-access-key": "",
	}
	replace := map[string]string{
		"WHETSTONE_ADDR": "127.0.0.1:0", "WHETSTONE_BLOB_URL": bucket.BlobURL, "WHETSTONE_DATA": t.TempDir(),
	}
	for _, pair := range bucket.Env {
		name, value, _ := strings.Cut(pair, "=")
		replace[name] = value
	}
	var web []*servertest.Server
	var worker *servertest.Server
	for _, m := range all {
		if m.Kind != "Deployment" {
			continue
		}
		p := podOf(t, m, secrets)
		for range m.Spec.Replicas {
			server := p.run(t, s, replace)
			if strings.HasSuffix(m.Metadata.Name, "-web") {
				web = append(web, server)
			} else {
				worker = server
			}
		}
	}
	if len(web) != 2 || worker == nil {
		t.Fatalf("%d pods answer, and the worker is %v", len(web), worker)
	}
	wantService(t, s, firstKey, web, worker)
}

// podOf reads a deployment, whose pods must have a security context and probes.
func podOf(t *testing.T, m manifest, secrets map[string]string) pod {
	t.Helper()
	spec := m.Spec.Template.Spec
	c := spec.Containers[0]
	safe := spec.SecurityContext.RunAsNonRoot && spec.SecurityContext.RunAsUser == serviceUser && c.SecurityContext.ReadOnly &&
		c.SecurityContext.Escalation != nil && !*c.SecurityContext.Escalation
	if !safe {
		t.Errorf("%s is not held back: %+v, %+v", m.Metadata.Name, spec.SecurityContext, c.SecurityContext)
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" ||
		c.StartupProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("%s has the probes %+v, %+v and %+v", m.Metadata.Name, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe)
	}
	p := pod{args: c.Args, env: map[string]string{}}
	for _, e := range c.Env {
		value := e.Value
		if key := e.ValueFrom.SecretKeyRef.Key; key != "" {
			secret, known := secrets[key]
			if !known {
				t.Errorf("%s wants %s of the Secret", m.Metadata.Name, key)
			}
			value = secret
		}
		p.env[e.Name] = value
	}
	wantSettings(t, p.env)
	return p
}
