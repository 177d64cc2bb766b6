package datadir

import (
	"log/slog"
	"sync"
	"time"
)

// A Reserve is free disk space that is kept for deletes and sign-ins: SQLite
// writes before it frees, and the person who makes room must be able to sign
// in.
type Reserve struct {
	Dir  string
	Size uint64 // in bytes; 0 keeps nothing free
	// Space is for tests: the function Space when nil.
	Space func(dir string) (free, total uint64, err error)
	Log   *slog.Logger

	mu        sync.Mutex
	checkedAt time.Time
	low       bool
}

const (
	// reserveTTL is how long the result of a check is cached: every write asks.
	reserveTTL = time.Second
	// maxReserveShare bounds the reserve on a small disk to a twentieth of it.
	maxReserveShare = 20
)

// ReserveOn returns how many bytes are reserved on a disk of that size.
func ReserveOn(total, size uint64) uint64 { return min(size, total/maxReserveShare) }

// Usage returns the free bytes of the disk, and how many are reserved.
func (r *Reserve) Usage() (free, reserved uint64, err error) {
	space := r.Space
	if space == nil {
		space = Space
	}
	free, total, err := space(r.Dir)
	return free, ReserveOn(total, r.Size), err
}

// HasRoom reports whether more is free than the reserve. If that cannot be
// found out, it assumes so.
func (r *Reserve) HasRoom() bool {
	if r.Size == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checkedAt) < reserveTTL {
		return !r.low
	}
	r.checkedAt = time.Now()
	free, reserved, err := r.Usage()
	low := err == nil && free < reserved
	switch {
	case low && !r.low:
		r.Log.Error("the disk is almost full: only reads, deletes and sign-ins are served", "free", free, "reserve", reserved)
	case !low && r.low:
		r.Log.Info("the disk has room again", "free", free)
	}
	r.low = low
	return !low
}
