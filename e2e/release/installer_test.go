package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const root = "../.."

// program stands for the binary, of which the installer only asks the version.
const program = "#!/bin/sh\necho whetstone v1.2.3\n"

// platform is that of this machine, in the names of archives.
const platform = runtime.GOOS + "_" + runtime.GOARCH

const archiveName = "whetstone_1.2.3_" + platform + ".tar.gz"

// A mirror serves the files of a release.
type mirror struct {
	files map[string][]byte
	key   []byte // the public key, as PEM
	url   string
}

// newMirror serves a signed release.
func newMirror(t *testing.T) *mirror {
	t.Helper()
	archive := archiveOf(t, program)
	sum := sha256.Sum256(archive)
	sums := []byte(hex.EncodeToString(sum[:]) + "  " + archiveName + "\n" +
		strings.Repeat("0", 64) + "  whetstone_1.2.3_plan9_amd64.tar.gz\n" +
		strings.Repeat("0", 64) + "  whetstone_1.2.3_" + platform + ".deb\n")
	m := &mirror{files: map[string][]byte{"checksums.txt": sums, archiveName: archive}}
	m.sign(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := m.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content) // the installer notices what it misses
	}))
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// sign makes a key and signs the checksums with it, as cosign does.
func (m *mirror) sign(t *testing.T) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	m.key = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	sum := sha256.Sum256(m.files["checksums.txt"])
	signature, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	m.files["checksums.txt.sig"] = []byte(base64.StdEncoding.EncodeToString(signature))
}

func archiveOf(t *testing.T, program string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range map[string]string{"whetstone": program, "README.md": "Read me.\n"} {
		header := &tar.Header{Name: strings.TrimSuffix(archiveName, ".tar.gz") + "/" + name, Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, close := range []func() error{w.Close, z.Close} {
		if err := close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// toolbox is a PATH with what the installer may call, without the named tools.
func toolbox(t *testing.T, without ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{
		"cat", "chmod", "cp", "curl", "cut", "grep", "gzip", "mkdir", "mktemp", "mv", "openssl", "rm", "sh", "sha256sum", "shasum",
		"tar", "uname", "wget",
	} {
		path, err := exec.LookPath(tool)
		if err != nil || strings.Contains(" "+strings.Join(without, " ")+" ", " "+tool+" ") {
			continue
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// install runs a copy of the installer and returns what it says.
func install(t *testing.T, script, path string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{script}, args...)...)
	cmd.Env = []string{"PATH=" + path, "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestInstaller(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed; run `make setup`")
	}
	script := filepath.Join(root, "deploy/install.sh")
	unsigned, all, wget := toolbox(t, "openssl"), toolbox(t), toolbox(t, "curl")
	if _, err := exec.LookPath("wget"); err != nil {
		wget = all
	}
	for _, c := range []struct {
		name string
		path string
		args string
		make func(*mirror)
		want string // a part of what it says
		ok   bool
	}{
		{name: "plain", want: "installed whetstone v1.2.3", ok: true},
		{name: "without a key", want: "the signature is not verified: this installer has no key", ok: true},
		{name: "without a key, required", args: "--require-signature", want: "the signature cannot be verified"},
		{name: "without openssl", path: unsigned, args: "--key KEY", want: "neither cosign nor openssl", ok: true},
		{name: "without openssl, required", path: unsigned, args: "--key KEY --require-signature", want: "the signature cannot be verified"},
		{name: "signed", args: "--key KEY --require-signature", want: "the signature is valid", ok: true},
		{name: "with wget", path: wget, want: "installed whetstone v1.2.3", ok: true},
		{name: "with wget, no archive", path: wget, make: func(m *mirror) { delete(m.files, archiveName) }, want: "cannot download"},
		{
			name: "another archive", make: func(m *mirror) { m.files[archiveName] = append(m.files[archiveName], 0) },
			want: "and checksums.txt says",
		},
		{
			name: "a truncated archive", make: func(m *mirror) { m.files[archiveName] = m.files[archiveName][:100] },
			want: "and checksums.txt says",
		},
		{name: "no archive", make: func(m *mirror) { delete(m.files, archiveName) }, want: "cannot download"},
		{name: "no checksums", make: func(m *mirror) { delete(m.files, "checksums.txt") }, want: "cannot download"},
		{
			name: "truncated checksums", make: func(m *mirror) { m.files["checksums.txt"] = m.files["checksums.txt"][:60] },
			want: "the release has no archive for " + platform,
		},
		{
			name: "two archives", make: func(m *mirror) {
				m.files["checksums.txt"] = append(m.files["checksums.txt"], m.files["checksums.txt"]...)
			},
			want: "several archives",
		},
		{
			name: "a name with a path", make: func(m *mirror) {
				m.files["checksums.txt"] = bytes.ReplaceAll(m.files["checksums.txt"], []byte("  whetstone_"), []byte("  ../whetstone_"))
			},
			want: "the release has no archive for " + platform,
		},
		{
			name: "changed checksums", args: "--key KEY", make: func(m *mirror) {
				m.files["checksums.txt"] = append(m.files["checksums.txt"], '\n')
			},
			want: "the signature of checksums.txt is not valid",
		},
		{
			name: "no signature", args: "--key KEY", make: func(m *mirror) { delete(m.files, "checksums.txt.sig") },
			want: "cannot download",
		},
		{
			name: "a broken signature", args: "--key KEY", make: func(m *mirror) { m.files["checksums.txt.sig"] = []byte("x") },
			want: "the signature of checksums.txt is not valid",
		},
		{name: "a key that is not there", args: "--key /nonexistent", want: "cannot read the key"},
		{name: "no program to download with", path: toolbox(t, "curl", "wget"), want: "neither curl nor wget is installed"},
		{name: "no program to hash with", path: toolbox(t, "sha256sum", "shasum"), want: "the download cannot be verified"},
		{name: "an unknown flag", args: "--prefix /", want: "usage: install.sh"},
		{name: "a flag without its value", args: "--dir", want: "--dir needs a value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(c.args, "KEY") && c.path == "" {
				if _, err := exec.LookPath("openssl"); err != nil {
					t.Skip("openssl is not installed")
				}
			}
			m, dir := newMirror(t), t.TempDir()
			if c.make != nil {
				c.make(m)
			}
			key := filepath.Join(dir, "key.pem")
			if err := os.WriteFile(key, m.key, 0o600); err != nil {
				t.Fatal(err)
			}
			path := c.path
			if path == "" {
				path = all
			}
			// What was installed before stays if anything is wrong.
			target := filepath.Join(dir, "bin", "whetstone")
			if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"--base-url", m.url + "/", "--dir", filepath.Dir(target)},
				strings.Fields(strings.ReplaceAll(c.args, "KEY", key))...)
			out, err := install(t, script, path, args...)
			if (err == nil) != c.ok || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q in\n%s", err, c.want, out)
			}
			want := "old"
			if c.ok {
				want = program
			}
			wantFile(t, target, want)
			wantOnly(t, filepath.Dir(target), "whetstone")
		})
	}
}

// TestInstallerOfRelease has the key in the script, as scripts/release puts it there.
func TestInstallerOfRelease(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	m, dir := newMirror(t), t.TempDir()
	text = bytes.Replace(text, []byte("\nkey=\n"), []byte("\nkey='"+strings.TrimSpace(string(m.key))+"'\n"), 1)
	script := filepath.Join(dir, "install.sh")
	if err := os.WriteFile(script, text, 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "new folder", "bin")
	out, err := install(t, script, toolbox(t), "--base-url", m.url, "--dir", target)
	if err != nil || !strings.Contains(out, "the signature is valid") || !strings.Contains(out, "is not in PATH") {
		t.Errorf("%v\n%s", err, out)
	}
	m.sign(t) // with another key
	if out, err := install(t, script, toolbox(t), "--base-url", m.url, "--dir", target); err == nil {
		t.Errorf("it takes another key:\n%s", out)
	}
	// Half of the script does nothing.
	if err := os.WriteFile(script, text[:len(text)-len("main \"$@\"\n")], 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if out, err := install(t, script, toolbox(t), "--base-url", m.url, "--dir", other); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a script that was cut off installs something")
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is %.100q, want %.100q", path, got, want)
	}
}

func wantOnly(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("%s has %v, want only %s", dir, entries, name)
	}
}
