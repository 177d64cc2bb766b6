package auth

import (
	"context"
	"crypto/subtle"
	"maps"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const (
	// keptFor is how long a look-up is believed, from its beginning. It keeps
	// the promise that a revocation works within 5 s.
	keptFor = 2 * time.Second
	// maxHolders bounds the memory of the look-ups.
	maxHolders = 10_000
	// touchEvery is how often the last use of keys is written.
	touchEvery = 10 * time.Second
)

// Authenticate returns the caller who holds the key. A key that is unknown,
// revoked or expired is fault.Unauthorized.
func (s *Service) Authenticate(ctx context.Context, raw string) (access.Caller, error) {
	sum := hash(raw)
	h, ok := s.holders.get(sum)
	if !ok {
		if !goodKey.MatchString(raw) {
			return access.Caller{}, badKey()
		}
		asked := time.Now()
		var err error
		if h, err = holderByHash(ctx, s.DB, sum); fault.Is(err, fault.NotFound) {
			return access.Caller{}, badKey()
		} else if err != nil {
			return access.Caller{}, err
		}
		s.holders.put(sum, h, asked)
	}
	if subtle.ConstantTimeCompare([]byte(h.hash), []byte(sum)) != 1 {
		return access.Caller{}, badKey()
	}
	if err := checkGood(h.revokedAt, h.expiresAt); err != nil {
		return access.Caller{}, err
	}
	s.holders.used(h.caller.KeyID)
	return h.caller, nil
}

func badKey() error { return fault.New(fault.Unauthorized, "Unknown API key") }

// Run writes the last use of keys from time to time, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(touchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.touch(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			s.touch(last)
			cancel()
			return nil
		}
	}
}

func (s *Service) touch(ctx context.Context) {
	uses := s.holders.takeUses()
	if len(uses) == 0 {
		return
	}
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		for id, at := range uses {
			if err := touchKey(ctx, tx, id, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.Log.Warn("the last use of keys was not written", "error", err)
	}
}

// holders remembers look-ups for a moment, and which keys were used.
type holders struct {
	mu      sync.Mutex
	known   map[string]knownHolder // by hash
	cleared time.Time
	uses    map[string]time.Time // by key id
}

type knownHolder struct {
	holder
	asked time.Time
}

func (h *holders) get(hash string) (holder, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k, ok := h.known[hash]
	return k.holder, ok && time.Since(k.asked) < keptFor
}

// put remembers what a look-up found, unless something changed since it began.
func (h *holders) put(hash string, found holder, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !asked.After(h.cleared) {
		return
	}
	if h.known == nil || len(h.known) >= maxHolders {
		h.known = map[string]knownHolder{}
	}
	h.known[hash] = knownHolder{found, asked}
}

// clear forgets all look-ups. It is called after the change is committed.
func (h *holders) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known, h.cleared = nil, time.Now()
}

func (h *holders) used(keyID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses == nil {
		h.uses = map[string]time.Time{}
	}
	h.uses[keyID] = time.Now()
}

func (h *holders) takeUses() map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	uses := maps.Clone(h.uses)
	h.uses = nil
	return uses
}
