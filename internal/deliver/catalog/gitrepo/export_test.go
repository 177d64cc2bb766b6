package gitrepo

import (
	"io"
	"time"
)

// LimitPacks sets the size up to which packs are kept. It must be called before Mount.
func (s *Service) LimitPacks(size int64) { s.maxPack = size }

// Paced is a writer that cuts slow readers off.
func Paced(w io.Writer) io.Writer { return &paced{Writer: w, began: time.Now()} }

const (
	PaceGrace = paceGrace
	MinPace   = minPace
)

var ErrSlow = errSlow
