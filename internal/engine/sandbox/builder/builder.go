// Package builder makes root file systems of container images: of a Dockerfile and
// its build context, or of an image alone. The program buildah does it, in a user
// namespace and a mount namespace of its own: the RUN lines of a Dockerfile are
// untrusted programs, and they are root. Of the machine they see its programs, the
// build's own folder, and the network only if the operator wants that.
package builder

import (
	"encoding/json"
	"io"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// A Builder builds images. It is safe for concurrent use.
type Builder struct {
	// Program is the path of buildah; "" means the one in PATH.
	Program string
	// Dir is the parent of the builds' folders; "" means the system's temporary
	// folder. If the service runs as root, other users must be able to enter it.
	Dir string
	// Sandbox is the one of trials, in whose cgroups builds have limits of memory and
	// processors. It may be nil.
	Sandbox sandbox.Sandbox
	// NeedsNoUsers says that Program runs RUN lines with one user, too.
	NeedsNoUsers bool
}

// A Build describes an image.
type Build struct {
	// Dockerfile is its text, and Context the folder on the machine that it copies
	// from; "" for none.
	Dockerfile, Context string
	// Images are archives of images that the Dockerfile may begin with. If it needs
	// others, they are pulled, which Network must allow.
	Images []Image
	// Network lets RUN lines use the network of the machine.
	Network bool
	// Timeout limits the build, and Size the bytes that it may have on the disk.
	Timeout time.Duration
	Size    int64
}

// An Image is an archive of an image, e.g. one of `docker save`.
type Image struct {
	Reference string // e.g. "debian:12"
	Path      string // of a docker-archive, an OCI archive, or a tar of the files alone
}

// A Config is what an image says about its programs.
type Config struct {
	Env        []string // NAME=VALUE
	WorkingDir string
}

// A Receiver gets the image: its files are a tar.
type Receiver func(c Config, files io.Reader) error

// Failed is the error of a build that a Dockerfile caused. Its last lines are safe
// to show to who wrote it.
type Failed struct{ Reason, Output string }

func (f *Failed) Error() string { return f.Reason }

// parseConfig parses the output of `buildah inspect`.
func parseConfig(output []byte) (Config, error) {
	var about struct {
		OCIv1 struct {
			Config Config `json:"config"`
		}
	}
	err := json.Unmarshal(output, &about)
	return about.OCIv1.Config, err
}
