package release_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// firstKey is the API key of the first start.
const firstKey = "st_live_packagepackagepackagepackagepackagepacka"

// A machine is a Debian system in a folder, which programs run in by chroot.
type machine struct {
	t    *testing.T
	root string
}

// newMachine unpacks the image that scripts/base-image makes.
func newMachine(t *testing.T) machine {
	t.Helper()
	images := os.Getenv("WHETSTONE_IMAGES")
	if images == "" || os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("it needs root and an image of Debian; run `make release-check`")
	}
	// Not t.TempDir, which only its owner can enter.
	dir, err := os.MkdirTemp("", "whetstone-machine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	must(t, "tar", "-xf", filepath.Join(images, "debian_12.tar"), "-C", dir)
	// The packages that ours depends on come from this machine's mirror.
	must(t, "cp", "/etc/resolv.conf", filepath.Join(dir, "etc/resolv.conf"))
	return machine{t, dir}
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// run runs a command in the machine, as root.
func (m machine) run(args ...string) string {
	m.t.Helper()
	return must(m.t, "env", append([]string{
		"-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "chroot", m.root,
	}, args...)...)
}

func (m machine) path(name string) string { return filepath.Join(m.root, name) }

func (m machine) has(name string) bool {
	_, err := os.Lstat(m.path(name))
	return err == nil
}

// wantOwner checks owner, group and mode of a file.
func (m machine) wantOwner(name, want string) {
	m.t.Helper()
	if got := strings.TrimSpace(m.run("stat", "-c", "%U:%G %a", name)); got != want {
		m.t.Errorf("%s is %s, want %s", name, got, want)
	}
}

// serve starts the service as its unit says: with that user, those variables and
// that command. systemd itself cannot run in here.
func (m machine) serve() *servertest.Server {
	m.t.Helper()
	unit, err := os.ReadFile(m.path("lib/systemd/system/whetstone.service"))
	if err != nil {
		m.t.Fatal(err)
	}
	setting := func(name string) string {
		match := regexp.MustCompile(`(?m)^` + name + `=-?(.+)$`).FindSubmatch(unit)
		if match == nil {
			m.t.Fatalf("the unit has no %s", name)
		}
		return string(match[1])
	}
	settings, err := os.ReadFile(m.path(setting("EnvironmentFile")))
	if err != nil {
		m.t.Fatal(err)
	}
	env := []string{setting("Environment")}
	for line := range strings.Lines(string(settings)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			env = append(env, line)
		}
	}
	return chrooted{
		root: m.root, user: setting("User") + ":" + setting("Group"), env: env, command: strings.Fields(setting("ExecStart")),
	}.start(m.t)
}

// chrooted is a service in the folder of a system.
type chrooted struct {
	root     string
	user     string // USER:GROUP, by names of that system or numbers
	env      []string
	command  []string
	readOnly bool   // all but /tmp and data
	data     string // a folder of this machine that is /data there
}

// start mounts what the service needs in a namespace of its own, so that nothing
// has to be unmounted, and replaces the shell by the service, which so gets signals.
func (c chrooted) start(t *testing.T) *servertest.Server {
	t.Helper()
	script := `set -eu; root=$1 user=$2; shift 2; mkdir -p "$root/proc"; `
	if c.readOnly {
		script += `mount --bind "$root" "$root"; mount --bind "$DATA" "$root/data"; mount -t tmpfs tmpfs "$root/tmp"; ` +
			`mount -o remount,bind,ro "$root"; `
	}
	script += `mount -t proc proc "$root/proc"; unset DATA; exec chroot --userspec="$user" "$root" "$@"`
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	server, err := servertest.Start(servertest.Command{
		Path: unshare, Dir: "/", Env: append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DATA=" + c.data}, c.env...),
		Args: append([]string{"--mount", "sh", "-c", script, "sh", c.root, c.user}, c.command...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	return server
}

// ask returns the status of a request with the key.
func ask(t *testing.T, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+firstKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // only the status matters
	return response.StatusCode
}

// wantServes starts the service, asks it, and stops it.
func (m machine) wantServes() {
	m.t.Helper()
	server := m.serve()
	for _, path := range []string{"/healthz", "/readyz", "/v1/skills"} {
		if status := ask(m.t, server.URL+path); status != http.StatusOK {
			m.t.Errorf("%s: %d", path, status)
		}
	}
	if err := server.Terminate(); err != nil {
		m.t.Error(err)
	}
}

// olderPackage makes the package of an older version, whose program does nothing.
func olderPackage(t *testing.T) string {
	t.Helper()
	dir, out := filepath.Join(t.TempDir(), "files"), t.TempDir()
	for name, content := range map[string]string{
		"whetstone": "#!/bin/sh\necho old\n", "THIRD_PARTY_LICENSES.txt": "none\n", "completions/_whetstone": "#compdef whetstone\n",
		"completions/whetstone.bash": "#\n", "completions/whetstone.fish": "#\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "env", "SOURCE_DATE_EPOCH=1700000000", filepath.Join(root, "scripts/deb"), dir, runtime.GOARCH, "0.0.0", out)
	return filepath.Join(out, "whetstone_0.0.0_linux_"+runtime.GOARCH+".deb")
}

// TestPackage installs, upgrades, starts, removes and purges the Debian package in a
// Debian system of its own.
func TestPackage(t *testing.T) {
	t.Parallel()
	current, m := find(t, "_linux_"+runtime.GOARCH+".deb"), newMachine(t)
	must(t, "cp", olderPackage(t), m.path("old.deb"))
	must(t, "cp", current, m.path("new.deb"))

	// A fresh install brings what it depends on, and says how to start.
	m.run("apt-get", "update")
	if out := m.run("apt-get", "install", "-y", "--no-install-recommends", "/old.deb"); !strings.Contains(out, "systemctl enable --now whetstone") {
		t.Errorf("the install says\n%s", out)
	}
	m.wantOwner("/var/lib/whetstone", "whetstone:whetstone 700")
	m.wantOwner("/etc/whetstone/whetstone.env", "root:whetstone 640")
	m.wantOwner("/usr/bin/whetstone", "root:root 755")
	for _, name := range []string{
		"usr/share/man/man1/whetstone.1.gz", "usr/share/doc/whetstone/copyright", "usr/share/bash-completion/completions/whetstone",
		"usr/share/zsh/vendor-completions/_whetstone", "usr/share/fish/vendor_completions.d/whetstone.fish",
	} {
		// The base image leaves manuals and documents out, and dpkg remembers that.
		if !m.has(name) && !strings.HasPrefix(name, "usr/share/man") && !strings.HasPrefix(name, "usr/share/doc") {
			t.Errorf("%s is not there", name)
		}
	}

	// An upgrade keeps settings and data, and needs no answers.
	settings := "WHETSTONE_ADDR=127.0.0.1:0\nWHETSTONE_BOOTSTRAP_KEY=" + firstKey + "\n"
	if err := os.WriteFile(m.path("etc/whetstone/whetstone.env"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run("dpkg", "-i", "/new.deb")
	wantFile(t, m.path("etc/whetstone/whetstone.env"), settings)
	m.wantOwner("/etc/whetstone/whetstone.env", "root:whetstone 640")
	m.wantServes()
	m.wantOwner("/var/lib/whetstone/whetstone.db", "whetstone:whetstone 600")

	// So does a reinstall, and a removal that is taken back. The key is the one in
	// the database: the settings no longer name one.
	settings = "WHETSTONE_ADDR=127.0.0.1:0\n"
	if err := os.WriteFile(m.path("etc/whetstone/whetstone.env"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run("dpkg", "-i", "/new.deb")
	m.wantServes()
	m.run("dpkg", "--remove", "whetstone")
	if m.has("usr/bin/whetstone") || !m.has("var/lib/whetstone/whetstone.db") || !m.has("etc/whetstone/whetstone.env") {
		t.Error("the removal keeps the program, or does not keep the rest")
	}
	m.run("dpkg", "-i", "/new.deb")
	wantFile(t, m.path("etc/whetstone/whetstone.env"), settings)
	m.wantServes()

	// A purge leaves nothing but the user.
	m.run("dpkg", "--purge", "whetstone")
	left := m.run("find", "/etc", "/usr", "/lib", "/var/lib", "/run", "-name", "*whetstone*", "-not", "-path", "/var/lib/dpkg/*")
	if left != "" {
		t.Errorf("the purge leaves\n%s", left)
	}
	m.run("getent", "passwd", "whetstone")
	m.run("dpkg", "-i", "/new.deb") // with a user of before
	m.wantOwner("/var/lib/whetstone", "whetstone:whetstone 700")
	m.run("dpkg", "--purge", "whetstone")
}

// TestPackageLint has lintian check the packages; deploy/deb/lintian-overrides has
// what is meant so.
func TestPackageLint(t *testing.T) {
	t.Parallel()
	packages, err := filepath.Glob(filepath.Join(dist(t), "*.deb"))
	if err != nil || len(packages) == 0 {
		t.Fatalf("%q, %v", packages, err)
	}
	if _, err := exec.LookPath("lintian"); err != nil {
		t.Skip("lintian is not installed")
	}
	for _, file := range packages {
		cmd := exec.CommandContext(t.Context(), "lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", "--allow-root", file)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "unused-override") {
			t.Errorf("%v\n%s", err, out)
		} else {
			t.Logf("%s: %s", filepath.Base(file), out)
		}
	}
}

// TestPackageUnit has systemd verify the unit of the package.
func TestPackageUnit(t *testing.T) {
	t.Parallel()
	file := find(t, "_linux_"+runtime.GOARCH+".deb")
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed; run `make setup`")
	}
	dir := t.TempDir()
	must(t, "dpkg-deb", "-x", file, dir)
	text, err := os.ReadFile(filepath.Join(dir, "lib/systemd/system/whetstone.service"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "[Unit]\n") || !strings.Contains(string(text), "\nExecStart=/usr/bin/whetstone serve\n") ||
		!strings.Contains(string(text), "\nUser=whetstone\nGroup=whetstone\n") || strings.Contains(string(text), "DynamicUser") {
		t.Errorf("the unit is\n%s", text)
	}
	unit := filepath.Join(dir, "whetstone.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/bin/whetstone", filepath.Join(dir, "usr/bin/whetstone"))), 0o600); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(must(t, "systemd-analyze", "verify", "--man=no", unit)) {
		if strings.Contains(line, "whetstone") { // it also warns about other units of the machine
			t.Error(line)
		}
	}
	must(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", unit)
}
