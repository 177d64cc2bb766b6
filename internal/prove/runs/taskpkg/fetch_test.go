package taskpkg_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

func passing() files { return verifier("#!/bin/sh\ntrue\n") }

func TestFetchDigest(t *testing.T) {
	w := newWorld(t)
	archive := passing().archive(t)
	sum := sha256.Sum256(archive)
	digest := hex.EncodeToString(sum[:])
	ref := w.serve(t, archive)
	good := w.run(t, nil, taskpkg.Task{EnvironmentRef: ref + "#sha256=" + digest})
	check(t, good, taskpkg.Pass, "")
	if good.Digest != digest {
		t.Errorf("got digest %s, want %s", good.Digest, digest)
	}
	bad := w.run(t, nil, taskpkg.Task{EnvironmentRef: ref + "#sha256=" + strings.Repeat("0", 64)})
	check(t, bad, taskpkg.Error, "digest_mismatch")
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: ref + "#sha256=abc"}), taskpkg.Error, "digest_mismatch")
}

func TestFetchRetries(t *testing.T) {
	w := newWorld(t)
	archive := passing().archive(t)
	var calls atomic.Int32
	// answer fails n times, then gives the archive.
	answer := func(n int32, fail http.HandlerFunc) http.HandlerFunc {
		calls.Store(0)
		return func(rw http.ResponseWriter, r *http.Request) {
			if calls.Add(1) <= n {
				fail(rw, r)
				return
			}
			_, _ = rw.Write(archive)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
	}
	cut := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "1000000")
		_, _ = rw.Write(archive[:10])
	}
	tests := []struct {
		name    string
		fails   int32
		fail    http.HandlerFunc
		verdict taskpkg.Verdict
		code    taskpkg.Code
		calls   int32
	}{
		{"twice unavailable", 2, status(503), "pass", "", 3},
		{"cut off", 1, cut, "pass", "", 2},
		{"limited", 1, status(429), "pass", "", 2},
		{"always broken", 9, status(500), "error", "fetch_failed", 3},
		{"missing", 9, status(404), "error", "fetch_failed", 1},
		{"forbidden", 9, status(403), "error", "fetch_failed", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w.answers["/flaky"] = answer(test.fails, test.fail)
			check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: w.url + "/flaky"}), test.verdict, test.code)
			if got := calls.Load(); got != test.calls {
				t.Errorf("%d calls, want %d", got, test.calls)
			}
		})
	}
}

func TestFetchLimits(t *testing.T) {
	w := newWorld(t)
	w.runner.Override().Archive = taskpkg.NewArchiveLimits(1 << 20)
	w.answers["/endless"] = func(rw http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := rw.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: w.url + "/endless"}), taskpkg.Error, "fetch_refused")
	w.runner.Override().FetchTimeout = 50 * time.Millisecond
	w.answers["/slow"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: w.url + "/slow"}), taskpkg.Error, "fetch_failed")
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: "http://127.0.0.1:1/closed"}), taskpkg.Error, "fetch_failed")
}

func TestFetchRedirects(t *testing.T) {
	w := newWorld(t)
	ref := w.serve(t, passing().archive(t))
	hop := func(from, to string) {
		w.answers[from] = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, http.StatusFound) }
	}
	hop("/4", "/3")
	hop("/3", "/2")
	hop("/2", "/1")
	hop("/1", ref)
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: w.url + "/3"}), taskpkg.Pass, "")
	if o := w.run(t, nil, taskpkg.Task{EnvironmentRef: w.url + "/4"}); o.Verdict != taskpkg.Error {
		t.Errorf("four redirects: %+v", o)
	}
	hop("/file", "file:///etc/passwd")
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: w.url + "/file"}), taskpkg.Error, "fetch_refused")
}

// TestFetchPrivate: private addresses are refused unless the operator allows
// them.
func TestFetchPrivate(t *testing.T) {
	w := newWorld(t)
	ref := w.serve(t, passing().archive(t))
	client, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.runner.HTTP = client
	for _, ref := range []string{
		ref, "http://localhost:1/a", "http://[::1]:1/a", "http://0.0.0.0/a",
		"http://169.254.169.254/latest", "http://224.0.0.1/",
	} {
		got := w.run(t, nil, taskpkg.Task{EnvironmentRef: ref})
		check(t, got, taskpkg.Error, "fetch_refused")
		if strings.Contains(ref, "localhost") && !strings.Contains(got.Message, "localhost resolves to a loopback address") {
			t.Errorf("of a name it says %q", got.Message)
		}
	}
}

func TestFetchBucket(t *testing.T) {
	w := newWorld(t)
	archive := passing().archive(t)
	if err := w.bucket.Put(t.Context(), "evals/org/a.tar.gz", bytes.NewReader(archive), int64(len(archive))); err != nil {
		t.Fatal(err)
	}
	key := func(ref string) (string, bool) {
		key, ok := strings.CutPrefix(ref, "blob://")
		if !ok {
			key, ok = strings.CutPrefix(ref, "s3://bucket/")
		}
		return key, ok && strings.HasPrefix(key, "evals/org/")
	}
	tests := []struct {
		ref     string
		verdict taskpkg.Verdict
		code    taskpkg.Code
	}{
		{"blob://evals/org/a.tar.gz", "pass", ""},
		{"s3://bucket/evals/org/a.tar.gz", "pass", ""},
		{"blob://evals/org/missing.tar.gz", "error", "fetch_failed"},
		{"blob://evals/other/a.tar.gz", "error", "fetch_refused"},
		{"file:///etc/passwd", "error", "fetch_refused"},
		{"nonsense", "error", "fetch_refused"},
	}
	for _, test := range tests {
		t.Run(test.ref, func(t *testing.T) {
			check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: test.ref, BlobKey: key}), test.verdict, test.code)
		})
	}
	check(t, w.run(t, nil, taskpkg.Task{EnvironmentRef: tests[0].ref}), taskpkg.Error, "fetch_refused")
}
