package builder

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/seccomp"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// userCount is how many users an image may have at most.
const userCount = 1 << 16

// The paths in the namespace of a build.
const (
	insideBuild   = "/build"
	insideContext = "/context"
	insideImages  = "/images"
	buildah       = "/run/buildah"
)

// script builds an image. Its stdout is the description of the image on one line,
// followed by a tar of the files. The overlay driver is tried first; vfs copies every layer in
// full, but works everywhere.
const script = `set -e
mkdir -p /etc/containers "$TMPDIR"
echo root:x:0:0:root:/build:/bin/sh >/etc/passwd
echo root:x:0: >/etc/group
echo '{"default":[{"type":"insecureAcceptAnything"}]}' >/etc/containers/policy.json
echo 'unqualified-search-registries = ["docker.io"]' >/etc/containers/registries.conf
b() {
	"$0" --root /build/storage --runroot /build/run \
		--storage-driver "$DRIVER" --storage-opt "$DRIVER.ignore_chown_errors=$ONE_USER" "$@"
}
DRIVER=overlay
b images >/dev/null 2>&1 || { DRIVER=vfs; rm -rf /build/storage /build/run; }
for image; do
	reference=${image%%=*} archive=${image#*=}
	if id=$(b pull -q "docker-archive:$archive" 2>/dev/null || b pull -q "oci-archive:$archive" 2>/dev/null); then
		b tag "$id" "$reference" >&2
	else
		printf 'FROM scratch\nADD %s /\n' "${archive##*/}" >/build/import
		b bud -q --isolation chroot -f /build/import -t "$reference" /images >&2
	fi
done
cp /build/Dockerfile /build/final
b bud --isolation chroot $PULL --network host -f /build/final -t localhost/environment:latest /context >&2
container=$(b from --pull-never localhost/environment:latest)
root=$(b mount "$container")
b inspect --type image localhost/environment:latest | tr -d '\n'
echo
exec tar -C "$root" -cf - .`

// Run builds an image and hands it over. The error is a *Failed if the Dockerfile
// caused it, and an Unavailable if there is no buildah or no sandbox for it.
func (b *Builder) Run(ctx context.Context, build Build, receive Receiver) (err error) {
	defer fault.Wrap(&err, "build image")
	program, err := b.find()
	if err != nil {
		return err
	}
	// Its error says why there are no more; the script then ignores chown errors.
	users, _ := b.Users(ctx) // one user will do for some
	dir, err := b.makeDir(build)
	if dir != "" {
		defer func() { err = errors.Join(err, b.Remove(dir)) }()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(build.Timeout, func() {
		cancel(&Failed{Reason: fmt.Sprintf("the build took longer than %s", build.Timeout)})
	})
	defer timeout.Stop()
	output := &sandbox.Tail{Limit: maxOutput}
	stdout, written, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close()
	// A build is killed when its parent dies, which is the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	filter, err := filterFile()
	if err != nil {
		return errors.Join(err, written.Close())
	}
	defer filter.Close()
	limits, release := buildLimits(), func() {}
	defer func() { release() }()
	cmd, err := start(ctx, users, process{
		argv: append([]string{"bwrap"}, arguments(program, dir, users, build)...), stdout: written, stderr: output,
		files: []*os.File{filter},
		confine: func(pid int) (err error) {
			release, err = sandbox.Confine(b.Sandbox, pid, limits)
			return err
		},
	})
	if err = errors.Join(err, written.Close()); err != nil {
		return fault.New(fault.Unavailable, "images cannot be built here: %s", text.OneLine(err.Error())).Because(err)
	}
	// The programs of a RUN line are the first to go when memory runs out.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("1000"), 0o600)
	var watching sync.WaitGroup
	watching.Go(func() { watchDisk(ctx, dir, build.Size, cancel) })
	// A receiver that failed has ended the build; without an image the exit status says more.
	if err := deliver(stdout, receive); err != nil && !errors.Is(err, errNoImage) {
		cancel(err)
	}
	ended := cmd.Wait()
	cause := context.Cause(ctx)
	cancel(nil)
	watching.Wait()
	if failed, ok := errors.AsType[*Failed](cause); ok {
		return failed.with(output)
	}
	if cause != nil {
		return cause
	}
	// A status is the Dockerfile's fault, as far as one can know.
	if exit, ok := errors.AsType[*exec.ExitError](ended); ok {
		failed := &Failed{Reason: fmt.Sprintf("the build ended with status %d", exit.ExitCode())}
		if !exit.Exited() {
			failed.Reason = fmt.Sprintf("the build was killed; it may take %d MiB of memory", limits.Memory>>20)
		}
		return failed.with(output)
	}
	return ended
}

// buildLimits are those of a cgroup. What else they limit has limits of its own.
func buildLimits() sandbox.Limits {
	memory := int64(maxMemory)
	if most := sandbox.MachineMemory() / 4 * 3; most > 0 {
		memory = min(memory, most)
	}
	return sandbox.Limits{Memory: memory, Processes: maxProcesses, CPUs: max(1, float64(runtime.NumCPU())-1)}
}

// maxMemory and maxProcesses are the most that a build may have at a time.
const (
	maxMemory    = 8 << 30
	maxProcesses = 4096
)

// with adds the last lines of the output.
func (f *Failed) with(output *sandbox.Tail) *Failed {
	return &Failed{f.Reason, strings.ToValidUTF8(string(bytes.TrimSpace(output.Output().Tail)), "?")}
}

// errNoImage means that the script has ended before there was an image.
var errNoImage = errors.New("no image came out of the build")

// deliver reads what the script writes.
func deliver(stdout io.Reader, receive Receiver) error {
	in := bufio.NewReaderSize(stdout, 64<<10)
	about, err := in.ReadBytes('\n')
	if err != nil {
		return errNoImage
	}
	config, err := parseConfig(about)
	if err != nil {
		return err
	}
	if err := receive(config, in); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in) // what follows the end of the tar
	return err
}

// find returns the path of buildah.
func (b *Builder) find() (string, error) {
	program, err := exec.LookPath(cmp.Or(b.Program, "buildah"))
	if err != nil {
		return "", fault.New(fault.Unavailable,
			"there is no buildah on this machine, which builds images; install it: apt-get install buildah").Because(err)
	}
	return program, nil
}

// Version returns that of buildah. The error is an Unavailable.
func (b *Builder) Version(ctx context.Context) (_ string, err error) {
	program, err := b.find()
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		return "", fault.New(fault.Unavailable, "images are built in bubblewrap; install it: apt-get install bubblewrap").Because(err)
	}
	home, err := os.MkdirTemp("", dirPrefix) // without one it does not run, and it leaves folders there
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	variables := []string{"HOME=" + home, "TMPDIR=" + home, "XDG_RUNTIME_DIR=" + home}
	output, err := spawn.Command(ctx, variables, program, "--version").Output()
	if err != nil {
		return "", fault.New(fault.Unavailable, "%s does not run", program).Because(err)
	}
	words := strings.Fields(string(output)) // e.g. "buildah version 1.28.2 (...)"
	if len(words) < 3 {
		return "", fault.New(fault.Unavailable, "%s does not tell its version", program)
	}
	return words[2], nil
}

// dirPrefix begins the names of builds' folders.
const dirPrefix = "whetstone-build-"

// makeDir creates the folder of a build, which the user of the build owns. The
// caller removes it, also if it comes with an error.
func (b *Builder) makeDir(build Build) (dir string, err error) {
	base := b.Dir
	if base == "" {
		base = os.TempDir()
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp(base, dirPrefix); err != nil {
		return "", err
	}
	err = os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(build.Dockerfile), 0o644) // the build reads it
	return dir, errors.Join(err, os.Chown(dir, sandbox.RootUser(), sandbox.RootUser()))
}

// namespaces are the attributes of a process that is root in a user namespace, in
// which the users of an image have an id each where the service may give them.
func namespaces() *syscall.SysProcAttr {
	users := []syscall.SysProcIDMap{{ContainerID: 0, HostID: sandbox.RootUser(), Size: 1}}
	if os.Geteuid() == 0 {
		users[0].Size = userCount
	}
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: users, GidMappings: users,
		GidMappingsEnableSetgroups: os.Geteuid() == 0,
		Credential:                 &syscall.Credential{NoSetGroups: os.Geteuid() != 0}, Pdeathsig: syscall.SIGKILL,
	}
}

// filterFD is where bwrap reads the seccomp filter: the first of process.files.
const filterFD = 4

// filterFile returns the seccomp filter of a build as bwrap reads it. It is smaller
// than the buffer of a pipe.
func filterFile() (*os.File, error) {
	filter, written, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = written.Write(seccomp.BuildFilter())
	if err = errors.Join(err, written.Close()); err != nil {
		return nil, errors.Join(err, filter.Close())
	}
	return filter, nil
}

// arguments are those of bwrap. The user namespace exists already: buildah needs the
// capabilities that it has in it.
func arguments(program, dir string, users Users, build Build) []string {
	args := []string{
		"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--die-with-parent", "--new-session",
		"--cap-add", "ALL", "--clearenv",
		"--setenv", "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--setenv", "LANG", "C.UTF-8",
		"--setenv", "HOME", insideBuild, "--setenv", "TMPDIR", insideBuild + "/tmp",
		// It is in its user namespace, and must not look for another.
		"--setenv", "_CONTAINERS_USERNS_CONFIGURED", "done", "--setenv", "BUILDAH_ISOLATION", "chroot",
		"--ro-bind", "/usr", "/usr",
	}
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64"} {
		if target, err := os.Readlink(name); err == nil {
			args = append(args, "--symlink", target, name)
		} else {
			args = append(args, "--ro-bind-try", name, name)
		}
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/etc", "--dir", "/sys", "--dir", "/run",
		"--dir", "/var/tmp", "--bind", dir, insideBuild, "--ro-bind", program, buildah, "--dir", insideContext,
		"--dir", insideImages)
	if len(seccomp.BuildFilter()) > 0 {
		args = append(args, "--seccomp", fmt.Sprint(filterFD))
	}
	if build.Context != "" {
		args = append(args, "--ro-bind", build.Context, insideContext)
	}
	// With one user, files of others in the image become the user's own, instead of an error.
	oneUser, pull := "true", "--pull-never"
	if users != OneUser {
		oneUser = "false"
	}
	if build.Network {
		pull = "--pull"
		for _, name := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/ssl", "/etc/ca-certificates", "/etc/pki"} {
			args = append(args, "--ro-bind-try", name, name)
		}
	} else {
		args = append(args, "--unshare-net")
	}
	var images []string
	for i, image := range build.Images {
		inside := fmt.Sprintf("%s/%d%s", insideImages, i, filepath.Ext(image.Path))
		args = append(args, "--ro-bind", image.Path, inside)
		images = append(images, image.Reference+"="+inside)
	}
	args = append(args, "--setenv", "ONE_USER", oneUser, "--setenv", "PULL", pull, "--chdir", insideBuild,
		"/bin/sh", "-c", script, buildah)
	return append(args, images...)
}

// watchDisk ends a build that takes more of the disk than it may.
func watchDisk(ctx context.Context, dir string, size int64, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if sandbox.LargerThan(dir, size) {
			cancel(&Failed{Reason: fmt.Sprintf("the build takes more than %d MiB of the disk", size>>20)})
			return
		}
	}
}

// maxOutput is how much of the output of a build is kept.
const maxOutput = 4 << 10
