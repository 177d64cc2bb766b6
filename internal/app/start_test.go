package app_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// service is a service that runs for a test.
type service struct {
	*app.App
	url  string
	log  *apptest.Buffer
	stop func() error // asks it to stop, once, and returns what Run did
}

// settings are the defaults with a data folder, whose database is migrated,
// and a free port, and what the flags change.
func settings(t testing.TB, flags ...string) config.Config {
	t.Helper()
	var all struct {
		config.Config `embed:""`
	}
	parser, err := kong.New(&all)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(strings.TrimPrefix(storetest.URL(t, "sqlite"), "sqlite:"))
	if _, err := parser.Parse(append([]string{"--data", data, "--addr", "127.0.0.1:0"}, flags...)); err != nil {
		t.Fatal(err)
	}
	return all.Config
}

// start runs a service until the test ends or stop is called.
func start(t testing.TB, c config.Config, set ...func(*app.Options)) *service {
	t.Helper()
	log := &apptest.Buffer{}
	o := options(c, log)
	for _, f := range set {
		f(&o)
	}
	a, err := app.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, a, log)
}

func run(t testing.TB, a *app.App, log *apptest.Buffer) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	s := &service{App: a, url: a.ListenURL(), log: log, stop: sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

func options(c config.Config, log io.Writer) app.Options {
	handler := slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	return app.Options{Config: c, Version: "dev", Log: slog.New(handler)}
}

// as returns a caller with a key; "" is none.
func (s *service) as(t *testing.T, key string) *apptest.Caller {
	return &apptest.Caller{T: t, URL: s.url, Key: key}
}

// get returns the status and the body of a path.
func (s *service) get(t *testing.T, path, key string) (int, string) {
	t.Helper()
	r := s.as(t, key).Get(path)
	return r.Status, string(r.Body)
}

// wantStatus checks what paths answer.
func (s *service) wantStatus(t *testing.T, key string, want int, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if status, body := s.get(t, path, key); status != want {
			t.Errorf("GET %s: %d, want %d; %s", path, status, want, body)
		}
	}
}
