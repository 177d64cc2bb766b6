package clients_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// publicHost is the name under which Claude Code knows the server: it downloads no
// plugins from loopback.
const publicHost = "skills.example.com"

// startProxy is the proxy that brings a client to publicHost. It dials nothing but
// the address that it is given, on loopback.
func startProxy(t *testing.T, to string) (address string) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != publicHost+":443" {
			http.Error(w, "only "+publicHost, http.StatusForbidden)
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer out.Close()
		in, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer in.Close()
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(out, in) }()
		_, _ = io.Copy(in, out)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// startTLS serves publicHost with a certificate, which is written to a file.
func startTLS(t *testing.T, to *url.URL, file string) (address string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{publicHost}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(to))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func claudeProgram(t *testing.T) string {
	t.Helper()
	programs := servertest.InstallNPM(t, root, "e2e/agents")
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return filepath.Join(programs, "..", "@anthropic-ai", "claude-code-linux-"+arch, "claude")
}

// A claude is the real Claude Code, and a server of its own that it knows as
// publicHost.
type claude struct {
	t         *testing.T
	program   string
	server    *servertest.Server
	author    *registrytest.Client // the owner of the organisation "default"
	home      string
	authority string // file with the certificate of the server
	proxy     string
}

func newClaude(t *testing.T) *claude {
	t.Helper()
	needSite(t)
	dir := t.TempDir()
	c := &claude{
		t: t, program: claudeProgram(t),
		home: filepath.Join(dir, "home"), authority: filepath.Join(dir, "ca.pem"),
	}
	data := filepath.Join(dir, "data")
	var err error
	c.server, err = servertest.Start(servertest.Command{
		Path: site.binary, Args: []string{"serve", "--addr", "127.0.0.1:0", "--data", data, "--public-url", "https://" + publicHost}, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Stdout: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.server.Terminate() })
	inside, err := url.Parse(c.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.proxy = startProxy(t, startTLS(t, inside, c.authority))
	out, err := exec.CommandContext(t.Context(), site.binary, "key", "create", "--role", "owner", "--json", "--data", data).Output()
	var made struct {
		APIKey string `json:"api_key"`
	}
	if err == nil {
		err = json.Unmarshal(out, &made)
	}
	if err != nil {
		t.Fatalf("key create: %v %s", err, out)
	}
	c.author = &registrytest.Client{Caller: &apptest.Caller{T: t, URL: c.server.URL, Key: made.APIKey}}
	return c
}

// plugin runs "claude plugin", which must work.
func (c *claude) plugin(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), c.program, append([]string{"plugin"}, args...)...)
	cmd.Dir = filepath.Dir(c.home)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "NODE_EXTRA_CA_CERTS=" + c.authority, "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "HTTPS_PROXY=" + c.proxy,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("claude plugin %q: %v\n%s\n%s", args, err, out, c.server.Log())
	}
	return string(out)
}

// installed finds the folder of an installed plugin; version and skill may be patterns.
func (c *claude) installed(plugin, version, skill string) string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.home, ".claude/plugins/cache/whetstone-default", plugin, version, skill))
	if err != nil || len(found) != 1 {
		c.t.Fatalf("%s %s is installed at %v, %v", plugin, version, found, err)
	}
	return found[0]
}

// TestClaudeCode adds a marketplace to the real Claude Code, and installs, updates and
// rolls back a plugin.
func TestClaudeCode(t *testing.T) {
	t.Parallel()
	c := newClaude(t)
	author, run := c.author, c.plugin
	first, second, own := skill("pdf", "One."), skill("pdf", "Two."), skill("notes", "Mine.")
	id := author.Made("pdf", "1.0.0", pack(t, first), object{"visibility": "public"})
	author.Made("notes", "..", pack(t, own))
	token := author.Post("/api/v1/catalog-tokens", object{"name": "CI"}).Want(http.StatusCreated).Text("token")

	installed := func(plugin, version, skill string, want map[string]string) {
		t.Helper()
		wantFiles(t, c.installed(plugin, version, skill), want)
	}
	run("marketplace", "add", "https://"+publicHost+"/o/default/"+token+"/marketplace.json")
	run("install", "pdf@whetstone-default")
	installed("pdf", "1.0.0", "skills/pdf", first)
	run("install", "notes@whetstone-default") // its version could not name a folder
	installed("notes", "????????????", "skills/notes", own)
	run("install", "everything@whetstone-default")
	installed("everything", "*", "skills/pdf", first)
	installed("everything", "*", "skills/notes", own)

	state := filepath.Join(c.home, ".claude", "plugins", "installed_plugins.json")
	locked(t, author.Caller, c.home, "notes .. of .. up_to_date", "pdf 1.0.0 of 1.0.0 up_to_date", "notes .. of .. up_to_date", "pdf 1.0.0 of 1.0.0 up_to_date")

	update := func() {
		t.Helper()
		run("marketplace", "update", "whetstone-default")
		run("update", "pdf@whetstone-default")
	}
	author.Pushed(id, "1.1.0", pack(t, second))
	update()
	installed("pdf", "1.1.0", "skills/pdf", second)
	author.Do(http.MethodPost, registrytest.VersionPath(id, "1.1.0")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
	locked(t, author.Caller, state, "notes .. of .. up_to_date", "pdf 1.0.0 of 1.0.0 up_to_date", "notes .. of .. up_to_date", "pdf 1.1.0 of 1.0.0 withdrawn")
	update()
	if list := run("list"); !strings.Contains(list, "1.0.0") || strings.Contains(list, "1.1.0") {
		t.Errorf("after the withdrawal: %s", list)
	}
	installed("pdf", "1.0.0", "skills/pdf", first)
	if strings.Contains(c.server.Log(), token) {
		t.Error("the log has the token")
	}
}
