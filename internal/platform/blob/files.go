package blob

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/fsync"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
)

// objectDir holds the blobs under their keys. A partial file is written next to
// its final name, under a random one that is not a valid key: one directory for
// all of them would serialize the fsyncs of concurrent Puts.
const (
	objectDir  = "objects"
	partSuffix = ".part"
)

const minSecret = 32

// Files is a bucket in a directory. Open makes it. Only one process at a time
// may write to the directory.
type Files struct {
	signer
	root *os.Root
	log  *slog.Logger

	// parts has the names of the partial files that are being written. RemoveParts
	// must not take them for left over, however old the wall clock, which may be
	// set while they are written, makes them look.
	parts sync.Map

	// dirs is locked while directories are made: a blob must not be stored in one
	// that would not survive a crash yet.
	dirs sync.RWMutex

	cache *fileCache
}

func openFiles(o Options) (Bucket, error) {
	c := &fileCache{blobs: lru.New[string, *cachedBlob](maxCached)}
	c.blobs.OnDrop(func(b *cachedBlob) { // with the lock held
		for _, file := range b.idle {
			_ = file.Close() // it was only read
		}
		c.idle -= len(b.idle)
		b.cached, b.idle = false, nil
	})
	f := &Files{cache: c, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler))}
	if err := f.init(o); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, err
	}
	f.root = root
	if err := f.makeDir(objectDir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

// Put implements Bucket.
func (f *Files) Put(ctx context.Context, key string, r io.Reader, size int64) (err error) {
	if err := checkKey(key); err != nil {
		return err
	}
	defer fault.Wrap(&err, "put blob %s", key)
	dir, err := f.openDir(path.Dir(objectName(key)))
	if err != nil {
		return fault.Disk(err)
	}
	defer func() { _ = dir.Close() }() // it was only read
	part, done := f.newPart()
	defer done()
	err = writePart(dir, part, &exactReader{ctx, r, size})
	if err == nil {
		err = dir.Rename(part, path.Base(key))
	}
	if err != nil {
		_ = dir.Remove(part) // RemoveParts gets what cannot be removed now
		return fault.Disk(err)
	}
	f.cache.remove(key)
	return fault.Disk(fsync.RootDir(dir, "."))
}

// newPart names a partial file, which RemoveParts spares until done is called.
func (f *Files) newPart() (part string, done func()) {
	part = rand.Text() + partSuffix
	f.parts.Store(part, nil)
	return part, func() { f.parts.Delete(part) }
}

// writePart writes and fsyncs a file. Its name is fsynced with its directory,
// after the rename.
func writePart(dir *os.Root, part string, r io.Reader) error {
	file, err := dir.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = spool.Copy(file, r)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// openDir opens a directory that would survive a crash, and makes it if needed.
func (f *Files) openDir(name string) (*os.Root, error) {
	f.dirs.RLock()
	dir, err := f.root.OpenRoot(name)
	f.dirs.RUnlock()
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	f.dirs.Lock()
	defer f.dirs.Unlock()
	if err := f.makeDir(name); err != nil {
		return nil, err
	}
	return f.root.OpenRoot(name)
}

// makeDir makes a directory and those above it that are missing, and fsyncs the
// parent of each one made.
func (f *Files) makeDir(dir string) error {
	err := f.root.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) && dir != "." {
		if err := f.makeDir(path.Dir(dir)); err != nil {
			return err
		}
		err = f.root.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsync.RootDir(f.root, path.Dir(dir))
}

// Get implements Bucket.
func (f *Files) Get(_ context.Context, key string) (io.ReadCloser, Info, error) {
	b, file, removals := f.cache.get(key)
	if file != nil {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, Info{}, errors.Join(fmt.Errorf("get blob %s: %w", key, err), file.Close())
		}
		return &cachedFile{f.cache, b, file}, b.info, nil
	}
	file, info, err := f.open(key)
	if err != nil {
		return nil, Info{}, err
	}
	if _, ok := ContentSum(key); !ok {
		return file, info, nil // another Put may change it
	}
	if b == nil {
		b = f.cache.add(info, removals)
	}
	return &cachedFile{f.cache, b, file}, info, nil
}

func (f *Files) open(key string) (_ *os.File, _ Info, err error) {
	if err := checkKey(key); err != nil {
		return nil, Info{}, err
	}
	defer fault.Wrap(&err, "get blob %s", key)
	file, err := f.root.Open(objectName(key))
	if err != nil {
		return nil, Info{}, fileError(err)
	}
	stat, err := file.Stat()
	if err == nil && !stat.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, Info{}, errors.Join(fileError(err), file.Close())
	}
	return file, fileInfo(key, stat), nil
}

// Stat implements Bucket.
func (f *Files) Stat(_ context.Context, key string) (_ Info, err error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	defer fault.Wrap(&err, "stat blob %s", key)
	stat, err := f.root.Lstat(objectName(key))
	if err == nil && !stat.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Info{}, fileError(err)
	}
	return fileInfo(key, stat), nil
}

// Delete implements Bucket. Empty directories stay: removing one would race
// with a Put into it.
func (f *Files) Delete(ctx context.Context, key string) (err error) {
	_, err = f.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer fault.Wrap(&err, "delete blob %s", key)
	name := objectName(key)
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.cache.remove(key)
	return fsync.RootDir(f.root, path.Dir(name))
}

// List implements Bucket.
func (f *Files) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		f.walk(ctx, "", prefix, yield)
	}
}

// walk yields the blobs below dir, which is empty or ends with a slash, and
// reports whether the caller wants to see more.
func (f *Files) walk(ctx context.Context, dir, prefix string, yield func(Info, error) bool) bool {
	names, err := f.names(ctx, dir)
	if err != nil {
		yield(Info{}, fmt.Errorf("list blobs: %w", err))
		return false
	}
	for _, name := range names {
		key := dir + name
		if strings.HasSuffix(key, "/") {
			related := strings.HasPrefix(key, prefix) || strings.HasPrefix(prefix, key)
			if related && !f.walk(ctx, key, prefix, yield) {
				return false
			}
			continue
		}
		if !strings.HasPrefix(key, prefix) || checkKey(key) != nil {
			continue
		}
		info, err := f.Stat(ctx, key)
		if fault.Is(err, fault.NotFound) {
			continue // deleted since, or no regular file
		}
		if !yield(info, err) || err != nil {
			return false
		}
	}
	return true
}

// names returns what is in dir. Directories end with a slash, so that they sort
// as the keys below them do.
func (f *Files) names(ctx context.Context, dir string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(f.root.FS(), objectName(dir))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
		if entry.IsDir() {
			names[i] += "/"
		}
	}
	slices.Sort(names)
	return names, nil
}

// Check implements Bucket: it writes a file.
func (f *Files) Check(context.Context) (err error) {
	defer fault.Wrap(&err, "check blobs")
	dir, err := f.root.OpenRoot(objectDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // it was only read
	part, done := f.newPart()
	defer done()
	return errors.Join(writePart(dir, part, strings.NewReader("check")), dir.Remove(part))
}

// RemoveParts implements Bucket.
func (f *Files) RemoveParts(ctx context.Context, minAge time.Duration) (removed int, err error) {
	defer fault.Wrap(&err, "remove partial blobs")
	err = fs.WalkDir(f.root.FS(), objectDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, partSuffix) {
			return errors.Join(err, ctx.Err())
		}
		if _, writing := f.parts.Load(path.Base(name)); writing {
			return ctx.Err()
		}
		stat, err := entry.Info()
		if err == nil && time.Since(stat.ModTime()) > minAge {
			err = f.root.Remove(name)
			if err == nil {
				removed++
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // renamed or removed by its Put
		}
		return err
	})
	return removed, err
}

func objectName(key string) string { return path.Join(objectDir, key) }

func fileInfo(key string, stat fs.FileInfo) Info {
	return Info{Key: key, Size: stat.Size(), Modified: stat.ModTime().UTC()}
}

// fileError makes a missing file a NotFound fault, also where a directory of the
// key is a file (ENOTDIR).
func fileError(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fault.New(fault.NotFound, "Blob not found").Because(err)
	}
	return err
}
