package stored_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// bucket is an archive that counts how often, and by how many at once, it is read.
type bucket struct {
	packed []byte
	hash   string
	stream bool // it cannot seek
	opened atomic.Int64
	open   atomic.Int64
	most   atomic.Int64
	hold   chan struct{} // an Open waits for it, if it is set
}

func pack(t *testing.T, format skillpkg.Format, files map[string]string) *bucket {
	t.Helper()
	folder := fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: a\ndescription: b\n---\n"), Mode: 0o644}}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	var out bytes.Buffer
	if _, err := skillpkg.Pack(t.Context(), folder, &out,
		skillpkg.PackOptions{Format: format, Limits: skillpkg.DefaultLimits()}); err != nil {
		t.Fatal(err)
	}
	return &bucket{packed: out.Bytes(), hash: digest(out.String())}
}

type body struct {
	io.Reader
	b *bucket
}

func (b body) Close() error {
	b.b.open.Add(-1)
	return nil
}

type seekingBody struct {
	body
	io.Seeker
}

func (b *bucket) archive() stored.Archive {
	return stored.Archive{Hash: b.hash, Limits: skillpkg.StoredLimits(), Open: func(ctx context.Context) (io.ReadCloser, error) {
		b.opened.Add(1)
		n := b.open.Add(1)
		for old := b.most.Load(); n > old && !b.most.CompareAndSwap(old, n); old = b.most.Load() {
		}
		if b.hold != nil {
			select {
			case <-b.hold:
			case <-ctx.Done():
				b.open.Add(-1)
				return nil, ctx.Err()
			}
		}
		r := bytes.NewReader(b.packed)
		if b.stream {
			return body{io.MultiReader(r), b}, nil
		}
		return seekingBody{body{r, b}, r}, nil
	}}
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func named(content string) stored.File {
	return stored.File{SHA256: digest(content), Size: int64(len(content))}
}

// noise is text that compresses to half its size.
func noise(n int, seed byte) string {
	b := make([]byte, n/2+1)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return hex.EncodeToString(b)[:n]
}

func TestFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	large := noise(1<<20, 1)
	contents := map[string]string{
		"a.md": "some text", "b/c.md": "other text", "empty": "", "large": large,
		"same": "some text", "z.md": "the last",
	}
	for _, format := range []skillpkg.Format{skillpkg.TarGz, skillpkg.Zip} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(format, " stream ", stream), func(t *testing.T) {
				b := pack(t, format, contents)
				b.stream = stream
				f := stored.New(nil)
				for path, want := range contents {
					got, err := f.File(t.Context(), b.archive(), named(want))
					if err != nil || string(got) != want {
						t.Errorf("%s: got %.20q, %v", path, got, err)
					}
				}
				if n := b.opened.Load(); n > 2 {
					t.Errorf("the archive was read %d times for small files that follow each other", n)
				}
				if _, err := f.File(t.Context(), b.archive(), named("not in it")); !fault.Is(err, fault.Unavailable) {
					t.Errorf("a file that is not there: %v", err)
				}
			})
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over are %v, %v", left, err)
	}
}

func TestFileOfDamagedArchive(t *testing.T) {
	b := pack(t, skillpkg.TarGz, map[string]string{"a": noise(1<<20, 1)})
	b.packed = b.packed[:len(b.packed)/2]
	f := stored.New(nil)
	if _, err := f.File(t.Context(), b.archive(), named(noise(1<<20, 1))); !fault.Is(err, fault.Unavailable) {
		t.Errorf("half an archive: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.File(ended, b.archive(), named("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that left: %v", err)
	}
}

// TestFilesAtOnce asks for one small file behind much else, from many goroutines.
func TestFilesAtOnce(t *testing.T) {
	files := map[string]string{"z.md": "the last"}
	for i := range 4 {
		files[fmt.Sprintf("a%d", i)] = noise(4<<20, byte(i))
	}
	b := pack(t, skillpkg.TarGz, files)
	f := stored.New(nil)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if got, err := f.File(t.Context(), b.archive(), named("the last")); err != nil || string(got) != "the last" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if b.opened.Load() > 2 || b.most.Load() > 2 {
		t.Errorf("the archive was read %d times, %d at once, want 2 at most", b.opened.Load(), b.most.Load())
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d MiB were allocated for 32 times 8 bytes", used>>20)
	}
}

// TestLargeFilesAtOnce holds on to more large files than there is room for.
func TestLargeFilesAtOnce(t *testing.T) {
	contents, archives := make([]string, 5), make([]*bucket, 5)
	for i := range contents {
		contents[i] = noise(9<<20, byte(i))
		archives[i] = pack(t, skillpkg.TarGz, map[string]string{"f": contents[i]})
	}
	synctest.Test(t, func(t *testing.T) {
		f := stored.New(nil)
		var leave []context.CancelFunc
		hold := func(i int) error {
			ctx, cancel := context.WithCancel(t.Context())
			leave = append(leave, cancel)
			got, err := f.File(ctx, archives[i].archive(), named(contents[i]))
			if err == nil && string(got) != contents[i] {
				t.Errorf("file %d is another", i)
			}
			return err
		}
		for i := range 3 { // 27 of 32 MiB
			if err := hold(i); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 { // what is there is shared
			if err := hold(1); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		busy, ok := errors.AsType[*fault.Error](hold(3))
		if !ok || busy.Kind != fault.Unavailable || busy.RetryAfter == 0 || time.Since(start) != 5*time.Second {
			t.Errorf("a fourth one: %v after %v", busy, time.Since(start))
		}
		// Small ones are served all the same.
		if got, err := f.File(t.Context(), archives[3].archive(), named("---\nname: a\ndescription: b\n---\n")); err != nil ||
			len(got) == 0 {
			t.Errorf("a small file: %v", err)
		}
		senders := leave
		waiting := make(chan error)
		go func() { waiting <- hold(4) }()
		synctest.Wait()
		for _, cancel := range senders {
			cancel()
		}
		if err := <-waiting; err != nil {
			t.Errorf("after the others were sent: %v", err)
		}
		leave[len(leave)-1]()
		synctest.Wait()
	})
}

// TestBusy keeps all turns taken.
func TestBusy(t *testing.T) {
	b := pack(t, skillpkg.TarGz, map[string]string{"a": "some text"})
	synctest.Test(t, func(t *testing.T) {
		b.hold = make(chan struct{})
		f := stored.New(nil)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _, _ = f.File(t.Context(), b.archive(), named("some text")) })
		}
		synctest.Wait()
		_, err := f.File(t.Context(), b.archive(), named("some text"))
		if busy, ok := errors.AsType[*fault.Error](err); !ok || busy.Kind != fault.Unavailable || busy.RetryAfter == 0 {
			t.Errorf("a third reader: %v", err)
		}
		if _, err := f.Diff(t.Context(), stored.Tree{}, stored.Tree{Archive: b.archive()}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a diff: %v", err)
		}
		close(b.hold)
		wg.Wait()
	})
}

func TestDiff(t *testing.T) {
	t.Setenv("TMPDIR", "/nonexistent") // nothing is unpacked to a disk
	manifest := func(files map[string]string) (all []skillpkg.ManifestEntry) {
		for path, content := range files {
			all = append(all, skillpkg.ManifestEntry{Path: path, Hash: digest(content), Size: int64(len(content))})
		}
		return all
	}
	one := map[string]string{"a": "one\n", "big": noise(3<<20, 1), "gone": "bye\n", "copy": "two\n"}
	two := map[string]string{"a": "two\n", "big": noise(3<<20, 2), "copy": "two\n"}
	before, after := pack(t, skillpkg.TarGz, one), pack(t, skillpkg.Zip, two)
	f := stored.New(nil)
	for range 3 {
		got, err := f.Diff(t.Context(), stored.Tree{Archive: before.archive(), Manifest: manifest(one)},
			stored.Tree{Archive: after.archive(), Manifest: manifest(two)})
		for _, want := range []string{"-one\n+two\n", "Files a/big and b/big differ: a file is over 1 MiB\n", "diff a/gone /dev/null\n"} {
			if err != nil || !strings.Contains(string(got), want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
	}
	if before.opened.Load() != 1 || after.opened.Load() != 1 {
		t.Errorf("the archives were read %d and %d times, want once", before.opened.Load(), after.opened.Load())
	}
	lacking := stored.Tree{Archive: before.archive(), Manifest: manifest(map[string]string{"x": "not in it"})}
	if _, err := stored.New(nil).Diff(t.Context(), lacking, stored.Tree{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an archive that lacks a file: %v", err)
	}
}
