package keyrules

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	// refusalInterval is how often the audit log says that a key was used from an
	// address that it does not allow: whoever has such a key must not be able to fill
	// the log.
	refusalInterval = time.Hour
	// maxRefusals bounds the memory of Refusals.
	maxRefusals = 10_000
)

// Refusals refuses keys that are used from addresses that they do not allow. It
// remembers which ones it has written to the audit log.
type Refusals struct {
	mu   sync.Mutex
	last map[string]time.Time // by key id
}

// A Use is that of a key in a request.
type Use struct {
	DB      *store.DB
	Log     *slog.Logger
	Caller  access.Caller
	KeyName string
	Allowed AllowList
}

// Check returns fault.Denied if the key does not work from the client's address. The message has
// the address as the server sees it, since behind a proxy that may not be the expected one.
func (r *Refusals) Check(ctx context.Context, u Use) error {
	addr := httpapi.ClientAddr(ctx)
	if u.Allowed.Allows(addr) {
		return nil
	}
	if r.first(u.Caller.KeyID) {
		if err := u.record(ctx); err != nil {
			u.Log.Warn("the refusal of a key was not written to the audit log", "error", err)
		}
	}
	return fault.New(fault.Denied, "This API key does not work from the address %s", addr)
}

// first reports whether the key was not refused within refusalInterval, as far as this
// process knows. It bounds the number of queries that a refused key can cause.
func (r *Refusals) first(keyID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.last[keyID]; ok && time.Since(at) < refusalInterval {
		return false
	}
	if r.last == nil || len(r.last) >= maxRefusals {
		r.last = map[string]time.Time{}
	}
	r.last[keyID] = time.Now()
	return true
}
