package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

const (
	// maxPacks bounds the bytes of all kept packs, in temporary files.
	maxPacks = 512 << 20
	// maxPack is the size up to which a pack is kept. Larger ones are made for each clone.
	maxPack = 128 << 20
	// A kept pack that is small enough for memory costs that many times its size.
	memoryCost = 16
	// packTimeout bounds the making of a pack that is kept.
	packTimeout = 2 * time.Minute
	// A client that reads more slowly than minPace bytes a second after the grace is cut off.
	paceGrace = time.Minute
	minPace   = 32 << 10
)

// A packKey names a pack. Commits are named by their content, so that what has the same
// key is the same pack.
type packKey struct {
	registry.Shelf
	top, bottom gittree.Hash
	have        int64
}

func (k packKey) String() string {
	return fmt.Sprintf("%t %q %q %s %s %d", k.Private, k.OrgName, k.Sets, k.top, k.bottom, k.have)
}

// A kept pack is nil if it is too large to be kept.
type keptPack struct{ *spool.Spool }

func (p keptPack) cost() int64 {
	switch {
	case p.Spool == nil:
		return 1 << 10
	case p.InFile():
		return p.Size()
	}
	return memoryCost*p.Size() + 4<<10
}

// errLarge says that a pack is too large to be kept.
var errLarge = errors.New("too large to be kept")

// pack returns what a selection is sent as, kept or newly made: an 8 MB clone takes 0.7 s of
// processor time to make, and none to send again. While it is sent it may be evicted, which
// ends the clone: by then maxPacks of others were made.
func (s *Service) pack(ctx context.Context, sh catalog.Shelf, r *repo, sel selection) (keptPack, error) {
	key := packKey{Shelf: sh.Shelf, have: sel.have}
	if n := len(sel.commits); n > 0 {
		key.top, key.bottom = sel.commits[0].hash, sel.commits[n-1].hash
	}
	if known, ok := s.packs.Get(key); ok {
		return known, nil
	}
	// It is made for all requests that wait, so it must not be cancelled with one of them.
	made := s.packing.DoChan(key.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), packTimeout)
		defer cancel()
		file, err := spool.Fill(-1, func(w io.Writer) error {
			return s.writePack(ctx, &bounded{w, s.maxPack}, r, sel)
		})
		if err != nil && !errors.Is(err, errLarge) {
			return nil, err
		}
		kept := keptPack{file}
		s.packs.Put(key, kept, kept.cost())
		return kept, nil
	})
	select {
	case result := <-made:
		if result.Err != nil {
			return keptPack{}, result.Err
		}
		return result.Val.(keptPack), nil
	case <-ctx.Done():
		return keptPack{}, ctx.Err()
	}
}

// A bounded writer fails with errLarge instead of taking more bytes than are left.
type bounded struct {
	io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errLarge
	}
	return b.Writer.Write(p)
}

// errSlow says that a client reads too slowly.
var errSlow = errors.New("the client reads too slowly")

// A paced writer fails once its reader has been slower than minPace. One that reads nothing
// is cut off by the server's own deadline.
type paced struct {
	io.Writer
	began time.Time
	sent  int64
}

func (p *paced) Write(b []byte) (int, error) {
	if time.Since(p.began) > paceGrace+time.Duration(p.sent/minPace)*time.Second {
		return 0, errSlow
	}
	n, err := p.Writer.Write(b)
	p.sent += int64(n)
	return n, err
}
