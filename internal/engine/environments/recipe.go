package environments

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
)

// version is part of every digest: a change of how environments are made changes it.
const version = "whetstone-environment-1"

// digest is the cache key of an environment: the Dockerfile, the files of its context, the archives
// of its base images, and whether its build had a network. An image that is pulled counts by its
// name in the Dockerfile only, so a moved tag is not noticed until the environment is evicted.
func (s *Service) digest(r Recipe, images []builder.Image) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%t\x00%q\x00", version, s.Network, r.Dockerfile)
	for _, image := range images {
		archive, err := s.archive.of(image.Path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "image %q %s\x00", image.Reference, archive)
	}
	if r.Context != "" {
		if err := addContext(sum, r.Context); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// addContext adds the paths, modes and contents of the files of a build context. Modification times
// are left out: unpacking sets new ones.
func addContext(sum hash.Hash, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %o %d\x00", p, info.Mode(), info.Size())
		if !d.Type().IsRegular() {
			return nil // unpacked archives have files and folders only
		}
		f, err := root.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
}

// archiveDigests caches the digests of image archives by size and modification time, since an
// archive may have gigabytes. The mutex is held while one is hashed, so that several trials don't
// hash the same archive at once.
type archiveDigests struct {
	mu  sync.Mutex
	all map[string]archiveDigest
}

type archiveDigest struct {
	size   int64
	at     time.Time
	digest string
}

func (a *archiveDigests) of(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.all[path]; ok && known.size == info.Size() && known.at.Equal(info.ModTime()) {
		return known.digest, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	if a.all == nil {
		a.all = map[string]archiveDigest{}
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	a.all[path] = archiveDigest{info.Size(), info.ModTime(), digest}
	return digest, nil
}

// archives returns those of the images that are here. The others are pulled.
func (s *Service) archives(images []string) (all []builder.Image) {
	for _, image := range images {
		if archive := s.findArchive(image); archive != "" {
			all = append(all, builder.Image{Reference: image, Path: archive})
		}
	}
	return all
}

// findArchive returns the path of the archive of an image, or "".
func (s *Service) findArchive(image string) string {
	if s.Images == "" {
		return ""
	}
	for _, name := range archiveNames(image) {
		path := filepath.Join(s.Images, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// archiveNames are the names that the archive of an image may have, e.g.
// "python_3.12-slim.tar" for "docker.io/library/python:3.12-slim".
func archiveNames(image string) []string {
	image = strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "library/")
	image, _, _ = strings.Cut(image, "@") // the digest, which cannot be checked in all archives
	name := strings.NewReplacer("/", "_", ":", "_").Replace(image)
	return []string{name + ".tar", name + ".tar.gz"}
}
