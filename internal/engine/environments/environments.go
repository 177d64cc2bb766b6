// Package environments provides the file systems in which tasks run: it builds them
// of Dockerfiles and images, once per content, keeps them below a size, and gives
// each trial one of its own that costs next to nothing. It owns no tables.
package environments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
)

// Service builds and keeps environments. It is safe for concurrent use.
type Service struct {
	Builder *builder.Builder
	// Dir has the environments, and belongs to one process. The user that programs
	// run as must be able to enter it. It can be deleted while the service is stopped.
	Dir string
	// Images is a folder with archives of images, or "": that of debian:12 is
	// debian_12.tar.
	Images string
	// Network lets builds use the network, e.g. to pull images.
	Network bool
	// MaxBytes is the size that the environments may have together.
	MaxBytes int64
	Log      *slog.Logger

	mu      sync.Mutex
	entries map[string]*entry // by digest
	archive archiveDigests
	overlay overlayProbe
	builder builderProbe
}

// builderProbe caches why nothing can be built, or why no RUN lines can, for probeEvery.
type builderProbe struct {
	mu           sync.Mutex
	at           time.Time
	reason, runs string
}

// An entry is the state of an environment in this process. The disk decides whether it exists.
type entry struct {
	users    int
	pending  chan struct{} // closed at the end of its build; nil if there is none
	failed   error         // of the last build
	failedAt time.Time
}

// Describe says for the operator how environments are made on this machine. The
// error is an Unavailable if they are not.
func (s *Service) Describe(ctx context.Context) (string, error) {
	version, err := s.Builder.Version(ctx)
	if err != nil {
		return "", err
	}
	trial := "a copy of its image, since the kernel has no overlayfs for it"
	if s.overlays(ctx) {
		trial = "an overlay on its image"
	}
	runs := ""
	if _, without := s.noBuilder(ctx); without != "" {
		runs = "; only Dockerfiles without RUN lines are built: " + without
	}
	network := "no network"
	if s.Network {
		network = "the machine's network"
	}
	archives, err := filepath.Glob(filepath.Join(s.Images, "*.tar*"))
	if err != nil || s.Images == "" {
		archives = nil // the folder's name is no pattern
	}
	return fmt.Sprintf("buildah %s: builds have %s, each trial gets %s; base images in --environments-images: %d%s",
		version, network, trial, len(archives), runs), nil
}

// A Recipe says what an environment is made of.
type Recipe struct {
	Dockerfile string
	Context    string        // the folder that it copies from, or ""
	Images     []string      // those that it begins with or copies from, e.g. "debian:12"
	Timeout    time.Duration // of the build; 0 means the default
}

// OfImage is the recipe of an image alone.
func OfImage(image string) Recipe {
	return Recipe{Dockerfile: "FROM " + image + "\n", Images: []string{image}}
}

// Limits of environments. The time of a build is what Harbor gives where a task does
// not say.
const (
	defaultTimeout = 10 * time.Minute
	maxTimeout     = 30 * time.Minute
	// maxSize bounds one environment, and buildFactor how much of the disk its build
	// may take beside it: layers are there twice.
	maxSize     = 20 << 30
	buildFactor = 3
	// retryAfter is the TTL of the negative cache entry of a failed build. Without one,
	// each trial of a run would repeat the build.
	retryAfter = 10 * time.Minute
	// maxAge is how long an environment is kept that is not used.
	maxAge = 30 * 24 * time.Hour
)

// Missing returns why an environment cannot be provided here, or "". It only looks at what is
// installed and configured, so that a run can be refused before it starts; nothing is built.
func (s *Service) Missing(ctx context.Context, r Recipe) (reason string) {
	reason, runs := s.noBuilder(ctx)
	if reason == "" && runLine.MatchString(r.Dockerfile) {
		reason = runs
	}
	if reason != "" {
		return reason
	}
	for _, image := range r.Images {
		if s.findArchive(image) == "" && !s.Network {
			return fmt.Sprintf("there is no image %s here; put its archive into --environments-images as %s, "+
				"or set --environments-network", image, archiveNames(image)[0])
		}
	}
	return ""
}

// probeEvery is how often the service looks whether buildah is installed. Each trial
// would start it otherwise.
const probeEvery = time.Minute

// runLine finds the RUN lines of a Dockerfile.
var runLine = regexp.MustCompile(`(?mi)^\s*(ONBUILD\s+)?RUN\s`)

// noBuilder returns why nothing can be built here, and why no RUN lines, or "".
func (s *Service) noBuilder(ctx context.Context) (reason, runs string) {
	p := &s.builder
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < probeEvery {
		return p.reason, p.runs
	}
	p.reason, p.runs = "", ""
	if _, err := s.Builder.Version(ctx); err != nil {
		p.reason = reasonOf(err)
	}
	if _, err := s.Builder.Users(ctx); err != nil && !s.Builder.NeedsNoUsers {
		p.runs = reasonOf(err)
	}
	// A cancelled probe says nothing about the machine.
	if ctx.Err() == nil {
		p.at = time.Now()
	}
	return p.reason, p.runs
}

func reasonOf(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return err.Error()
}

// Get returns an environment, and builds it unless it is there. Callers that want
// the same one wait for one build. The error is a *builder.Failed if the recipe is
// to blame, and an Unavailable if the machine is.
func (s *Service) Get(ctx context.Context, r Recipe) (_ *Environment, err error) {
	defer fault.Wrap(&err, "environment")
	images := s.archives(r.Images)
	digest, err := s.digest(r, images)
	if err != nil {
		return nil, err
	}
	// A folder that another user has made, e.g. below a shared /tmp, is refused: they
	// could put any content into it.
	if err := os.Mkdir(s.Dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if !isOwn(s.Dir) {
		return nil, fault.New(fault.Unavailable, "the folder %s belongs to another user; remove it, or set --sandbox-scratch", s.Dir)
	}
	// After a wait the loop starts again: the build may have failed, and then this caller gets its
	// error from open, or builds.
	for {
		found, pending, err := s.open(digest)
		if err != nil || found != nil {
			return found, err
		}
		if pending == nil {
			return s.make(ctx, r, digest, images)
		}
		select {
		case <-pending:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open returns an environment that is there, or what to wait for while another
// caller builds it. If it returns neither, this caller has to build it.
func (s *Service) open(digest string) (*Environment, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries = map[string]*entry{}
	}
	e := s.entries[digest]
	if e == nil {
		e = &entry{}
		s.entries[digest] = e
	}
	if e.pending != nil {
		return nil, e.pending, nil
	}
	found, err := s.load(digest, e)
	switch {
	case err == nil:
		return found, nil, nil
	case !isMissing(err):
		return nil, nil, err
	case e.failed != nil && time.Since(e.failedAt) < retryAfter:
		return nil, nil, e.failed
	}
	e.pending = make(chan struct{})
	return nil, nil, nil
}

// make builds an environment that open has registered as pending.
func (s *Service) make(ctx context.Context, r Recipe, digest string, images []builder.Image) (*Environment, error) {
	err := s.build(ctx, r, digest, images)
	// The new environment must not be the one that makes room for itself.
	if err == nil {
		err = s.Sweep(digest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[digest]
	close(e.pending)
	e.pending, e.failed = nil, nil
	// Only a recipe that is to blame is cached as failed. A full disk or a cancelled build may work
	// next time.
	if _, ok := errors.AsType[*builder.Failed](err); ok {
		e.failed, e.failedAt = err, time.Now()
	}
	if err != nil {
		return nil, err
	}
	return s.load(digest, e)
}
