package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shared is how large /dev/shm is.
const shared = 64 << 20

// isolation is what every program gets. Its user namespace comes first: it is
// what lets the others be made without privilege.
var isolation = []string{
	"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup",
	"--disable-userns", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox",
	"--new-session", "--die-with-parent", "--clearenv",
}

// etc is what programs need of the system's settings. The rest may be secret.
var etc = []string{
	"alternatives", "ca-certificates.conf", "fonts", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic",
	"mime.types", "perl", "pki/ca-trust/extracted", "profile.d", "python3", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// written are the settings that are the same on every machine.
var written = []struct{ path, content string }{
	{"/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nsandbox:x:1000:1000:sandbox:" + home + ":/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"/etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
	{"/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
	{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
}

// arguments returns what bwrap is told, for a spec that was checked. The
// contents of written are read from the descriptors beginning with fd.
func (b *bubblewrap) arguments(spec Spec, fd int) []string {
	args := slices.Clone(isolation)
	for _, variable := range spec.environment(Environment()) {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	args = append(args, b.system(fd)...)
	args = append(args, scratch(spec)...)
	for _, m := range spec.Mounts {
		how := "--ro-bind"
		if m.Writable {
			how = "--bind"
		}
		args = append(args, how, m.Source, m.Target)
	}
	dir := spec.Dir
	if dir == "" {
		dir = home
	}
	// All mount points are made by now.
	return append(args, "--remount-ro", "/", "--chdir", dir)
}

// system shows the programs of the machine, and nothing that is hers alone.
func (b *bubblewrap) system(fd int) []string {
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
			continue
		}
		args = append(args, "--ro-bind-try", dir, dir)
	}
	args = append(args, "--perms", "0755", "--dir", "/etc")
	for _, name := range etc {
		p := filepath.Join("/etc", name)
		args = append(args, "--ro-bind-try", p, p)
	}
	for i, file := range written {
		args = append(args, "--perms", "0444", "--ro-bind-data", fmt.Sprint(fd+i), file.path)
	}
	for _, dir := range b.readOnly {
		args = append(args, "--ro-bind-try", dir, dir)
	}
	return append(
		// A program could change its own place among those that the kernel ends
		// when memory runs out by writing to /proc.
		args, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
		"--dir", "/run", "--dir", "/var", "--symlink", "/run", "/var/run", "--symlink", "/tmp", "/var/tmp",
	)
}

// scratch makes the folders that vanish with the sandbox. They are memory, and
// bounded.
func scratch(spec Spec) []string {
	var args []string
	for _, dir := range scratchFolders(spec) {
		size := spec.Limits.scratch()
		if dir == sharedMemory {
			size = min(size, shared)
		}
		args = append(args, "--perms", "1777", "--size", fmt.Sprint(size), "--tmpfs", dir)
	}
	return args
}

const sharedMemory = "/dev/shm"

// scratchFolders are those that no mount takes the place of.
func scratchFolders(spec Spec) []string {
	return slices.DeleteFunc([]string{temporary, home, sharedMemory}, func(dir string) bool {
		return slices.ContainsFunc(spec.Mounts, func(m Mount) bool { return within(dir, m.Target) })
	})
}
