package blobtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

const region = "us-east-1"

// S3 returns the options of a new bucket at a real S3 server. All tests of a
// binary share the server, which ends with the binary; its keys are in the
// environment of the binary and so of the processes it starts.
//
// The server is versitygw, named by WHETSTONE_VERSITYGW or put where
// scripts/install-versitygw puts it. Without it the test is skipped, but fails
// where CI is set or WHETSTONE_REQUIRE is "all".
func S3(t testing.TB) blob.Options {
	t.Helper()
	ServerBinary(t)
	server, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	client, err := minio.New(server.addr, &minio.Options{Creds: credentials.NewEnvAWS(), Region: region})
	if err != nil {
		t.Fatal(err)
	}
	bucket := "test-" + strings.ToLower(rand.Text())
	if err := client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	query := url.Values{
		"region":     {region},
		"endpoint":   {"http://" + server.addr},
		"path_style": {"true"},
	}
	return blob.Options{URL: "s3://" + bucket + "?" + query.Encode()}
}

// ServerBinary returns the path of the S3 server, for a test that starts its
// own. Without it the test is skipped as S3 says.
func ServerBinary(t testing.TB) string {
	t.Helper()
	binary := serverBinary()
	_, err := os.Stat(binary)
	if err == nil {
		return binary
	}
	message := fmt.Sprintf("no S3 server, run scripts/install-versitygw: %v", err)
	if os.Getenv("CI") != "" || os.Getenv("WHETSTONE_REQUIRE") == "all" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

func serverBinary() string {
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache"))
	return cmp.Or(os.Getenv("WHETSTONE_VERSITYGW"), filepath.Join(cache, "whetstone", "bin", "versitygw"))
}

// A server is an S3 server that runs for as long as stdin is open. Whoever
// drops it lets the garbage collector close that.
type server struct {
	addr  string
	stdin io.WriteCloser
}

var sharedServer = sync.OnceValues(startServer)

// The shell ends the server when our end of its standard input closes, which
// happens however this process ends.
const serverScript = `dir=$1; shift; "$@" & read -r end; kill $!; wait; rm -rf "$dir"`

func startServer() (_ *server, err error) {
	dir, err := os.MkdirTemp("", "whetstone-s3-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	key, secret := rand.Text(), rand.Text()
	data, meta := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	logName := filepath.Join(dir, "log")
	log, err := os.Create(logName)
	if err := errors.Join(err, os.Mkdir(data, 0o700), os.Mkdir(meta, 0o700)); err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()

	// The sidecar keeps metadata in files: not every file system of a temporary
	// folder has extended attributes.
	cmd := exec.Command("sh", "-c", serverScript, "sh", dir,
		serverBinary(), "--port", addr, "--region", region, "--health", "/health", "--keep-alive", "--quiet",
		"posix", "--sidecar", meta, data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+key, "ROOT_SECRET_ACCESS_KEY="+secret)
	cmd.Stdout, cmd.Stderr = log, log
	// An interrupt from the keyboard must not reach the shell before its clean-up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := waitReady(addr); err != nil {
		output, _ := os.ReadFile(logName)
		return nil, errors.Join(fmt.Errorf("S3 server: %w\n%s", err, output), stdin.Close(), cmd.Wait())
	}
	// Buckets take their keys from the environment.
	return &server{addr, stdin}, errors.Join(
		os.Setenv("AWS_ACCESS_KEY_ID", key), os.Setenv("AWS_SECRET_ACCESS_KEY", secret), os.Unsetenv("AWS_SESSION_TOKEN"))
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func waitReady(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
