package main

import (
	"bytes"
	"context"
	"crypto/sha1" // npm's package documents carry it
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// verdaccio is the peer of the registry: the private npm registry that people
// run themselves.
type verdaccio struct {
	*server
	token string
}

// verdaccioConfig keeps Verdaccio from everything that is not measured, and
// gives it the quicker of its two kinds of token: the other one checks the
// password at every request.
const verdaccioConfig = `
storage: ./storage
auth:
  htpasswd:
    file: ./htpasswd
security:
  api:
    jwt:
      sign:
        expiresIn: 1d
packages:
  '**':
    access: $all
    publish: $authenticated
web:
  enable: false
log: {type: stdout, format: json, level: fatal}
`

// startVerdaccio starts Verdaccio from bench/node_modules, which it fills from
// the npm registry if need be, and logs in.
func (l *lab) startVerdaccio(ctx context.Context) (*verdaccio, error) {
	if err := l.installPeers(ctx); err != nil {
		return nil, err
	}
	dir, err := l.folder("verdaccio")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(verdaccioConfig), 0o600); err != nil {
		return nil, err
	}
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, l.node(), filepath.Join(l.modules(), "verdaccio", "bin", "verdaccio"),
		"--config", config, "--listen", addr)
	cmd.Dir = dir
	cmd.Env = environment("NODE_ENV=production")
	v := &verdaccio{}
	if v.server, err = startQuiet(ctx, cmd, "http://"+addr, "/-/ping"); err != nil {
		return nil, err
	}
	if err := v.login(ctx); err != nil {
		v.stop()
		return nil, err
	}
	return v, nil
}

func (l *lab) modules() string { return filepath.Join(l.root, "bench", "node_modules") }

// node is the Node.js of package.json, which is one that the peers support,
// or else the machine's.
func (l *lab) node() string {
	found, err := filepath.Glob(filepath.Join(l.modules(), "node-linux-*", "bin", "node"))
	if err != nil || len(found) == 0 {
		return "node"
	}
	return found[0]
}

// installPeers runs npm unless it has done so since the lock file changed.
func (l *lab) installPeers(ctx context.Context) error {
	lock, err := os.Stat(filepath.Join(l.root, "bench", "package-lock.json"))
	if err != nil {
		return err
	}
	installed, err := os.Stat(filepath.Join(l.modules(), ".package-lock.json"))
	if err == nil && !installed.ModTime().Before(lock.ModTime()) {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("npm, which installs Verdaccio, is %w", errMissing)
	}
	fmt.Fprintln(os.Stderr, "bench: installing the peers with npm, once")
	cmd := exec.CommandContext(ctx, "npm", "ci", "--loglevel=error")
	cmd.Dir = filepath.Join(l.root, "bench")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}

// freeAddress finds a port for a program that cannot choose one itself.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// login makes a user, as `npm adduser` does.
func (v *verdaccio) login(ctx context.Context) error {
	body := `{"name": "bench", "password": "bench-password", "type": "user", "roles": []}`
	req, err := v.put(ctx, "/-/user/org.couchdb.user:bench", bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	var answer struct{ Token string }
	if err := call(req, http.StatusCreated, &answer); err != nil {
		return err
	}
	v.token = answer.Token
	return nil
}

func (v *verdaccio) put(ctx context.Context, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, v.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if v.token != "" {
		req.Header.Set("Authorization", "Bearer "+v.token)
	}
	return req, nil
}

func (v *verdaccio) address() string { return v.addr }
func (v *verdaccio) process() int    { return v.cmd.Process.Pid }

// publication is what `npm publish` sends: a package document with the
// tarball attached.
func (v *verdaccio) publication(ctx context.Context, n int, version string, archive []byte) (*http.Request, error) {
	name := skillName(n)
	tarball := name + "-" + version + ".tgz"
	sum1, sum512 := sha1.Sum(archive), sha512.Sum512(archive) // npm's package documents carry it
	body, err := json.Marshal(map[string]any{
		"_id": name, "name": name,
		"dist-tags": map[string]any{"latest": version},
		"versions": map[string]any{version: map[string]any{
			"_id": name + "@" + version, "name": name, "version": version, "description": "Measures how fast packages are published.",
			"dist": map[string]any{
				"shasum":    hex.EncodeToString(sum1[:]),
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum512[:]),
				"tarball":   v.tarballURL(n, version),
			},
		}},
		"_attachments": map[string]any{tarball: map[string]any{
			"content_type": "application/octet-stream", "data": archive, "length": len(archive),
		}},
	})
	if err != nil {
		return nil, err
	}
	return v.put(ctx, "/"+name, bytes.NewReader(body))
}

func (v *verdaccio) tarballURL(n int, version string) string {
	name := skillName(n)
	return v.url + "/" + name + "/-/" + name + "-" + version + ".tgz"
}

// publishFirst publishes one package and returns where to download it.
func (v *verdaccio) publishFirst(ctx context.Context) (string, error) {
	content, err := archive(ctx, 0)
	if err != nil {
		return "", err
	}
	req, err := v.publication(ctx, 0, firstVersion, content)
	if err != nil {
		return "", err
	}
	return v.tarballURL(0, firstVersion), call(req, http.StatusCreated, nil)
}
