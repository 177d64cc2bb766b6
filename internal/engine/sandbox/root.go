package sandbox

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Root is the file system of a program, e.g. that of a container image, which must
// have /bin/sh. Inside, the program is root, without capabilities, and owns all files.
// Only the driver bubblewrap can provide it.
type Root struct {
	// Dir has the files. They belong to RootUser, who must be able to reach it.
	Dir string
	// Changes is an empty folder for what programs change (copy-on-write by
	// overlayfs), or one that earlier programs with this root have used. If it is
	// "", they change Dir.
	Changes string
}

// RootUser is the user who owns the files of a Root, and who programs run as in it.
// It is one for all, or a chown would copy each file of an overlay. If the service
// does not run as root, it is the service's own user.
func RootUser() int {
	if uid := os.Geteuid(); uid != 0 {
		return uid
	}
	return firstUser + userCount
}

// The parts of Root.Changes.
const (
	lowerLink = "lower" // to Root.Dir
	upperDir  = "upper"
	workDir   = "work"
	mergedDir = "merged"
)

// visible is the folder that a program sees as "/".
func (r *Root) visible() string {
	if r.Changes == "" {
		return r.Dir
	}
	return filepath.Join(r.Changes, mergedDir)
}

// Written is the folder on the machine in which the changes of programs are, and in
// which files can be changed for the next one.
func (r *Root) Written() string {
	if r.Changes == "" {
		return r.Dir
	}
	return filepath.Join(r.Changes, upperDir)
}

// written are the mounts that programs can write to, and what they change of the root.
func (s Spec) written() []Mount {
	if s.Root == nil {
		return s.Mounts
	}
	return append(slices.Clone(s.Mounts), Mount{Source: s.Root.Written(), Target: "/", Writable: true})
}

func errNoRoot() error {
	return fault.New(fault.Unavailable, "this sandbox cannot run programs in an image; set --sandbox bubblewrap")
}
