package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	startLimit  = 0.15 // seconds
	memoryLimit = 65   // MB
	ownLimit    = 25   // MB
	sizeLimit   = 62   // MB
	idle        = 3 * time.Second
	mega        = 1e6
)

// benchStart measures what somebody meets who tries Whetstone: how soon it is
// there, and what it takes from the machine.
func benchStart(ctx context.Context, l *lab) ([]row, error) {
	size, err := checkBinary(l.binary)
	if err != nil {
		return nil, err
	}
	var empty, existing []float64
	var data string
	for range l.rounds() {
		if data, err = l.folder("start"); err != nil {
			return nil, err
		}
		for _, times := range []*[]float64{&empty, &existing} {
			took, err := l.timeStart(ctx, data)
			if err != nil {
				return nil, err
			}
			*times = append(*times, took.Seconds())
		}
	}
	memory, own, err := l.idleMemory(ctx, data)
	rows := []row{
		{Name: "start: empty folder", Figure: slices.Min(empty), Unit: "s", Beside: limit, Other: startLimit, AtMost: 1},
		{Name: "start: existing folder", Figure: slices.Min(existing), Unit: "s", Beside: limit, Other: startLimit, AtMost: 1},
		{Name: "start: static binary", Figure: size, Unit: "MB", Beside: limit, Other: sizeLimit, AtMost: 1},
	}
	if err != nil {
		return rows, fmt.Errorf("idle memory: %w", err)
	}
	return append(rows,
		row{Name: "start: idle memory", Figure: memory, Unit: "MB", Beside: limit, Other: memoryLimit, AtMost: 1},
		row{Name: "start: idle memory, its own", Figure: own, Unit: "MB", Beside: limit, Other: ownLimit, AtMost: 1}), nil
}

// timeStart is the time from the start of the process until it is ready.
func (l *lab) timeStart(ctx context.Context, data string) (time.Duration, error) {
	start := time.Now()
	s, err := l.serve(ctx, data)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	return time.Since(start), nil
}

// idleMemory is the resident memory of a server that has done nothing for a while, in
// MB: all of it, and without the pages of files, which are those of the program.
func (l *lab) idleMemory(ctx context.Context, data string) (all, own float64, err error) {
	s, err := l.serve(ctx, data)
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(idle):
	}
	if all, err = residentMemory(s.cmd.Process.Pid); err != nil {
		return 0, 0, err
	}
	own, err = memoryOf(s.cmd.Process.Pid, "RssAnon")
	return all, own, err
}

func residentMemory(pid int) (float64, error) { return memoryOf(pid, "VmRSS") }

// memoryOf is a line of /proc/PID/status, in MB.
func memoryOf(pid int, name string) (float64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("/proc, which tells the memory of a process, is %w", errMissing)
	}
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		var kib float64
		if _, err := fmt.Sscanf(string(line), name+": %f kB", &kib); err == nil {
			return kib * 1024 / mega, nil
		}
	}
	return 0, errors.New("the system does not tell the memory of a process")
}

// checkBinary refuses a binary that was built with cgo, and returns its size
// in MB.
func checkBinary(path string) (float64, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return 0, err
	}
	static := false
	for _, s := range info.Settings {
		static = static || s.Key == "CGO_ENABLED" && s.Value == "0"
	}
	if !static {
		return 0, errors.New("the binary was built with cgo")
	}
	stat, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(stat.Size()) / mega, nil
}
