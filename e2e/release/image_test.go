package release_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An image is what a container engine reads of one.
type image struct {
	root   string // its files
	config struct {
		User            string
		Env             []string
		Entrypoint, Cmd []string
		Volumes         map[string]struct{}
		ExposedPorts    map[string]struct{}
		Healthcheck     *struct{ Test []string }
	}
}

// buildImage builds a target of deploy/Dockerfile with buildah.
func buildImage(t *testing.T, storage, target string) image {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/image"), target, storage, "v1.2.3")
	cmd.Stderr = os.Stderr
	name, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	buildah := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(must(t, "buildah", append([]string{
			"--root", storage + "/root", "--runroot", storage + "/run", "--storage-driver", "vfs",
		}, args...)...))
	}
	var im image
	var described struct {
		Docker struct{ Config json.RawMessage }
	}
	if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", strings.TrimSpace(string(name)))), &described); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(described.Docker.Config, &im.config); err != nil {
		t.Fatal(err)
	}
	container := buildah("from", "--pull-never", strings.TrimSpace(string(name)))
	im.root = buildah("mount", container)
	t.Cleanup(func() {
		// The test's context is over.
		if out, err := exec.Command("buildah", "--root", storage+"/root", "--runroot", storage+"/run", "--storage-driver", "vfs",
			"rm", container).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return im
}

// TestImage builds the images of deploy/Dockerfile, from base images that are made
// here, and starts them as a container engine does that was told `--read-only
// --tmpfs /tmp`: their files, their user, their environment and their command.
func TestImage(t *testing.T) {
	if os.Getenv("WHETSTONE_IMAGE_CHECK") == "" {
		t.Skip("it builds images with buildah; run `make image-check`")
	}
	// Not t.TempDir, which only its owner can enter.
	storage, err := os.MkdirTemp("", "whetstone-storage")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(storage) })
	if err := os.Chmod(storage, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"service", "worker"} {
		t.Run(target, func(t *testing.T) { wantImage(t, buildImage(t, storage, target), target) })
	}
}

func wantImage(t *testing.T, im image, target string) {
	t.Helper()
	c := im.config
	if c.User != "65532:65532" || c.Healthcheck == nil || len(c.Entrypoint) != 1 {
		t.Fatalf("the image has %+v", c)
	}
	if _, ok := c.Volumes["/data"]; !ok {
		t.Errorf("the volumes are %v", c.Volumes)
	}
	_, err := os.Lstat(filepath.Join(im.root, "bin/sh"))
	if _, bwrap := os.Lstat(filepath.Join(im.root, "usr/bin/bwrap")); (target == "worker") != (err == nil) || (target == "worker") != (bwrap == nil) {
		t.Errorf("a shell: %v; bubblewrap: %v", err, bwrap)
	}
	// A new volume has the owner and the mode of the image's folder.
	data := t.TempDir()
	must(t, "cp", "-a", im.root+"/data/.", data)
	must(t, "chmod", "--reference", im.root+"/data", data)
	must(t, "chown", "--reference", im.root+"/data", data)
	// t.TempDir lies in a folder that only its owner can enter, but it is mounted.

	env := slices.DeleteFunc(slices.Clone(c.Env), func(pair string) bool { return strings.HasPrefix(pair, "WHETSTONE_ADDR=") })
	env = append(env, "WHETSTONE_ADDR=127.0.0.1:0", "WHETSTONE_BOOTSTRAP_KEY="+firstKey)
	service := chrooted{
		root: im.root, user: c.User, env: env, command: slices.Concat(c.Entrypoint, []string{"serve"}), readOnly: true, data: data,
	}
	server := service.start(t)
	for _, path := range []string{"/healthz", "/readyz", "/v1/skills"} {
		if status := ask(t, server.URL+path); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	wantConfined(t, server.PID())
	// The health check of the image, in the image.
	health := chrootCommand(t, im, c.Healthcheck.Test[1:], "WHETSTONE_ADDR="+strings.TrimPrefix(server.URL, "http://"))
	if out, err := health.CombinedOutput(); err != nil {
		t.Errorf("the health check: %v\n%s", err, out)
	}
	if out, err := chrootCommand(t, im, []string{c.Entrypoint[0], "version"}).CombinedOutput(); err != nil || !strings.Contains(string(out), "v1.2.3") {
		t.Errorf("the version: %v\n%s", err, out)
	}
	if err := server.Terminate(); err != nil {
		t.Error(err)
	}
	// Another container on the same volume: the key is in the database.
	service.env = env[:len(env)-1]
	server = service.start(t)
	if status := ask(t, server.URL+"/v1/skills"); status != http.StatusOK {
		t.Errorf("after a restart: %d", status)
	}
	if err := server.Terminate(); err != nil {
		t.Error(err)
	}
	// The image's own command, which for a worker has another role.
	service.command = slices.Concat(c.Entrypoint, c.Cmd)
	server = service.start(t)
	if status := ask(t, server.URL+"/readyz"); status != http.StatusOK {
		t.Errorf("%q: %d", c.Cmd, status)
	}
	if err := server.Terminate(); err != nil {
		t.Error(err)
	}
}

func chrootCommand(t *testing.T, im image, command []string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "chroot", append([]string{"--userspec=" + im.config.User, im.root}, command...)...)
	cmd.Env = append(slices.Clone(im.config.Env), env...)
	return cmd
}

// wantConfined checks that a process has no privileges, and nowhere to write but its
// data and /tmp.
func wantConfined(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nUid:\t65532\t65532\t65532\t65532\n", "\nGid:\t65532\t65532\t65532\t65532\n", "\nCapEff:\t0000000000000000\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the process has not %q in\n%s", want, status)
		}
	}
	mounts, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mounts"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		seen[fields[1]] = strings.SplitN(fields[3], ",", 2)[0]
	}
	if seen["/"] != "ro" || seen["/data"] != "rw" || seen["/tmp"] != "rw" {
		t.Errorf("the mounts are\n%s", mounts)
	}
}
