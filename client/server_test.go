package client_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// A service is the real service on its own database.
type service struct {
	config config.Config
	url    string
	key    string
}

func startService(t *testing.T) service {
	t.Helper()
	var all struct {
		config.Config `embed:""`
	}
	parser, err := kong.New(&all)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(strings.TrimPrefix(storetest.URL(t, "sqlite"), "sqlite:"))
	if _, err := parser.Parse([]string{"--data", data, "--addr", "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{Config: all.Config, Version: "dev", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return service{all.Config, a.ListenURL(), a.FirstKey}
}

func (s service) client() *client.Client {
	return client.New(client.Options{Server: s.url + "/", APIKey: s.key, UserAgent: "test"})
}

// relayKey makes a key that may name the contributors of signals.
func (s service) relayKey(t *testing.T) string {
	t.Helper()
	db, err := app.OpenDatabase(t.Context(), s.config.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	people := &auth.Service{DB: db}
	o, err := people.OrgByName(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	_, _, raw, err := people.IssueKey(t.Context(), auth.Holder{Role: access.Owner}, auth.NewKey{OrgID: o.ID, Name: "relay", Relay: true})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// upload makes an upload of a skill whose SKILL.md has the text.
func upload(t *testing.T, name, version, text string) client.Upload {
	t.Helper()
	skill := []byte("---\nname: " + name + "\ndescription: Reads tables.\n---\n" + text)
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	members := tar.NewWriter(packed)
	if err := members.WriteHeader(&tar.Header{Name: "SKILL.md", Size: int64(len(skill)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := members.Write(skill); err != nil {
		t.Fatal(err)
	}
	if err := members.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return client.Upload{
		Name: name, Version: version, ContentHash: hash(b.Bytes()),
		FileManifest: []client.File{{Path: "SKILL.md", Hash: hash(skill), Size: int64(len(skill))}},
		Archive:      bytes.NewReader(b.Bytes()), Size: int64(b.Len()),
	}
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// wantStatus checks that the server has answered with an error.
func wantStatus(t *testing.T, err error, status int, message string) {
	t.Helper()
	if client.Status(err) != status || !strings.Contains(err.Error(), message) {
		t.Errorf("got %v, want the status %d and %q", err, status, message)
	}
}
