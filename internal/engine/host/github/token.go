package github

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// tokenMargin is how long before its expiry a token is no longer used: the
// download of a tarball may take minutes.
const tokenMargin = 5 * time.Minute

// tokens caches the tokens of installations. A lock per installation makes sure
// that each is requested once at a time (singleflight).
type tokens struct {
	mu  sync.Mutex
	all map[int64]*token
}

type token struct {
	mu      sync.Mutex
	value   string
	expires time.Time
}

func (t *tokens) of(installation int64) *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[int64]*token{}
	}
	if t.all[installation] == nil {
		t.all[installation] = &token{}
	}
	return t.all[installation]
}

// get returns a token that is valid for at least tokenMargin.
func (t *tokens) get(ctx context.Context, h *Host, installation int64) (string, error) {
	kept := t.of(installation)
	// Held during the request, so that concurrent calls wait for one token instead
	// of each making its own. Other installations have their own lock.
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if time.Until(kept.expires) > tokenMargin {
		return kept.value, nil
	}
	var made struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	err := h.appCall(ctx, http.MethodPost, fmt.Sprintf("/app/installations/%d/access_tokens", installation), &made)
	if err != nil {
		return "", err
	}
	kept.value, kept.expires = made.Token, made.ExpiresAt
	return kept.value, nil
}

// invalidate drops a token that was refused from the cache.
func (t *tokens) invalidate(installation int64) {
	kept := t.of(installation)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.expires = time.Time{}
}

// appCall makes a call as the app itself.
func (h *Host) appCall(ctx context.Context, method, path string, out any) error {
	token, err := h.app.token(time.Now())
	if err != nil {
		return err
	}
	got, err := h.send(ctx, h.plain, token, method, path, nil, out)
	if err == nil || fault.Is(err, fault.Limited) {
		return err
	}
	switch got.status {
	case http.StatusNotFound:
		return fault.New(fault.NotFound, "The installation is gone from the code host").Because(err)
	case http.StatusForbidden:
		return fault.New(fault.Denied, "The installation is suspended on the code host").Because(err)
	case http.StatusUnauthorized:
		return fault.New(fault.Denied, "The code host does not accept the app's id or private key").Because(err)
	}
	return err
}
