package servertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
)

// An S3 is the S3 server of one test, which may stop it and start it again.
type S3 struct {
	Endpoint string
	BlobURL  string   // of an empty bucket
	Env      []string // with the keys

	key, secret string

	binary string
	dir    string
	addr   string
	cmd    *exec.Cmd
}

const bucket = "whetstone"

// StartS3 starts a server, which ends with the test. Without its program the
// test is skipped.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	s := &S3{binary: blobtest.ServerBinary(t), dir: t.TempDir()}
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.Endpoint = "http://" + s.addr
	query := url.Values{"region": {"us-east-1"}, "endpoint": {s.Endpoint}, "path_style": {"true"}}
	s.BlobURL = "s3://" + bucket + "?" + query.Encode()
	s.key, s.secret = rand.Text(), rand.Text()
	s.Env = []string{"AWS_ACCESS_KEY_ID=" + s.key, "AWS_SECRET_ACCESS_KEY=" + s.secret}
	// A folder of the server's root is a bucket.
	for _, dir := range []string{"meta", "data/" + bucket} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = s.Stop() })
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Start starts the server and returns when it answers.
func (s *S3) Start() error {
	// The sidecar stores metadata in files, because not every file system of a
	// temporary folder has extended attributes.
	s.cmd = exec.Command(s.binary, "--port", s.addr, "--region", "us-east-1", "--health", "/health", "--keep-alive", "--quiet",
		"posix", "--sidecar", filepath.Join(s.dir, "meta"), filepath.Join(s.dir, "data"))
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+s.key, "ROOT_SECRET_ACCESS_KEY="+s.secret)
	s.cmd.SysProcAttr = processOf(nil)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return AwaitOK(ctx, s.Endpoint+"/health")
}

// Stop kills the server; its data stays.
func (s *S3) Stop() error {
	if s.cmd == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
	s.cmd = nil
	return err
}

// AwaitOK requests a URL until it answers 200.
func AwaitOK(ctx context.Context, url string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		status := ""
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			status = resp.Status
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer 200: %s: %w", url, status, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// FreePort is a port that is not in use, below those that the kernel gives to
// outgoing connections, so that a server that is restarted gets it again.
func FreePort() (int, error) {
	for range 100 {
		port := 12_000 + mathrand.IntN(8_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}
