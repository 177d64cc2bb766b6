package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing/fstest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

const (
	validateFiles = 200
	validateBytes = 4_000 // of each file
	validateLimit = 50    // milliseconds
)

// benchValidate measures the check of a large skill, from the opened archive
// to the report: somebody waits for it after every upload.
func benchValidate(ctx context.Context, l *lab) ([]row, error) {
	p, err := l.largeSkill(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var times []float64
	for range 10 * l.rounds() {
		start := time.Now()
		if _, err := lint.Check(ctx, p); err != nil {
			return nil, err
		}
		times = append(times, float64(time.Since(start))/float64(time.Millisecond))
	}
	return []row{{
		Name: fmt.Sprintf("validate: %d files", validateFiles), Figure: slices.Min(times), Unit: "ms",
		Beside: limit, Other: validateLimit, AtMost: 1,
	}}, nil
}

// benchScript is like most scripts of skills: it reads a file, starts a
// program and talks to a service.
const benchScript = `import json, os, subprocess, sys, urllib.request

def convert(path, token=os.environ.get("SERVICE_TOKEN", "")):
    """Convert a file; tell the user about pages that could not be read."""
    out = subprocess.run(["pdftotext", "-layout", path, "-"], capture_output=True, check=True)
    rows = [line.split() for line in out.stdout.decode().splitlines() if line.strip()]
    request = urllib.request.Request("https://api.example.com/v1/tables", headers={"Authorization": token})
    with urllib.request.urlopen(request) as answer:
        return {"rows": rows, "known": json.load(answer)}

`

// largeSkill packs a skill whose references are our own documentation and
// whose other half are scripts.
func (l *lab) largeSkill(ctx context.Context) (*skillpkg.Package, error) {
	prose, err := l.prose()
	if err != nil {
		return nil, err
	}
	script := bytes.Repeat([]byte(benchScript), validateBytes/len(benchScript)+1)
	folder := fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: bench\ndescription: Use it to measure how fast skills are checked.\n---\n\nRun the scripts.\n")}}
	for i := range validateFiles - 1 {
		name, text := fmt.Sprintf("scripts/%03d.py", i), script
		if i%2 == 0 {
			at := i * validateBytes % (len(prose) - validateBytes)
			name, text = fmt.Sprintf("references/%03d.md", i), prose[at:at+validateBytes]
		}
		folder[name] = &fstest.MapFile{Data: text}
	}
	limits := skillpkg.DefaultLimits()
	var b bytes.Buffer
	if _, err := skillpkg.Pack(ctx, folder, &b, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: limits}); err != nil {
		return nil, err
	}
	return skillpkg.Open(ctx, bytes.NewReader(b.Bytes()), int64(b.Len()), limits)
}

// prose is the text of the documentation.
func (l *lab) prose() ([]byte, error) {
	names, err := filepath.Glob(filepath.Join(l.root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, text...)
	}
	if len(all) <= validateBytes {
		return nil, errors.New("docs/ is too short to make a skill of")
	}
	return all, nil
}
