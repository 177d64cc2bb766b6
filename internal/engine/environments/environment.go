package environments

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// An Environment is a file system that is ready to be used. The caller releases it.
type Environment struct {
	Digest     string
	Env        map[string]string // of the image
	WorkingDir string            // "" means "/"
	Bytes      int64

	service *Service
	dir     string
	release func()
}

// Dir has the files as they were built. They must not be changed.
func (e *Environment) Dir() string { return e.dir }

// Release lets the environment be swept. It may be called twice.
func (e *Environment) Release() { e.release() }

// Root returns a root for the programs of one trial, which may change everything in it: an overlay
// where the kernel lets unprivileged users mount one, else a full copy. The changes go to the new
// folder dir, which the caller removes.
func (e *Environment) Root(ctx context.Context, dir string) (*sandbox.Root, error) {
	if err := os.Mkdir(dir, 0o711); err != nil { // the programs' user passes through
		return nil, err
	}
	if e.service.overlays(ctx) {
		root := &sandbox.Root{Dir: e.dir, Changes: dir}
		return root, os.Mkdir(root.Written(), 0o755) // the programs' user owns it later
	}
	files := filepath.Join(dir, filesDir)
	return &sandbox.Root{Dir: files}, copyFiles(ctx, e.dir, files)
}

// overlayProbe caches whether overlays can be mounted. A probe that ran into the caller's deadline
// proves nothing and is not cached.
type overlayProbe struct {
	mu     sync.Mutex
	probed bool
	works  bool
}

// probeTimeout limits how long the probe may take.
const probeTimeout = 30 * time.Second

// overlays reports whether the programs of a sandbox can have an overlay beside Dir.
func (s *Service) overlays(ctx context.Context) bool {
	s.overlay.mu.Lock()
	defer s.overlay.mu.Unlock()
	if s.overlay.probed {
		return s.overlay.works
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := sandbox.ProbeOverlay(ctx, filepath.Dir(s.Dir))
	if ctx.Err() != nil {
		return false // not known
	}
	s.overlay.probed, s.overlay.works = true, err == nil
	if err != nil && s.Log != nil {
		s.Log.Info("each trial copies its environment: there is no overlayfs for it", "error", err)
	}
	return s.overlay.works
}
