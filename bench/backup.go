package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// backupSlowdown is what the speed may fall to from few rows to many.
const backupSlowdown = 0.5

// benchBackup measures how many rows a second are saved and restored. The
// speed must hold as data grow: a database of a year must not take a day.
func benchBackup(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.backupOn)
}

func (l *lab) backupOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	few, many := readSize{"20 k", 20_000}, readSize{"300 k", 300_000}
	if l.quick {
		many = readSize{"100 k", 100_000}
	}
	small, err := l.saveAndRestore(ctx, fresh, few.count)
	if err != nil {
		return nil, err
	}
	large, err := l.saveAndRestore(ctx, fresh, many.count)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("backup: %s, %s observations, ", database, many.name)
	return []row{
		{Name: name + "saved", Figure: large.saved, Unit: "rows/s", Beside: few.name, Other: small.saved, AtLeast: backupSlowdown},
		{Name: name + "restored", Figure: large.restored, Unit: "rows/s", Beside: few.name, Other: small.restored, AtLeast: backupSlowdown},
	}, nil
}

// A pace is how many rows a second were saved and restored.
type pace struct{ saved, restored float64 }

// saveAndRestore fills a database, saves it, and fills another from that.
func (l *lab) saveAndRestore(ctx context.Context, fresh func() (string, error), observations int) (p pace, err error) {
	from, err := fresh()
	if err != nil {
		return p, err
	}
	s, err := l.serveObserved(ctx, func() (string, error) { return from, nil }, observer{count: observations, skills: readSkills, days: readDays})
	if err != nil {
		return p, err
	}
	s.stop()
	to, err := fresh()
	if err != nil {
		return p, err
	}
	folder, err := l.folder("backup")
	if err != nil {
		return p, err
	}
	file := filepath.Join(folder, "backup.tar.zst")
	if p.saved, err = l.rowsPerSecond(ctx, "backup", file, from); err != nil {
		return p, err
	}
	p.restored, err = l.rowsPerSecond(ctx, "restore", file, to)
	return p, err
}

// rowsPerSecond runs backup or restore.
func (l *lab) rowsPerSecond(ctx context.Context, command, file, url string) (float64, error) {
	data, err := l.folder(command)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, l.binary, command, file, "--data", data, "--database-url", url, "--json")
	cmd.Env = environment()
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", command, err, problem.String())
	}
	took := time.Since(start)
	var done struct{ Tables map[string]int64 }
	if err := json.Unmarshal(out.Bytes(), &done); err != nil {
		return 0, fmt.Errorf("what %s said: %w", command, err)
	}
	rows := int64(0)
	for _, n := range done.Tables {
		rows += n
	}
	return float64(rows) / took.Seconds(), nil
}
