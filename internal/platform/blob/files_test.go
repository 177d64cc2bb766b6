package blob_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

func fileOptions(t *testing.T) blob.Options {
	t.Helper()
	return blob.Options{
		Dir:       filepath.Join(t.TempDir(), "data", "blobs"),
		PublicURL: func() string { return "https://whetstone.example" },
		Secret:    []byte(strings.Repeat("s", 32)),
	}
}

func openFiles(t *testing.T, o blob.Options) *blob.Files {
	t.Helper()
	return open(t, o).(*blob.Files)
}

func put(t *testing.T, b blob.Bucket, key, body string) {
	t.Helper()
	if err := b.Put(t.Context(), key, strings.NewReader(body), int64(len(body))); err != nil {
		t.Fatal(err)
	}
}

// putContent stores content under a key that names it.
func putContent(t *testing.T, b blob.Bucket, content string) (key string) {
	t.Helper()
	key = fmt.Sprintf("content/%x.1", sha256.Sum256([]byte(content)))
	put(t, b, key, content)
	return key
}

func list(t *testing.T, b blob.Bucket) []string {
	t.Helper()
	keys := []string{}
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	o := fileOptions(t)
	put(t, openFiles(t, o), "deep/er/key", "body")
	err := filepath.WalkDir(o.Dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesStayInTheirFolder(t *testing.T) {
	o := fileOptions(t)
	b := openFiles(t, o)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(o.Dir, "objects")
	for link, target := range map[string]string{"folder": outside, "file": secret} {
		if err := os.Symlink(target, filepath.Join(objects, link)); err != nil {
			t.Fatal(err)
		}
	}

	for _, key := range []string{"folder/secret", "file"} {
		if _, _, err := b.Get(t.Context(), key); err == nil {
			t.Errorf("Get(%s) followed a link out of the folder", key)
		}
		if _, err := b.Stat(t.Context(), key); err == nil {
			t.Errorf("Stat(%s) followed a link out of the folder", key)
		}
	}
	if err := b.Put(t.Context(), "folder/new", strings.NewReader("x"), 1); err == nil {
		t.Error("Put followed a link out of the folder")
	}
	if err := b.Delete(t.Context(), "folder/secret"); err == nil {
		t.Error("Delete followed a link out of the folder")
	}
	if keys := list(t, b); len(keys) > 0 {
		t.Errorf("List followed a link out of the folder: %q", keys)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder outside holds %v, %v", entries, err)
	}
}

func TestRemoveParts(t *testing.T) {
	o := fileOptions(t)
	b := openFiles(t, o)
	put(t, b, "folder/key", "body")
	folder := filepath.Join(o.Dir, "objects", "folder")
	for name, age := range map[string]time.Duration{
		"crashed.part": 2 * time.Hour, "being-written.part": time.Minute, "key": 2 * time.Hour,
	} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte("half a bl"), 0o600); err != nil {
			t.Fatal(err)
		}
		written := time.Now().Add(-age)
		if err := os.Chtimes(file, written, written); err != nil {
			t.Fatal(err)
		}
	}

	if removed, err := b.RemoveParts(t.Context(), time.Hour); removed != 1 || err != nil {
		t.Errorf("RemoveParts = %d, %v, want 1, nil", removed, err)
	}
	if diff := cmp.Diff([]string{"being-written.part", "key"}, names(t, folder)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"folder/key"}, list(t, b)); diff != "" {
		t.Error(diff)
	}
}

// TestRemovePartsWhilePutting: a blob that is being written is not left over, even
// if the wall clock was set forward and it looks old.
func TestRemovePartsWhilePutting(t *testing.T) {
	o := fileOptions(t)
	b := openFiles(t, o)
	body, source := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- b.Put(t.Context(), "folder/key", body, 4) }()
	if _, err := source.Write([]byte("bo")); err != nil { // returns when Put has read it
		t.Fatal(err)
	}
	if parts := names(t, filepath.Join(o.Dir, "objects", "folder")); len(parts) != 1 {
		t.Fatalf("the folder has %q, want a partial file", parts)
	}
	if removed, err := b.RemoveParts(t.Context(), 0); removed != 0 || err != nil {
		t.Errorf("RemoveParts = %d, %v, want 0, nil", removed, err)
	}
	if _, err := source.Write([]byte("dy")); err != nil {
		t.Error(err)
	}
	_ = source.Close()
	if err := <-ended; err != nil {
		t.Errorf("Put = %v", err)
	}
	if diff := cmp.Diff([]string{"folder/key"}, list(t, b)); diff != "" {
		t.Error(diff)
	}
}

// TestSweepSparesNewBlob stores a blob again under the same key while a sweep
// reads the rows: the new blob's row may not be committed yet.
func TestSweepSparesNewBlob(t *testing.T) {
	o := fileOptions(t)
	b := openFiles(t, o)
	old := time.Now().Add(-blob.OrphanAge - time.Minute)
	for _, key := range []string{"folder/again", "folder/orphan"} {
		put(t, b, key, "body")
		if err := os.Chtimes(filepath.Join(o.Dir, "objects", key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := blob.Sweep{Bucket: b, Prefix: "folder/", Alive: func(context.Context, []string) ([]string, error) {
		put(t, b, "folder/again", "body")
		return nil, nil
	}}.Run(t.Context())
	if deleted != 1 || err != nil {
		t.Errorf("deleted %d, %v, want 1, nil", deleted, err)
	}
	if diff := cmp.Diff([]string{"folder/again"}, list(t, b)); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedPutLeavesNoFile(t *testing.T) {
	o := fileOptions(t)
	b := openFiles(t, o)
	if err := b.Put(t.Context(), "key", strings.NewReader("short"), 10); err == nil {
		t.Error("Put of a short body succeeded")
	}
	put(t, b, "taken", "a blob where the next key has a directory")
	if err := b.Put(t.Context(), "taken/below", strings.NewReader("x"), 1); err == nil {
		t.Error("Put below a blob succeeded")
	}
	if diff := cmp.Diff([]string{"taken"}, names(t, filepath.Join(o.Dir, "objects"))); diff != "" {
		t.Error(diff)
	}
}

// names lists a directory.
func names(t *testing.T, folder string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func TestFilesOutliveTheirBucket(t *testing.T) {
	o := fileOptions(t)
	put(t, openFiles(t, o), "key", "body")
	info, err := openFiles(t, o).Stat(t.Context(), "key")
	if err != nil || info.Size != 4 {
		t.Errorf("Stat = %+v, %v", info, err)
	}
}

func TestOpenFilesRefuses(t *testing.T) {
	for name, change := range map[string]func(*blob.Options){
		"a short secret": func(o *blob.Options) { o.Secret = o.Secret[:31] },
		"no folder":      func(o *blob.Options) { o.Dir = "" },
		"a file as its folder": func(o *blob.Options) {
			o.Dir = filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(o.Dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := fileOptions(t)
			change(&o)
			if b, err := blob.Open(t.Context(), o); err == nil {
				t.Errorf("Open = %v, want an error", b)
			}
		})
	}
}

func TestCheckFindsABrokenFolder(t *testing.T) {
	o := fileOptions(t)
	b := openFiles(t, o)
	if err := os.RemoveAll(filepath.Join(o.Dir, "objects")); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); err == nil || fault.Of(err) != fault.Internal {
		t.Errorf("Check = %v, want an internal error", err)
	}
}
