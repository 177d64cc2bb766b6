package environments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
)

// The parts of an environment's folder. Its name is its digest; that of one which is
// not whole begins with partPrefix.
const (
	filesDir   = "root"
	aboutFile  = "image.json" // its time is that of the last use
	partPrefix = "part-"
)

// about is the content of aboutFile.
type about struct {
	Env        []string `json:"env"`
	WorkingDir string   `json:"working_dir"`
	Bytes      int64    `json:"bytes"`
}

// isMissing reports that a file is not there, which is how a cache miss shows.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// build makes the folder of an environment under a temporary name and renames it when it is
// complete, so that a crash never leaves half an environment under a digest. The deferred removal
// does nothing after the rename.
func (s *Service) build(ctx context.Context, r Recipe, digest string, images []builder.Image) (err error) {
	dir, err := os.MkdirTemp(s.Dir, partPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sandbox.Remove(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // programs pass through to their files
		return err
	}
	// The limits are the smaller of what the operator allows and what the product can handle.
	size, timeout := min(s.MaxBytes, maxSize), defaultTimeout
	if r.Timeout > 0 {
		timeout = min(r.Timeout, maxTimeout)
	}
	var is about
	err = s.Builder.Run(ctx, builder.Build{
		Dockerfile: r.Dockerfile, Context: r.Context, Images: images, Network: s.Network,
		Timeout: timeout, Size: buildFactor * size,
	}, func(c builder.Config, files io.Reader) (err error) {
		is = about{Env: c.Env, WorkingDir: c.WorkingDir}
		is.Bytes, err = unpack(ctx, files, filepath.Join(dir, filesDir), size)
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, aboutFile), text, 0o600); err != nil {
		return err
	}
	return os.Rename(dir, filepath.Join(s.Dir, digest))
}

// load opens an environment for a user and counts the reference, which Release gives back. The
// caller holds the lock: a sweep in between would delete it. The time of image.json is set to now,
// for the eviction by last use.
func (s *Service) load(digest string, e *entry) (*Environment, error) {
	dir := filepath.Join(s.Dir, digest)
	text, err := os.ReadFile(filepath.Join(dir, aboutFile))
	if err != nil {
		return nil, err
	}
	var is about
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, aboutFile), now, now); err != nil {
		return nil, err
	}
	found := &Environment{
		Digest: digest, Env: map[string]string{}, WorkingDir: is.WorkingDir, Bytes: is.Bytes,
		service: s, dir: filepath.Join(dir, filesDir),
	}
	for _, variable := range is.Env {
		if name, value, ok := strings.Cut(variable, "="); ok {
			found.Env[name] = value
		}
	}
	e.users++
	found.release = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.users--
	})
	return found, nil
}

// kept is an environment on the disk.
type kept struct {
	digest string
	bytes  int64
	usedAt time.Time
}

// Sweep deletes the environments that were not used for long, and those that were
// used least recently while all together are over the limit, except spared ones and
// those in use. It also deletes what an earlier process has left of a build.
func (s *Service) Sweep(spared ...string) (err error) {
	defer fault.Wrap(&err, "sweep environments")
	s.forget()
	all, err := s.list()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b kept) int { return a.usedAt.Compare(b.usedAt) })
	total := int64(0)
	// The oldest come first, so that the loop evicts the least recently used until the rest fits.
	for _, k := range all {
		total += k.bytes
	}
	for _, k := range all {
		if total <= s.MaxBytes && time.Since(k.usedAt) < maxAge || slices.Contains(spared, k.digest) {
			continue
		}
		removed, err := s.remove(k.digest)
		if err != nil {
			return err
		}
		if removed {
			total -= k.bytes
		}
	}
	return nil
}

// list returns the environments on disk. A folder without image.json is the rest of a build that a
// crash interrupted; it is removed unless a build may be using it right now.
func (s *Service) list() (all []kept, err error) {
	entries, err := os.ReadDir(s.Dir)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		dir := filepath.Join(s.Dir, entry.Name())
		info, err := os.Stat(filepath.Join(dir, aboutFile))
		if err != nil {
			if !s.isBuilding() {
				err = s.Builder.Remove(dir)
			}
			if err != nil && !isMissing(err) {
				return nil, err
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, aboutFile))
		if err != nil {
			return nil, err
		}
		var is about
		if err := json.Unmarshal(text, &is); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, kept{entry.Name(), is.Bytes, info.ModTime()})
	}
	return all, nil
}

// isBuilding reports whether a build is running, whose folder looks like a leftover.
func (s *Service) isBuilding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.pending != nil {
			return true
		}
	}
	return false
}

// forget drops the entries of environments that nobody uses or builds, so that the map doesn't grow
// for ever. Failed builds stay until their TTL ends.
func (s *Service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.entries, func(_ string, e *entry) bool {
		return e.users == 0 && e.pending == nil && time.Since(e.failedAt) >= retryAfter
	})
}

// remove deletes an environment unless it is in use. It is renamed first: no caller
// must find half of it.
func (s *Service) remove(digest string) (bool, error) {
	part := filepath.Join(s.Dir, partPrefix+"removed-"+digest)
	s.mu.Lock()
	if e := s.entries[digest]; e != nil && (e.users > 0 || e.pending != nil) {
		s.mu.Unlock()
		return false, nil
	}
	delete(s.entries, digest)
	err := os.Rename(filepath.Join(s.Dir, digest), part)
	s.mu.Unlock()
	if err != nil {
		return false, err
	}
	return true, sandbox.Remove(part)
}
