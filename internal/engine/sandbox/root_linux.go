package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// mountOverlay is the part of a shell script that mounts the overlay of a Root in
// the mount namespace of the process, which vanishes with it. The working folder is
// Root.Changes.
const mountOverlay = "mount -t overlay overlay -o lowerdir=" + lowerLink + ",upperdir=" + upperDir + ",workdir=" + workDir +
	",userxattr " + mergedDir + " || exit 1; "

// prepare makes the folders of the overlay, and frees the mount points.
func (r *Root) prepare(mounts []Mount) error {
	if r.Changes != "" {
		for _, name := range []string{".", upperDir, workDir, mergedDir} {
			dir := filepath.Join(r.Changes, name)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := os.Lchown(dir, RootUser(), RootUser()); err != nil {
				return err
			}
		}
		// A path in an option of mount may not have commas and colons.
		if err := os.Symlink(r.Dir, filepath.Join(r.Changes, lowerLink)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := eachObstacle(r.Dir, mounts, refuse); err != nil {
			return err
		}
	}
	// An earlier program may have put it there.
	if err := eachObstacle(r.Written(), mounts, (*os.Root).RemoveAll); err != nil || os.Geteuid() != 0 {
		return err
	}
	// What a caller has written there since belongs to the service.
	return chown(r.Written(), RootUser())
}

// refuse is for an image that has a link or a file in the way of a mount: bwrap would
// follow the link out of the root.
func refuse(_ *os.Root, name string) error {
	return fault.Invalid("mounts", "the image has a link or a file at /%s, where a folder of the task belongs", name)
}

// eachObstacle calls handle for what is on the way to a mount point and cannot be:
// a link, or a file in place of a folder.
func eachObstacle(dir string, mounts []Mount, handle func(root *os.Root, name string) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, m := range mounts {
		source, err := os.Stat(m.Source)
		if err != nil {
			return err
		}
		// Without its leading slash, so that it's a path below the root.
		name, last := "", strings.Count(m.Target, "/")-1
		for i, part := range strings.Split(m.Target[1:], "/") {
			name = path.Join(name, part)
			info, err := root.Lstat(name)
			if err != nil {
				break // bwrap makes it
			}
			if wantDir := i < last || source.IsDir(); wantDir == info.IsDir() && info.Mode().Type() != fs.ModeSymlink {
				continue
			}
			if err := handle(root, name); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// namespaced are the attributes of a process that may mount an overlay: it is root
// in a user namespace with a mount namespace of its own.
func namespaced() *syscall.SysProcAttr {
	owner := []syscall.SysProcIDMap{{ContainerID: 0, HostID: RootUser(), Size: 1}}
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: owner, GidMappings: owner,
		Credential: &syscall.Credential{NoSetGroups: true}, Pdeathsig: syscall.SIGKILL,
	}
}

// ProbeOverlay returns nil if the programs of a sandbox can have a Root with
// Changes in a folder.
func ProbeOverlay(ctx context.Context, dir string) (err error) {
	probe, err := os.MkdirTemp(dir, "part-overlay-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Remove(probe)) }()
	root := Root{Dir: filepath.Join(probe, "empty"), Changes: probe}
	if err := errors.Join(os.Mkdir(root.Dir, 0o755), root.prepare(nil)); err != nil { // the other user reads it
		return err
	}
	cmd := spawn.Command(ctx, nil, shell, "-c", mountOverlay)
	cmd.Dir, cmd.SysProcAttr = probe, namespaced()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}
