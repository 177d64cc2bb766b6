package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxSharedMemory is the size limit of /dev/shm.
const maxSharedMemory = 64 << 20

// isolationArgs put every program into namespaces of its own, without
// capabilities. The user namespace comes first: it is what lets bwrap create the
// PID, network, mount, IPC, UTS and cgroup namespaces without privilege.
// --disable-userns keeps programs from creating more of them, through which
// most holes in the kernel's isolation were reached.
var isolationArgs = []string{
	"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup",
	"--disable-userns", "--cap-drop", "ALL", "--hostname", "sandbox",
	"--new-session", "--die-with-parent", "--clearenv",
}

// arguments returns the arguments of bwrap for a valid spec. It reads the
// contents of etcFiles from the file descriptors beginning with fd. The order matters: bwrap
// performs its operations one after the other, and a later mount covers an earlier one.
func (b *bubblewrap) arguments(spec Spec, fd int) []string {
	args, system, user, dir, variables := slices.Clone(isolationArgs), systemArgs(fd), "1000", home, Environment()
	if spec.Root != nil {
		// Mount a Root in place of the machine's programs.
		system, user, dir = []string{"--bind", spec.Root.visible(), "/"}, "0", "/"
		for i, file := range etcFilesOf(spec.Root) {
			system = append(system, "--perms", "0444", "--ro-bind-data", fmt.Sprint(fd+i), file.path)
		}
		system = append(system, deviceArgs...)
		variables["HOME"] = "/root"
	}
	args = append(args, "--uid", user, "--gid", user)
	for _, variable := range spec.environment(variables) {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, system...)
	for _, dir := range scratchFolders(spec) { // tmpfs: memory with a size limit
		size := spec.Limits.scratch()
		if dir == sharedMemory {
			size = min(size, maxSharedMemory)
		}
		args = append(args, "--perms", "1777", "--size", fmt.Sprint(size), "--tmpfs", dir)
	}
	for _, m := range spec.Mounts {
		bind := "--ro-bind"
		if m.Writable {
			bind = "--bind"
		}
		args = append(args, bind, m.Source, m.Target)
	}
	if spec.Root == nil {
		args = append(args, "--remount-ro", "/") // it must be writable until all mount points exist
	}
	return append(args, "--chdir", cmp.Or(spec.Dir, dir))
}

// systemArgs mount the machine's programs read-only, without files that are
// specific to the host.
func systemArgs(fd int) []string {
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		// On merged-usr systems /bin is a link to usr/bin, which must stay one.
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
			continue
		}
		args = append(args, "--ro-bind-try", dir, dir)
	}
	args = append(args, "--perms", "0755", "--dir", "/etc")
	for _, name := range etcPaths {
		p := filepath.Join("/etc", name)
		args = append(args, "--ro-bind-try", p, p)
	}
	for i, file := range etcFiles {
		args = append(args, "--perms", "0444", "--ro-bind-data", fmt.Sprint(fd+i), file.path)
	}
	args = append(args, deviceArgs...)
	return append(args, "--dir", "/run", "--dir", "/var", "--symlink", "/run", "/var/run", "--symlink", "/tmp", "/var/tmp")
}

// deviceArgs mount what the kernel provides. /proc is read-only: a program could
// lower its oom_score_adj otherwise, so that the OOM killer picks another process
// first.
var deviceArgs = []string{"--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"}

const sharedMemory = "/dev/shm"

// scratchFolders are the folders that are a tmpfs, which vanishes with the
// sandbox, unless a mount replaces them. A Root has its own.
func scratchFolders(spec Spec) []string {
	all := []string{temporary, home, sharedMemory}
	if spec.Root != nil {
		all = []string{sharedMemory}
	}
	return slices.DeleteFunc(all, func(dir string) bool {
		return slices.ContainsFunc(spec.Mounts, func(m Mount) bool { return within(dir, m.Target) })
	})
}
