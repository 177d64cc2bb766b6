package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

// Run is the conformance suite of blob.Bucket. Each case gets an empty bucket
// from newBucket.
func Run(t *testing.T, newBucket func(t *testing.T) blob.Bucket) {
	for name, test := range map[string]func(*testing.T, blob.Bucket){
		"round trip":       testRoundTrip,
		"overwrite":        testOverwrite,
		"whole reads":      testWholeReads,
		"missing":          testMissing,
		"delete":           testDelete,
		"list":             testList,
		"big body":         testBigBody,
		"wrong size":       testWrongSize,
		"pipe":             testPipe,
		"cancelled put":    testCancelledPut,
		"bad keys":         testBadKeys,
		"check and parts":  testCheckAndParts,
		"sweep":            testSweep,
		"sweep in batches": testSweepInBatches,
		"signed URL":       testSignedURL,
		"tampered URL":     testTamperedURL,
		"expired URL":      testExpiredURL,
		"bad sign options": testBadSignOptions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBucket(t))
		})
	}
}

func put(t *testing.T, b blob.Bucket, key, body string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(body), int64(len(body))); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, b blob.Bucket, key string) string {
	t.Helper()
	r, info, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if info.Key != key || info.Size != int64(len(body)) {
		t.Errorf("info of %s with %d bytes: %+v", key, len(body), info)
	}
	return string(body)
}

func list(t *testing.T, b blob.Bucket, prefix string) []string {
	t.Helper()
	keys := []string{}
	for info, err := range b.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// wantNothing checks that no trace of a refused put can be seen.
func wantNothing(t *testing.T, b blob.Bucket, key string) {
	t.Helper()
	if _, err := b.Stat(t.Context(), key); !fault.Is(err, fault.NotFound) {
		t.Errorf("Stat(%s) = %v, want NotFound", key, err)
	}
	if keys := list(t, b, ""); len(keys) > 0 {
		t.Errorf("the bucket holds %q, want nothing", keys)
	}
}

// once hides that a reader can do more than read.
func once(r io.Reader) io.Reader { return struct{ io.Reader }{r} }

func testRoundTrip(t *testing.T, b blob.Bucket) {
	start := time.Now().Add(-time.Minute)
	for key, body := range map[string]string{
		"plain":                     "hello",
		"empty":                     "",
		"deep/er/and/deeper":        "down",
		"odd/a b+c%2Fd?e&f=g#h.txt": "odd",
		"letters/größe-技能":          "letters",
	} {
		put(t, b, key, body)
		if got := get(t, b, key); got != body {
			t.Errorf("%s: got %q, want %q", key, got, body)
		}
		info, err := b.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if info.Key != key || info.Size != int64(len(body)) {
			t.Errorf("Stat(%s) = %+v", key, info)
		}
		if info.Modified.Before(start) || info.Modified.After(start.Add(time.Hour)) {
			t.Errorf("%s was modified %s, want now", key, info.Modified)
		}
	}
	rest := strings.NewReader("read-rest")
	if _, err := rest.Seek(5, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "rest", rest, 4); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, b, "rest"), "rest"; got != want {
		t.Errorf("a reader half read: got %q, want %q", got, want)
	}
}

func testOverwrite(t *testing.T, b blob.Bucket) {
	put(t, b, "key", "a longer first body")
	put(t, b, "key", "second")
	if got, want := get(t, b, "key"), "second"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testWholeReads(t *testing.T, b blob.Bucket) {
	bodies := []string{strings.Repeat("a", 200_000), strings.Repeat("b", 300_000)}
	put(t, b, "key", bodies[0])
	var group errgroup.Group
	group.Go(func() error {
		for i := range 10 {
			body := bodies[i%2]
			if err := b.Put(t.Context(), "key", strings.NewReader(body), int64(len(body))); err != nil {
				return err
			}
		}
		return nil
	})
	for range 20 {
		if got := get(t, b, "key"); got != bodies[0] && got != bodies[1] {
			t.Errorf("read %d bytes that were never written", len(got))
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func testMissing(t *testing.T, b blob.Bucket) {
	put(t, b, "there/blob", "body")
	for _, key := range []string{"missing", "there", "there/missing", "there/blob/below"} {
		if r, _, err := b.Get(t.Context(), key); !fault.Is(err, fault.NotFound) || r != nil {
			t.Errorf("Get(%s) = %v, %v, want NotFound", key, r, err)
		}
		if _, err := b.Stat(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Errorf("Stat(%s) = %v, want NotFound", key, err)
		}
		if err := b.Delete(t.Context(), key); err != nil {
			t.Errorf("Delete(%s) = %v, want nil", key, err)
		}
	}
	if got, want := get(t, b, "there/blob"), "body"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testDelete(t *testing.T, b blob.Bucket) {
	put(t, b, "folder/one", "1")
	put(t, b, "folder/two", "2")
	if err := b.Delete(t.Context(), "folder/one"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"folder/two"}, list(t, b, "")); diff != "" {
		t.Error(diff)
	}
	put(t, b, "folder/one", "again")
	if got, want := get(t, b, "folder/one"), "again"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testList(t *testing.T, b blob.Bucket) {
	if keys := list(t, b, ""); len(keys) > 0 {
		t.Errorf("a new bucket holds %q", keys)
	}
	// In the order of bytes '-' and '.' come before '/', and '0' after it.
	sorted := []string{"a-b", "a.b", "a/b", "a/c/d", "a0", "b/aa", "b/ab", "c"}
	for _, i := range rand.Perm(len(sorted)) {
		put(t, b, sorted[i], sorted[i])
	}
	for prefix, want := range map[string][]string{
		"":     sorted,
		"a":    {"a-b", "a.b", "a/b", "a/c/d", "a0"},
		"a/":   {"a/b", "a/c/d"},
		"b/a":  {"b/aa", "b/ab"},
		"b/aa": {"b/aa"},
		"none": {},
		"c/":   {},
	} {
		if diff := cmp.Diff(want, list(t, b, prefix)); diff != "" {
			t.Errorf("List(%q): %s", prefix, diff)
		}
	}
	for info, err := range b.List(t.Context(), "a/c/") {
		if err != nil || info.Size != 5 || time.Since(info.Modified).Abs() > time.Minute {
			t.Errorf("listed %+v, %v", info, err)
		}
	}
	for range b.List(t.Context(), "") {
		break // Stopping early is allowed.
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range b.List(ctx, "") {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("a cancelled List ended with %v", last)
	}
}

func testBigBody(t *testing.T, b blob.Bucket) {
	const size = 5_000_000
	hash := sha256.New()
	body := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), hash)
	if err := b.Put(t.Context(), "big", body, size); err != nil {
		t.Fatal(err)
	}
	got := sha256.Sum256([]byte(get(t, b, "big")))
	if want := hash.Sum(nil); !bytes.Equal(got[:], want) {
		t.Errorf("got a body with SHA-256 %x, want %x", got, want)
	}
}

func testWrongSize(t *testing.T, b blob.Bucket) {
	for _, size := range []int64{-1, 0, 4, 6, 100_000} {
		for _, body := range []io.Reader{strings.NewReader("12345"), once(strings.NewReader("12345"))} {
			if err := b.Put(t.Context(), "key", body, size); err == nil {
				t.Errorf("Put of 5 bytes as %d succeeded", size)
			}
		}
	}
	failing := errors.New("body broke off")
	body := io.MultiReader(strings.NewReader("12345"), readFunc(func([]byte) (int, error) { return 0, failing }))
	if err := b.Put(t.Context(), "key", body, 10); !errors.Is(err, failing) {
		t.Errorf("Put of a failing body = %v, want %v", err, failing)
	}
	wantNothing(t, b, "key")
}

// testPipe stores what comes from a pipe, which has the methods of a file that
// can seek, but cannot.
func testPipe(t *testing.T, b blob.Bucket) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("body"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "key", r, 4); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, b, "key"), "body"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func testCancelledPut(t *testing.T, b blob.Bucket) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const size = 1_000_000
	first := strings.NewReader(strings.Repeat("x", size/2))
	second := strings.NewReader(strings.Repeat("y", size/2))
	body := io.MultiReader(first, readFunc(func(p []byte) (int, error) {
		cancel()
		return second.Read(p)
	}))
	if err := b.Put(ctx, "key", body, size); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want %v", err, context.Canceled)
	}
	wantNothing(t, b, "key")
}

func testBadKeys(t *testing.T, b blob.Bucket) {
	for _, key := range []string{
		"", ".", "..", "/", "/a", "a/", "a//b", "./a", "../a", "a/../b", "a/..", `a\b`, "a\x00b", "a\nb", "a\u0085b",
		"a\xffb", "a.part", "a.part/b", strings.Repeat("a", 256), strings.Repeat("a/", 400) + "a",
	} {
		_, _, getErr := b.Get(t.Context(), key)
		_, statErr := b.Stat(t.Context(), key)
		_, signErr := b.SignedURL(t.Context(), key, blob.SignOptions{Expires: time.Minute})
		for operation, err := range map[string]error{
			"Put":       b.Put(t.Context(), key, strings.NewReader("x"), 1),
			"Get":       getErr,
			"Stat":      statErr,
			"SignedURL": signErr,
			"Delete":    b.Delete(t.Context(), key),
		} {
			if !fault.Is(err, fault.Malformed) {
				t.Errorf("%s(%q) = %v, want Malformed", operation, key, err)
			}
		}
	}
	for _, prefix := range []string{"/", "..", "../", "a//", "a\nb"} {
		for _, err := range b.List(t.Context(), prefix) {
			if !fault.Is(err, fault.Malformed) {
				t.Errorf("List(%q) = %v, want Malformed", prefix, err)
			}
		}
	}
	if keys := list(t, b, ""); len(keys) > 0 {
		t.Errorf("the bucket holds %q, want nothing", keys)
	}
}

func testCheckAndParts(t *testing.T, b blob.Bucket) {
	put(t, b, "key", "body")
	if err := b.Check(t.Context()); err != nil {
		t.Errorf("Check = %v", err)
	}
	if removed, err := b.RemoveParts(t.Context(), 0); err != nil || removed != 0 {
		t.Errorf("RemoveParts = %d, %v, want 0, nil", removed, err)
	}
	if diff := cmp.Diff([]string{"key"}, list(t, b, "")); diff != "" {
		t.Error(diff)
	}
}
