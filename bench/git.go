package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const (
	gitSkills = 1_000
	gitClones = 5
	// gitLimit is how many seconds a clone may take.
	gitLimit = 3
)

// benchGit clones the marketplace of many skills, beside git's own server with the
// same repository.
func benchGit(ctx context.Context, l *lab) ([]row, error) {
	dir, err := l.folder("git")
	if err != nil {
		return nil, err
	}
	ours, err := l.startRegistry(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer ours.stop()
	for n := range gitSkills {
		if err := ours.createSmall(ctx, n); err != nil {
			return nil, err
		}
	}
	address := ours.url + "/o/default/marketplace.git"
	header := "http.extraHeader=Authorization: Bearer " + key
	first, err := cloneTime(ctx, dir, address, header)
	if err != nil {
		return nil, err
	}
	mirror := filepath.Join(dir, "mirror.git")
	if _, err := runGit(ctx, "-c", header, "clone", "--quiet", "--bare", address, mirror); err != nil {
		return nil, err
	}
	peer, stop, err := serveGit(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	var here, there []float64
	for range gitClones {
		took, err := cloneTime(ctx, dir, address, header)
		if err != nil {
			return nil, err
		}
		here = append(here, took)
		if took, err = cloneTime(ctx, dir, peer+"/mirror.git", header); err != nil {
			return nil, err
		}
		there = append(there, took)
	}
	slices.Sort(here)
	slices.Sort(there)
	return []row{
		{Name: "git: first clone of 1,000 skills", Figure: first, Unit: "s", Beside: limit, Other: gitLimit, AtMost: 1},
		{Name: "git: clone of 1,000 skills", Figure: here[gitClones/2], Unit: "s", Beside: "git http-backend", Other: there[gitClones/2], AtMost: 2},
	}, nil
}

// createSmall makes an entry with a skill of the usual size.
func (r *registry) createSmall(ctx context.Context, n int) error {
	text := fmt.Sprintf("---\nname: %s\ndescription: Use it to measure clones, number %d.\n---\n\n", skillName(n), n)
	var b bytes.Buffer
	words := rand.New(rand.NewPCG(uint64(n), 0)) // the same in every run
	for range 400 {
		text += fmt.Sprintf("word%d ", words.IntN(5_000))
	}
	_, err := skillpkg.Pack(ctx, fstest.MapFS{
		"SKILL.md": {Data: []byte(text)}, "scripts/run.sh": {Data: []byte(fmt.Sprintf("#!/bin/sh\necho %d\n", n)), Mode: 0o755},
	}, &b, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()})
	if err != nil {
		return err
	}
	req, err := r.upload(ctx, "/api/v1/registry", skillName(n), firstVersion, b.Bytes())
	if err != nil {
		return err
	}
	return call(req, http.StatusCreated, &struct{}{})
}

// cloneTime is how many seconds git takes for a clone, with its work tree.
func cloneTime(ctx context.Context, dir, address, header string) (float64, error) {
	to, err := os.MkdirTemp(dir, "clone")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(to)
	start := time.Now()
	_, err = runGit(ctx, "-c", header, "clone", "--quiet", address, to)
	return time.Since(start).Seconds(), err
}

func runGit(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", args[len(args)-1], err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// serveGit serves the repositories of a folder with git's own program.
func serveGit(ctx context.Context, dir string) (address string, stop func(), err error) {
	programs, err := runGit(ctx, "--exec-path")
	if err != nil {
		return "", nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &cgi.Handler{
		Path: filepath.Join(programs, "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return "http://" + listener.Addr().String(), func() {
		_ = server.Close() // ends the process's own listener
		<-ended
	}, nil
}
