package agents_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// Words that occur in what is said and read in every session. They must not
// reach the service's disk, except those of prompts that are imported.
const (
	promptWord  = "HELIOTROPE"
	replyWord   = "TURMERIC"
	fileWord    = "OBSIDIAN"
	commandWord = "QUICKSILVER"
)

// agentTime bounds one run of an agent, which takes a few seconds.
const agentTime = 3 * time.Minute

// An agent has a home and a project of its own, and reports to one
// organisation through a recorder.
type agent struct {
	home, project string
	telemetry     *recorder
	org           organisation
}

func newAgent(t *testing.T, o organisation) agent {
	t.Helper()
	home := t.TempDir()
	t.Cleanup(func() { // a hook may still write down that it has sent everything
		apptest.Eventually(t, "the agent's home to be removed", func() bool { return os.RemoveAll(home) == nil })
	})
	a := agent{home: home, project: filepath.Join(home, "project"), telemetry: newRecorder(t, o.service), org: o}
	if err := os.Mkdir(filepath.Join(home, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.write(t, "project/invoice.txt", "Pencils 12.50 "+fileWord+"\n")
	return a
}

func (a agent) write(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(a.home, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func skillFile(name string) string {
	return "---\nname: " + name + "\ndescription: Extracts tables from PDF files. Use it for invoices.\n---\n" +
		"Read the invoice and answer in one line. " + fileWord + "\n"
}

// run runs a program in the project until it ends.
func (a agent) run(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), agentTime)
	defer cancel()
	cmd := a.command(ctx, env, program, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", filepath.Base(program), args, err, &output)
	}
}

// command is a program in the project, with the agent's home.
func (a agent) command(ctx context.Context, env []string, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = a.project
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + a.home, "TMPDIR=" + a.home + "/tmp", "CLAUDE_CODE_TMPDIR=" + a.home + "/tmp",
		// Port 9 of loopback is closed. What ignores the switches against traffic
		// ends there, if it is not in a network of its own anyway.
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1",
		"DO_NOT_TRACK=1",
	}, env...)
	return cmd
}
