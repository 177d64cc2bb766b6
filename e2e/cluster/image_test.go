package cluster_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// An instruction is a line of a Dockerfile.
type instruction struct{ name, rest string }

// readDockerfile returns the instructions of each stage, by its name.
func readDockerfile(t *testing.T) map[string][]instruction {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages, stage := map[string][]instruction{}, ""
	from := regexp.MustCompile(`^\S+ AS (\w+)$`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if name == "FROM" {
			match := from.FindStringSubmatch(rest)
			if match == nil {
				t.Fatalf("a stage without a name: %s", line)
			}
			stage = match[1]
		}
		stages[stage] = append(stages[stage], instruction{name, strings.TrimSpace(rest)})
	}
	return stages
}

// TestDockerfile checks the Dockerfile without a container engine: the files it
// copies exist, they suffice for its build, and its command starts as its user.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	stages := readDockerfile(t)
	made := map[string]bool{}
	for _, i := range stages["build"] {
		if words := strings.Fields(i.rest); i.name == "COPY" {
			for _, source := range words[:len(words)-1] {
				if _, err := os.Stat(filepath.Join(root, source)); err != nil {
					t.Error(err)
				}
			}
		}
		for _, match := range regexp.MustCompile(`/out/\w+`).FindAllString(i.rest, -1) {
			made[match] = true
		}
		if strings.HasPrefix(i.rest, "CGO_ENABLED=0 go build") {
			wantSameBuild(t, i.rest)
		}
	}
	for _, name := range []string{"service", "worker"} {
		image := readImage(t, stages[name], made)
		wantSettings(t, image.env)
		if image.user != "65532:65532" {
			t.Errorf("%s runs as %q", name, image.user)
		}
		image.run(t)
	}
}

// wantSameBuild checks that the image builds the binary as `make build` does.
func wantSameBuild(t *testing.T, command string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	normal := strings.NewReplacer("$(VERSION)", "V", "${VERSION}", "V", "CGO_ENABLED=0 ", "", "/out/", "", "bin/", "")
	if !strings.Contains(normal.Replace(string(text)), normal.Replace(command)) {
		t.Errorf("the Makefile does not build with %q", command)
	}
}

// An image is the result of a final stage.
type image struct {
	env             map[string]string
	user            string
	files           []string
	entrypoint, cmd []string
	health          []string
}

func readImage(t *testing.T, stage []instruction, made map[string]bool) image {
	t.Helper()
	im := image{env: map[string]string{}}
	list := func(text string) (words []string) {
		if err := json.Unmarshal([]byte(text), &words); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return words
	}
	for _, i := range stage {
		switch words := strings.Fields(i.rest); i.name {
		case "COPY":
			from, to := words[len(words)-2], words[len(words)-1]
			if !slices.Contains(words, "--from=build") || !made[from] {
				t.Errorf("COPY %s: the build stage does not make that", i.rest)
			}
			im.files = append(im.files, to)
		case "ENV":
			for _, pair := range words {
				name, value, _ := strings.Cut(pair, "=")
				im.env[name] = value
			}
		case "USER":
			im.user = i.rest
		case "ENTRYPOINT":
			im.entrypoint = list(i.rest)
		case "CMD":
			im.cmd = list(i.rest)
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(i.rest, " CMD ")
			im.health = list(command)
		}
	}
	if len(im.entrypoint) != 1 || !slices.Contains(im.files, im.entrypoint[0]) ||
		!slices.Contains(im.files, im.env["WHETSTONE_DATA"]) {
		t.Fatalf("the image runs %q with %q and has %q", im.entrypoint, im.env, im.files)
	}
	return im
}

// run starts the image's command, as the image's user if that is possible.
func (im image) run(t *testing.T) {
	t.Helper()
	// Not t.TempDir, which only its owner can enter.
	dir, err := os.MkdirTemp("", "whetstone-image")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := servertest.Command{
		Path: binary, Args: im.cmd, Dir: "/",
		Env: []string{"WHETSTONE_BOOTSTRAP_KEY=" + firstKey, "WHETSTONE_SECRET_KEY=" + secretKey},
	}
	if os.Getuid() == 0 {
		c.User = &syscall.Credential{Uid: serviceUser, Gid: serviceUser}
		if err := os.Chown(dir, serviceUser, serviceUser); err != nil {
			t.Fatal(err)
		}
	}
	env := maps.Clone(im.env)
	env["WHETSTONE_ADDR"], env["WHETSTONE_DATA"] = "127.0.0.1:0", path.Join(dir, "data")
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	server, err := servertest.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	checkHealth(t, append([]string{"CMD"}, im.health...), server)
	if err := server.Terminate(); err != nil {
		t.Error(err)
	}
}

// TestUnit has systemd verify the unit and rate its exposure.
func TestUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("WHETSTONE_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skip("systemd-analyze is not installed; run `make setup`")
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/systemd/whetstone.service"))
	if err != nil {
		t.Fatal(err)
	}
	const installed = "/usr/local/bin/whetstone"
	if strings.Count(string(text), "ExecStart="+installed+" serve\n") != 1 {
		t.Error("the unit does not run the binary")
	}
	env := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^Environment=(\w+)=`).FindAllStringSubmatch(string(text), -1) {
		env[match[1]] = ""
	}
	wantSettings(t, env)
	// The program must exist for the check.
	dir := t.TempDir()
	unit := filepath.Join(dir, "whetstone.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), installed, binary)), 0o600); err != nil {
		t.Fatal(err)
	}
	analyze := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	// It also warns about other units of the machine.
	for line := range strings.Lines(analyze("verify", "--man=no", unit)) {
		if strings.Contains(line, "whetstone") {
			t.Error(line)
		}
	}
	analyze("security", "--offline=true", "--threshold=20", unit) // of 100; an unguarded service has 96
	dropIn, err := os.ReadFile(filepath.Join(root, "deploy/systemd/whetstone.service.d/sandbox.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(unit+".d", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unit+".d", "sandbox.conf"), dropIn, 0o600); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(analyze("verify", "--man=no", unit)) {
		if strings.Contains(line, "whetstone") {
			t.Error(line)
		}
	}
}
