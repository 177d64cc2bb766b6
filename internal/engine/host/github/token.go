package github

import (
	"context"
	"net/http"
	"sync"
	"time"

	api "github.com/google/go-github/v89/github"

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
	made, resp, err := h.app.Apps.CreateInstallationToken(ctx, installation, &api.InstallationTokenOptions{})
	if err != nil {
		return "", appFailure(resp, err)
	}
	kept.value, kept.expires = made.GetToken(), made.GetExpiresAt().Time
	return kept.value, nil
}

// invalidate drops a token that was refused from the cache.
func (t *tokens) invalidate(installation int64) {
	kept := t.of(installation)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.expires = time.Time{}
}

// appFailure is failure for calls of the app itself.
func appFailure(resp *api.Response, err error) error {
	failed := failure(resp, err)
	if resp == nil || fault.Is(failed, fault.Limited) {
		return failed
	}
	switch resp.StatusCode {
	case http.StatusNotFound:
		return fault.New(fault.NotFound, "The installation is gone from the code host").Because(err)
	case http.StatusForbidden:
		return fault.New(fault.Denied, "The installation is suspended on the code host").Because(err)
	case http.StatusUnauthorized:
		return fault.New(fault.Denied, "The code host does not accept the app's id or private key").Because(err)
	}
	return failed
}
