package taskpkg_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A world has a server with archives, a bucket, and a runner that reaches both.
type world struct {
	runner  *taskpkg.Runner
	url     string
	answers map[string]http.HandlerFunc
	bucket  blob.Bucket
	dir     string // of the trials' folders
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, sandboxtest.Bubblewrap(t))
}

func newWorldWith(t *testing.T, s sandbox.Sandbox) *world {
	t.Helper()
	w := &world{answers: map[string]http.HandlerFunc{}, dir: sandboxtest.Folder(t)}
	if err := os.Chmod(w.dir, 0o711); err != nil { // root's programs must get through
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		answer, ok := w.answers[r.URL.Path]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		answer(rw, r)
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	w.bucket, err = blob.Open(t.Context(), blob.Options{
		Dir: t.TempDir(), Secret: make([]byte, 32),
		PublicURL: func() string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.runner = &taskpkg.Runner{Sandbox: s, HTTP: client, Blobs: w.bucket, Dir: w.dir}
	w.runner.Override().Backoff = time.Millisecond
	w.runner.Override().Programs = sandbox.Limits{Wall: 20 * time.Second, Grace: 100 * time.Millisecond}
	return w
}

// files are the members of an archive by path. A path that ends in a slash is a
// folder, and a content that begins with "#!" belongs to an executable file.
type files map[string]string

// with returns the files with others added.
func (f files) with(more files) files {
	all := maps.Clone(f)
	maps.Copy(all, more)
	return all
}

func (f files) archive(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f[name])), Format: tar.FormatUSTAR}
		if strings.HasPrefix(f[name], "#!") {
			h.Mode = 0o755
		}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// serve puts an archive on the server and returns its URL.
func (w *world) serve(t *testing.T, archive []byte) string {
	t.Helper()
	sum := sha256.Sum256(archive)
	path := "/" + hex.EncodeToString(sum[:]) + ".tar.gz"
	w.answers[path] = func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(archive) }
	return w.url + path
}

// run runs a task of these files with the skill.
func (w *world) run(t *testing.T, f files, task taskpkg.Task) taskpkg.Outcome {
	t.Helper()
	return w.runWith(t, f, task, skill(t))
}

func (w *world) runWith(t *testing.T, f files, task taskpkg.Task, s *skillpkg.Package) taskpkg.Outcome {
	t.Helper()
	if task.EnvironmentRef == "" {
		task.EnvironmentRef = w.serve(t, f.archive(t))
	}
	outcome := w.runner.Run(t.Context(), task, s)
	w.checkRemoved(t)
	return outcome
}

// checkRemoved checks that nothing is left of a trial.
func (w *world) checkRemoved(t *testing.T) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(w.dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// skill returns a small skill.
func skill(t *testing.T) *skillpkg.Package {
	t.Helper()
	archive := files{
		"SKILL.md":       "---\nname: greeter\ndescription: Greets people.\n---\nSay hello.\n",
		"scripts/run.sh": "#!/bin/sh\necho hello from the skill\n",
		"README.md":      "of the skill\n",
	}.archive(t)
	p, err := skillpkg.Read(t.Context(), bytes.NewReader(archive), skillpkg.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// verifier returns the files of a task whose verifier is this script.
func verifier(script string) files { return files{"tests/test.sh": script} }

func check(t *testing.T, o taskpkg.Outcome, verdict taskpkg.Verdict, code taskpkg.Code) {
	t.Helper()
	if o.Verdict != verdict || o.Code != code {
		t.Errorf("got %s %s (%s), want %s %s\nstdout: %s\nstderr: %s", o.Verdict, o.Code, o.Message, verdict, code,
			o.Stdout.Tail, o.Stderr.Tail)
	}
	if (o.Message == "") != (code == "") {
		t.Errorf("code %q with message %q", o.Code, o.Message)
	}
}
