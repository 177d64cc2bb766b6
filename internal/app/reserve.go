package app

import (
	"log/slog"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/config"
)

// A reserve is the free space of the data folder's disk that is kept for
// deletes and sign-ins: SQLite writes before it frees, and whoever makes room
// must be able to get in.
type reserve struct {
	dir  string
	size uint64
	// space tells how much is free, and how much there is in all.
	space func(dir string) (free, total uint64, err error)
	log   *slog.Logger

	mu      sync.Mutex
	looked  time.Time
	lacking bool
}

const (
	// lookEvery is for how long a look at the disk holds.
	lookEvery = time.Second
	// reservePart bounds the reserve of a small disk: a twentieth of it.
	reservePart = 20
)

// newReserve returns nil where nothing is written to the data folder, or no
// reserve is wanted.
func newReserve(c config.Config, log *slog.Logger) *reserve {
	if c.DiskReserve == 0 || c.DatabaseURL != "" && c.BlobURL != "" {
		return nil
	}
	return &reserve{dir: c.Data, size: uint64(c.DiskReserve), space: diskSpace, log: log} //nolint:gosec // it is not negative
}

// of is the reserve of a disk of that size.
func (r *reserve) of(total uint64) uint64 { return min(r.size, total/reservePart) }

// room reports whether more is free than the reserve, which it looks up once a
// second. Where that is not known it hopes for the best.
func (r *reserve) room() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < lookEvery {
		return !r.lacking
	}
	r.looked = time.Now()
	free, total, err := r.space(r.dir)
	lacking := err == nil && free < r.of(total)
	switch {
	case lacking && !r.lacking:
		r.log.Error("the disk is almost full: only reads, deletes and sign-ins are served", "free", free, "reserve", r.of(total))
	case !lacking && r.lacking:
		r.log.Info("the disk has room again", "free", free)
	}
	r.lacking = lacking
	return !lacking
}
