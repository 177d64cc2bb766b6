//go:build linux

package environments_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/environments/environmentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/builder"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
)

// recipe is that of a Dockerfile on the small image, with files of its context in
// pairs of a name and a content.
func recipe(t *testing.T, lines string, context ...string) environments.Recipe {
	t.Helper()
	dir := sandboxtest.Folder(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(context); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, context[i]), []byte(context[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return environments.Recipe{
		Dockerfile: "FROM " + environmentstest.Image + "\n" + lines + "\n", Context: dir, Images: []string{environmentstest.Image},
	}
}

// get returns an environment until the end of the test.
func get(t *testing.T, s *environments.Service, r environments.Recipe) *environments.Environment {
	t.Helper()
	e, err := s.Get(t.Context(), r)
	if err != nil {
		if f, ok := errors.AsType[*builder.Failed](err); ok {
			t.Log(f.Output)
		}
		t.Fatal(err)
	}
	t.Cleanup(e.Release)
	return e
}

// runIn runs a shell script in a root and returns its output.
func runIn(t *testing.T, root *sandbox.Root, script string) string {
	t.Helper()
	result, err := sandboxtest.Bubblewrap(t).Run(t.Context(), sandbox.Spec{Argv: []string{"sh", "-c", script}, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	return string(result.Stdout.Tail) + string(result.Stderr.Tail)
}

func root(t *testing.T, e *environments.Environment) *sandbox.Root {
	t.Helper()
	dir := sandboxtest.Folder(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := e.Root(t.Context(), filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGet: an environment has what its Dockerfile says, is built once, and trials
// do not see each other's changes.
func TestGet(t *testing.T) {
	t.Parallel()
	for name, newService := range map[string]func(*testing.T) *environments.Service{
		"stand-in": environmentstest.New, "buildah": environmentstest.NewBuildah,
		"copies": func(t *testing.T) *environments.Service { return environments.WithoutOverlay(environmentstest.New(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			r := recipe(t, "WORKDIR /work\nENV COLOUR=green\nCOPY data.txt /work/data.txt\nRUN echo ran > made.txt", "data.txt", "given\n")
			e := get(t, s, r)
			if e.WorkingDir != "/work" || e.Env["COLOUR"] != "green" || e.Env["PATH"] == "" || e.Bytes < 1<<20 {
				t.Errorf("the environment is %+v", e)
			}
			first, second := root(t, e), root(t, get(t, s, r))
			if got := runIn(t, first, "cat /etc/os-release /work/*; rm /work/made.txt; echo x > /work/data.txt"); got != "ID=small\ngiven\nran\n" {
				t.Errorf("the first trial sees %q", got)
			}
			if got := runIn(t, first, "cat /work/*"); got != "x\n" {
				t.Errorf("its next program sees %q", got)
			}
			if got := runIn(t, second, "cat /work/*"); got != "given\nran\n" {
				t.Errorf("the second trial sees %q", got)
			}
			if other := get(t, s, recipe(t, "COPY data.txt /data.txt", "data.txt", "other\n")); other.Digest == e.Digest {
				t.Error("another Dockerfile is the same environment")
			}
		})
	}
}

// TestArchives: base images may be archives of docker and of OCI, whatever name they
// have inside.
func TestArchives(t *testing.T) {
	t.Parallel()
	s, dir := environmentstest.NewBuildah(t), t.TempDir()
	script := exec.Command("sh", "-ec", `
		b() { buildah --root "$0/storage" --runroot "$0/run" --storage-driver vfs "$@"; }
		printf 'FROM scratch\nADD debian_12.tar /\nENV COLOUR=blue\n' >"$0/Dockerfile"
		b bud -q --isolation chroot -f "$0/Dockerfile" -t localhost/made:1 "$IMAGES"
		b push -q localhost/made:1 "docker-archive:$IMAGES/acme_docker_1.tar:other/name:9"
		b push -q localhost/made:1 "oci-archive:$IMAGES/acme_oci_1.tar"`, dir)
	script.Env = append(os.Environ(), "IMAGES="+s.Images)
	if output, err := script.CombinedOutput(); err != nil {
		t.Skipf("this buildah makes no archives: %s", output)
	}
	for _, image := range []string{"acme/docker:1", "docker.io/acme/oci:1"} {
		e := get(t, s, environments.OfImage(image))
		if got := runIn(t, root(t, e), "cat /etc/os-release"); got != "ID=small\n" || e.Env["COLOUR"] != "blue" {
			t.Errorf("%s: %q, %+v", image, got, e)
		}
	}
}

// TestGetOnce: many trials that want an environment at once wait for one build, and
// a failure stands for all of them.
func TestGetOnce(t *testing.T) {
	t.Parallel()
	s := environmentstest.New(t)
	for _, test := range []struct {
		lines string
		fails bool
	}{{"RUN sleep 0.2", false}, {"RUN echo no such thing; exit 3", true}} {
		r := recipe(t, test.lines)
		var group sync.WaitGroup
		var mu sync.Mutex
		failures := map[string]int{}
		for range 8 {
			group.Go(func() {
				e, err := s.Get(t.Context(), r)
				if err == nil {
					e.Release()
					return
				}
				var failed *builder.Failed
				if errors.As(err, &failed) {
					mu.Lock()
					defer mu.Unlock()
					failures[failed.Reason+": "+failed.Output]++
				}
			})
		}
		group.Wait()
		if want := map[bool]int{true: 1}[test.fails]; len(failures) != want {
			t.Errorf("%s: %v", test.lines, failures)
		}
		for reason, n := range failures {
			if n != 8 || !strings.Contains(reason, "status 3: ") || !strings.Contains(reason, "no such thing") {
				t.Errorf("%d times %q", n, reason)
			}
		}
	}
	if parts, _ := filepath.Glob(filepath.Join(s.Dir, "*-*")); len(parts) > 0 {
		t.Errorf("left over: %v", parts)
	}
}

// TestBuildPolicy: a build has limits of its own, and no network unless the operator
// wants it to have one.
func TestBuildPolicy(t *testing.T) {
	t.Parallel()
	s := environmentstest.New(t)
	fails := func(r environments.Recipe, want string) {
		t.Helper()
		_, err := s.Get(t.Context(), r)
		failed, ok := errors.AsType[*builder.Failed](err)
		if !ok || !strings.Contains(failed.Reason+failed.Output, want) {
			t.Errorf("got %v (%+v), want %q", err, failed, want)
		}
	}
	slow := recipe(t, "RUN echo begun; sleep 60")
	slow.Timeout = 300 * time.Millisecond
	fails(slow, "longer than 300ms")
	fails(recipe(t, "RUN grep -c . /proc/net/dev; grep -q eth /proc/net/dev || exit 7"), "status 7")
	fails(recipe(t, "RUN ls /etc/shadow /root "+s.Dir), "cannot access")
	s.MaxBytes = 1 << 20
	fails(recipe(t, "RUN true"), " MiB") // of the image, or of the disk while it is built

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(cancelled, recipe(t, "RUN sleep 9")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestBuildSeesNothing: a RUN line finds no secret of the service in any process that
// it sees, with or without a network, and cannot make the calls and sockets that a
// trial cannot make either, unless buildah needs them.
func TestBuildSeesNothing(t *testing.T) {
	attacker := sandboxtest.Attacker(t)
	secret := sandboxtest.PlantSecret(t)
	sandboxtest.PlantKey(t, secret)
	box, err := sandbox.New(sandbox.Options{}) // knows of the planted file
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(attacker, "attacker"))
	if err != nil {
		t.Fatal(err)
	}
	for name, newService := range map[string]func(*testing.T) *environments.Service{
		"stand-in": environmentstest.New, "buildah": environmentstest.NewBuildah,
		"network": func(t *testing.T) *environments.Service {
			s := environmentstest.New(t)
			s.Network = true
			return s
		},
		"buildah with a network": func(t *testing.T) *environments.Service {
			s := environmentstest.NewBuildah(t)
			s.Network = true
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			s.Builder.Sandbox = box
			lines := "COPY attacker /attacker\nRUN chmod 755 ./attacker && ./attacker " +
				strings.Join(sandboxtest.FindSecret(secret), " ") + " >&2 && ./attacker build >&2 && echo ran > seen"
			e := get(t, s, recipe(t, lines, "attacker", string(program)))
			if got := runIn(t, root(t, e), "cat /seen"); got != "ran\n" {
				t.Errorf("the RUN line has left %q", got)
			}
		})
	}
}

// TestMissing says before anything runs what is not here.
func TestMissing(t *testing.T) {
	t.Parallel()
	s := environmentstest.New(t)
	if reason := s.Missing(t.Context(), recipe(t, "")); reason != "" {
		t.Errorf("the small image: %s", reason)
	}
	r := environments.OfImage("docker.io/library/python:3.12-slim")
	if reason := s.Missing(t.Context(), r); !strings.Contains(reason, "python_3.12-slim.tar") {
		t.Errorf("an image that is not here: %q", reason)
	}
	s.Network = true
	if reason := s.Missing(t.Context(), r); reason != "" {
		t.Errorf("with a network: %s", reason)
	}
	s = environmentstest.New(t)
	s.Builder = &builder.Builder{Program: "/nonexistent"}
	if reason := s.Missing(t.Context(), r); !strings.Contains(reason, "install it") {
		t.Errorf("without buildah: %q", reason)
	}
	if _, err := s.Get(t.Context(), r); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an environment without buildah: %v", err)
	}
}

// TestSweep: environments go by age and size, the least recently used first, and
// never while a trial has them.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := environmentstest.New(t)
	var all []*environments.Environment
	for i := range 4 {
		e, err := s.Get(t.Context(), recipe(t, fmt.Sprintf("RUN echo %d > n", i)))
		if err != nil {
			t.Fatal(err)
		}
		used := time.Now().Add(time.Duration(i-10) * time.Hour)
		if i == 3 {
			used = used.AddDate(0, -2, 0)
		}
		if err := os.Chtimes(filepath.Join(s.Dir, e.Digest, "image.json"), used, used); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	for _, i := range []int{1, 2, 3} {
		all[i].Release()
		all[i].Release() // counts once
	}
	kept := func() (indexes []int) {
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
		for i, e := range all {
			if _, err := os.Stat(filepath.Join(s.Dir, e.Digest)); err == nil {
				indexes = append(indexes, i)
			}
		}
		return indexes
	}
	if got := fmt.Sprint(kept()); got != "[0 1 2]" {
		t.Errorf("by age: %s are kept", got)
	}
	s.MaxBytes = 2*all[0].Bytes + 1
	if got := fmt.Sprint(kept()); got != "[0 2]" {
		t.Errorf("by size: %s are kept", got)
	}
	s.MaxBytes = 1
	if got := fmt.Sprint(kept()); got != "[0]" {
		t.Errorf("in use: %s are kept", got)
	}
	if err := os.Mkdir(filepath.Join(s.Dir, "part-of-a-crash"), 0o700); err != nil {
		t.Fatal(err)
	}
	all[0].Release()
	if got := fmt.Sprint(kept()); got != "[]" {
		t.Errorf("released: %s are kept", got)
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// TestOrdinaryUser builds with buildah as a user with ranges of others, as a service
// is that does not run as root, and as one without: RUN lines need them.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"buildah", "newuidmap", "unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			t.Skipf("needs root and %s", program)
		}
	}
	if _, err := os.Stat("/etc/subuid"); err != nil {
		t.Skip(err)
	}
	const id = "65531"
	attacker := sandboxtest.Attacker(t)
	for name, test := range map[string]struct{ ranges, run, want string }{
		"ranges":    {"builder:1000000:65536\n", "^(TestGet|TestSecondUser|TestBuildSeesNothing)$/^(buildah|network)", "--- PASS: TestBuildSeesNothing/buildah_with_a_network"},
		"no ranges": {"other:1000000:65536\n", "^TestOneUser$", "--- PASS: TestOneUser"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := sandboxtest.Folder(t)
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(os.Chmod(dir, 0o755))
			for file, content := range map[string]string{
				"passwd": "root:x:0:0::/root:/bin/sh\nbuilder:x:" + id + ":" + id + "::/:/bin/sh\n", "group": "builder:x:" + id + ":\n",
				"subuid": test.ranges, "subgid": test.ranges,
			} {
				check(os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644))
			}
			self, err := os.ReadFile("/proc/self/exe")
			check(err)
			check(os.WriteFile(filepath.Join(dir, "test"), self, 0o755))
			check(os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
			check(os.Chown(filepath.Join(dir, "tmp"), 65531, 65531))
			// Only this process sees the other files.
			const script = `for f in passwd group subuid subgid; do mount --bind "$0/$f" /etc/$f || exit 1; done
				exec setpriv --reuid 65531 --regid 65531 --clear-groups "$0/test" -test.v -test.run "$1"`
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", script, dir, test.run)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(dir, "tmp"), sandboxtest.AttackerVariable + "=" + attacker}
			output, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(output), test.want) {
				t.Errorf("%v\n%s", err, output)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// TestSecondUser: programs of RUN lines can be other users, whose files are theirs
// while the image is built, and do not stay behind.
func TestSecondUser(t *testing.T) {
	t.Parallel()
	t.Run("buildah", func(t *testing.T) {
		t.Parallel()
		s := environmentstest.NewBuildah(t)
		lines := "COPY passwd /etc/passwd\nRUN mkdir /home && mkdir -m 777 /home/open\nUSER 1000:1000\n" +
			"RUN mkdir -m 700 /home/open/own && echo mine > /home/open/own/file\nUSER 0:0\nRUN cat /home/open/own/file > /seen"
		e := get(t, s, recipe(t, lines, "passwd", "root:x:0:0::/root:/bin/sh\nother:x:1000:1000::/:/bin/sh\n"))
		if got := runIn(t, root(t, e), "cat /seen /home/open/own/file"); got != "mine\nmine\n" {
			t.Errorf("the image has %q", got)
		}
		fails := "RUN mkdir -m 777 /open\nUSER 1000:1000\nRUN mkdir -m 700 /open/own && touch /open/own/x && exit 3"
		_, err := s.Get(t.Context(), recipe(t, fails))
		if _, ok := errors.AsType[*builder.Failed](err); !ok {
			t.Errorf("a build that fails: %v", err)
		}
	})
}

// TestOneUser is a part of TestOrdinaryUser: what needs other users is said before
// it is built, and the rest is built.
func TestOneUser(t *testing.T) {
	if _, err := (&builder.Builder{}).Users(t.Context()); err == nil {
		t.Skip("there are several users")
	}
	s := environmentstest.New(t)
	s.Builder = &builder.Builder{Dir: s.Builder.Dir}
	reason := s.Missing(t.Context(), recipe(t, "RUN true"))
	if !strings.Contains(reason, "/etc/subuid has no range for user builder") {
		t.Errorf("a RUN line: %q", reason)
	}
	message, err := s.Describe(t.Context())
	if err != nil || !strings.Contains(message, "only Dockerfiles without RUN lines are built") {
		t.Errorf("described as %q, %v", message, err)
	}
	r := recipe(t, "COPY data.txt /data.txt", "data.txt", "given\n")
	if reason := s.Missing(t.Context(), r); reason != "" {
		t.Errorf("no RUN line: %s", reason)
	}
	if got := runIn(t, root(t, get(t, s, r)), "cat /data.txt"); got != "given\n" {
		t.Errorf("the image has %q", got)
	}
}

// TestBuildCgroup: a build has a cgroup of its own where programs of the sandbox do.
func TestBuildCgroup(t *testing.T) {
	t.Parallel()
	s := environmentstest.New(t)
	report, err := s.Builder.Sandbox.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(report.InForce, "; "), "cgroup") {
		t.Skip("programs have no cgroups here")
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	marker := fmt.Sprintf("62.%d", time.Now().UnixNano())
	built := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := s.Get(ctx, recipe(t, "RUN sleep "+marker))
		built <- err
	}()
	var found []byte
	for deadline := time.Now().Add(2 * time.Minute); found == nil && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
		for _, file := range files {
			if line, err := os.ReadFile(file); err == nil && string(line) == "sleep\x00"+marker+"\x00" {
				found, _ = os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup")) // it may have ended
			}
		}
	}
	if len(found) == 0 || string(found) == string(own) {
		t.Errorf("the build is in %q, and the service in %q", found, own)
	}
	cancel()
	if err := <-built; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
