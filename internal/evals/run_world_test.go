package evals_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// The entries that every organisation of a test can run. fresh has no version
// before.
const (
	entryID  = "entry-pdf"
	freshID  = "entry-fresh"
	foreign  = "11111111-1111-4111-8111-111111111111" // another organisation's source
	ownedID  = "22222222-2222-4222-8222-222222222222" // a source
	current  = "2.0.0"
	previous = "1.0.0"
)

// shelf stands for the sources and the registry: it has two versions of the
// skill pdf.
type shelf struct{}

var skillText = map[string]string{
	current:  "---\nname: pdf\ndescription: Extracts tables from PDF files.\n---\nUse version two.\n",
	previous: "---\nname: pdf\ndescription: Reads files.\n---\nUse version one.\n",
}

// Subject implements evals.Subjects.
func (shelf) Subject(_ context.Context, _ string, ref evals.SkillRef) (evals.Skill, error) {
	version := ref.Version
	if version == "" {
		version = current
	}
	s := evals.Skill{
		Name: "pdf", Description: "Extracts tables from PDF files.", ContentHash: "hash-" + version, Label: version,
		Pin: evals.SkillRef{EntryID: entryID, Version: version},
		Open: func(ctx context.Context) (*skillpkg.Package, error) {
			return skillpkg.Read(ctx, bytes.NewReader(archive(skillText[version])), skillpkg.DefaultLimits())
		},
	}
	if version == previous {
		s.Description = "Reads files."
	}
	switch {
	case ref.SourceID == foreign:
		return evals.Skill{}, fault.New(fault.Denied, "The source belongs to another organisation")
	case ref.SourceID == ownedID:
		s.SourceID = ownedID
	case ref.EntryID == freshID:
		s.Pin.EntryID = freshID
	case ref.EntryID != entryID || skillText[version] == "":
		return evals.Skill{}, fault.New(fault.NotFound, "Entry not found")
	}
	return s, nil
}

// Previous implements evals.Subjects.
func (s shelf) Previous(ctx context.Context, orgID string, ref evals.SkillRef) (evals.Skill, error) {
	if ref.EntryID != entryID {
		return evals.Skill{}, fault.New(fault.NotFound, "Version not found")
	}
	return s.Subject(ctx, orgID, evals.SkillRef{EntryID: entryID, Version: previous})
}

// Distractors implements evals.Subjects.
func (shelf) Distractors(context.Context, string, string) ([]judge.Skill, error) {
	return []judge.Skill{{Name: "weather", Description: "Tells the weather of tomorrow."}, {Name: "pdf", Description: "Itself."}}, nil
}

// member is a file of an archive.
type member struct {
	name, text string
	mode       int64
}

// archive is a skill with a script.
func archive(skill string) []byte {
	return packed(member{"pdf/SKILL.md", skill, 0o644}, member{"pdf/scripts/hello.sh", "#!/bin/sh\necho hello\n", 0o755})
}

func packed(members ...member) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, m := range members { // a buffer takes everything
		_ = w.WriteHeader(&tar.Header{Name: m.name, Mode: m.mode, Size: int64(len(m.text)), Typeflag: tar.TypeReg})
		_, _ = w.Write([]byte(m.text))
	}
	_ = w.Close()
	_ = z.Close()
	return out.Bytes()
}

// builtin is a service that can run what needs no model.
func builtin(t *testing.T) func(*evals.Service) {
	t.Helper()
	j, err := judge.New(judge.Options{API: judge.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	return asking(t, j)
}

func asking(t *testing.T, j *judge.Judge) func(*evals.Service) {
	t.Helper()
	box, err := sandbox.New(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return func(s *evals.Service) {
		s.Subjects, s.Judge, s.Sandbox = shelf{}, j, box
		s.Packages = &taskpkg.Runner{Sandbox: box, Blobs: s.Blobs}
	}
}

// scripted is a service with a model that answers as it is told.
func scripted(t *testing.T, server *judgetest.Server, timeout time.Duration) func(*evals.Service) {
	t.Helper()
	j, err := judge.New(judge.Options{
		API: judge.OpenAI, URL: server.URL(judgetest.OpenAI), Model: "scripted", Key: "sk-secret", Timeout: timeout, Concurrency: 16,
	})
	if err != nil {
		t.Fatal(err)
	}
	return asking(t, j)
}

// work runs jobs until the test ends, or until the function that it returns is
// called.
func (w *world) work() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.queue.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	stop = func() {
		cancel()
		wg.Wait()
	}
	w.t.Cleanup(stop)
	return stop
}

// another is a service on the same database, as another replica or the next
// process has it.
func (w *world) another(set ...func(*evals.Service)) *evals.Service {
	w.t.Helper()
	queue, err := jobs.New(jobs.Options{DB: w.db, Log: w.evals.Log})
	if err != nil {
		w.t.Fatal(err)
	}
	s := &evals.Service{DB: w.db, Jobs: queue, Blobs: w.blobs, Sources: w.sources, Log: w.evals.Log}
	for _, f := range set {
		f(s)
	}
	return s
}

// patience is how long a test waits for what other goroutines bring about.
const patience = 30 * time.Second

// eventually waits for what other goroutines bring about.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// count counts the rows that a FROM clause gives.
func (w *world) count(from string, args ...any) int {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `SELECT COUNT(*) FROM `+from, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

const runsPath = "/api/v1/eval-runs/"

// run reads the run in the body.
func (a answer) run() object {
	a.t.Helper()
	run, ok := a.object()["run"].(object)
	if !ok {
		a.t.Fatalf("%s: no run in %s", a.what, a.body)
	}
	return run
}

// start runs a suite on the entry, with more fields in pairs.
func (c *client) start(suite object, pairs ...any) object {
	c.t.Helper()
	body := with(object{"subject": object{"entry_id": entryID}}, pairs...)
	return c.post(suitesPath+"/"+suite["id"].(string)+"/runs", body).want(http.StatusAccepted).run()
}

// await waits for the end of a run.
func (c *client) await(run object) object {
	c.t.Helper()
	eventually(c.t, "the end of the run", func() bool {
		return c.w.count("eval_runs WHERE id = $1 AND finished_at IS NOT NULL", run["id"]) == 1
	})
	return c.get(runsPath + run["id"].(string)).want(http.StatusOK).run()
}

// finished runs a suite to its end.
func (c *client) finished(suite object, pairs ...any) object {
	c.t.Helper()
	return c.await(c.start(suite, pairs...))
}

// verdicts are those of the cases, in their order.
func verdicts(t *testing.T, run object) (all []any) {
	t.Helper()
	for _, c := range list(t, run, "cases") {
		all = append(all, c["verdict"])
	}
	return all
}
