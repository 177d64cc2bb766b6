package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// docker runs programs in containers, with the command line of Docker or a
// compatible engine.
type docker struct{ program, image string }

func (d *docker) Binds() bool { return true }

// engineVariables are what the client of the engine reads of the service's environment:
// where its settings and the engine are. Containers do not get them.
var engineVariables = []string{
	"HOME", "PATH", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"DOCKER_API_VERSION", "DOCKER_CERT_PATH", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "DOCKER_TLS", "DOCKER_TLS_VERIFY",
	"CONTAINER_CONNECTION", "CONTAINER_HOST", "CONTAINER_SSHKEY", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF",
	"SSH_AUTH_SOCK",
}

// engineFailed is the exit status of docker run if it started no container.
const engineFailed = 125

// Run uses a random name, by which it can kill the container: the client may be gone while the
// container runs on.
func (d *docker) Run(ctx context.Context, spec Spec) (_ Result, err error) {
	defer fault.Wrap(&err, "container")
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if err := spec.check(true); err != nil {
		return Result{}, err
	}
	if spec.Root != nil {
		return Result{}, errNoRoot()
	}
	program, err := d.find()
	if err != nil {
		return Result{}, err
	}
	spec.Limits = spec.Limits.WithDefaults()
	name := "whetstone-" + uuid.NewString()
	user := os.Geteuid()
	if user <= 0 {
		user = firstUser
		if err := chownMounts(spec.Mounts, user); err != nil {
			return Result{}, err
		}
	}
	began := time.Now()
	// runCommand ends the container, not its client, when ctx ends.
	cmd := spawn.Command(context.WithoutCancel(ctx), spawn.Inherited(engineVariables...), program,
		d.arguments(spec, name, user)...)
	result, err := runCommand(ctx, cmd, spec, stopper{
		terminate: func() { _ = command(program, "kill", "--signal", "TERM", name).Run() }, // it may have ended
		kill:      func() { _ = command(program, "rm", "--force", name).Run() },
	})
	if err != nil || result.Exceeded != "" {
		return result, err
	}
	switch result.ExitCode {
	case engineFailed:
		// A program can end with this status, too, once it was started.
		if !hadEvent(program, name, "start", began) {
			return Result{}, fault.New(fault.Unavailable,
				"docker did not start the sandbox: %s", bytes.TrimSpace(result.Stderr.Tail))
		}
	// 128+9 is also the status of a program that killed itself, hence the question.
	case 128 + int(syscall.SIGKILL):
		if hadEvent(program, name, "oom", began) {
			result.Exceeded = MemoryLimit
		}
	}
	return result, nil
}

// hadEvent reports whether the engine has logged an event of a container, e.g.
// "oom".
func hadEvent(program, name, event string, since time.Time) bool {
	output, err := command(program, "events",
		"--since", fmt.Sprint(since.Unix()-1), "--until", fmt.Sprint(time.Now().Unix()+1),
		"--filter", "container="+name, "--filter", "event="+event, "--format", "{{.Status}}").Output()
	return err == nil && strings.Contains(string(output), event)
}

func (d *docker) find() (string, error) {
	name := d.program
	if name == "" {
		name = "docker"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fault.New(fault.Unavailable,
			"there is no docker on this machine; install it, or bubblewrap and set --sandbox bubblewrap").Because(err)
	}
	return path, nil
}

// command is a call of the engine, limited to stopTimeout.
func command(program string, args ...string) *exec.Cmd {
	// It cleans up after a context that has ended.
	cmd := spawn.Command(context.Background(), spawn.Inherited(engineVariables...), program, args...)
	cmd.WaitDelay = stopTimeout
	return cmd
}

// arguments returns the arguments of docker run.
func (d *docker) arguments(spec Spec, name string, user int) []string {
	l := spec.Limits
	args := []string{
		// --pull never: an eval must not fetch code. --init reaps zombies and forwards SIGTERM.
		// --log-driver none: the output isn't stored a second time.
		"run", "--rm", "--interactive", "--name", name, "--pull", "never",
		"--network", "none", "--read-only", "--user", fmt.Sprintf("%[1]d:%[1]d", user), "--hostname", "sandbox",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--ipc", "private", "--init", "--log-driver", "none",
		"--memory", fmt.Sprint(l.Memory), "--memory-swap", fmt.Sprint(l.Memory), "--pids-limit", fmt.Sprint(l.Processes),
		"--ulimit", fmt.Sprintf("fsize=%d", l.FileSize), "--ulimit", fmt.Sprintf("cpu=%d", int(l.CPU.Seconds())+1),
		"--ulimit", "core=0", "--ulimit", "nofile=1024",
	}
	if l.CPUs > 0 {
		args = append(args, "--cpus", fmt.Sprintf("%.2f", max(l.CPUs, 0.01)))
	}
	for _, dir := range []string{temporary, home} {
		// The engine has no disk limit for binds, so the service checks these; the scratch folders
		// are a tmpfs with one.
		if !slices.ContainsFunc(spec.Mounts, func(m Mount) bool { return within(dir, m.Target) }) {
			args = append(args, "--tmpfs", fmt.Sprintf(
				"%s:rw,exec,nosuid,nodev,mode=1777,size=%d,nr_inodes=%d", dir, l.scratch(), l.Files))
		}
	}
	for _, m := range spec.Mounts {
		mount := fmt.Sprintf(`type=bind,"source=%s","target=%s"`, m.Source, m.Target)
		if !m.Writable {
			mount += ",readonly"
		}
		args = append(args, "--mount", mount)
	}
	for _, variable := range spec.environment(Environment()) {
		args = append(args, "--env", variable)
	}
	dir := spec.Dir
	if dir == "" {
		dir = home
	}
	args = append(args, "--workdir", dir, d.image)
	return append(args, spec.Argv...)
}

// Check asks the engine for its version and runs a container.
func (d *docker) Check(ctx context.Context) (Report, error) {
	program, err := d.find()
	if err != nil {
		return Report{}, err
	}
	version, err := spawn.Command(ctx, spawn.Inherited(engineVariables...), program, "version", "--format",
		"{{.Server.Version}}").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		return Report{}, fault.New(fault.Unavailable, "the docker engine does not answer: %s", err)
	}
	report := Report{
		Driver: Docker, Version: strings.TrimSpace(string(version)),
		InForce: []string{
			"no network", "read-only system",
			"limits on memory, processes, disk, and the processor time of each process",
		},
	}
	_, err = d.Run(ctx, Spec{Argv: []string{"true"}})
	return report, err
}
