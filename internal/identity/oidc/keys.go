package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

const (
	// freshFor is how long fetched keys are used without asking again.
	freshFor = time.Hour
	// staleFor is how long they are used if the issuer cannot be reached.
	staleFor = 24 * time.Hour
	// refetchAfter is the pause between two fetches from an issuer: tokens with unknown
	// keys must not make us ask it for each.
	refetchAfter = 30 * time.Second
	// fetchTimeout is for discovery and keys together.
	fetchTimeout = 10 * time.Second
	maxAnswer    = 256 << 10 // bytes of a discovery document, of keys or of userinfo
	// maxTokens is the largest answer with tokens in bytes: access and refresh token may
	// list the groups, too.
	maxTokens  = 3*MaxSignInToken + 16<<10
	maxKeys    = 64    // of an issuer
	maxIssuers = 1_000 // in the cache
	minRSA     = 2048  // bits
	maxRSA     = 8192  // bits; the cost of a verification grows with their square
)

// Keys fetches and caches the public keys of issuers. It is safe for concurrent use. Entries are
// per issuer, and a failure is cached like a success, so that an issuer that is down is asked at
// most every refetchAfter.
type Keys struct {
	client  *outbound.Client
	flights singleflight.Group
	now     func() time.Time

	mu     sync.Mutex
	cached *lru.Cache[string, fetched]
}

// fetched is the outcome of the last fetch from an issuer.
type fetched struct {
	about   Metadata
	keys    []jose.JSONWebKey
	at      time.Time // of the keys
	triedAt time.Time
	err     error // of the last try
}

// NewKeys returns an empty cache. The client's limits on time, size and redirects are
// replaced: a redirect could lead to keys of somebody else.
func NewKeys(client *outbound.Client) *Keys {
	return &Keys{
		client: client.With(outbound.Limits{Timeout: fetchTimeout, MaxBody: maxAnswer, MaxRedirects: -1}),
		cached: lru.New[string, fetched](maxIssuers), now: time.Now,
	}
}

// find returns the keys that may have signed a token: those with its key id or,
// without one, the only key that there is. A key id that isn't there may be a new key after a
// rotation, so the issuer is asked again; if it can't be reached, known keys stay good for
// staleFor.
func (k *Keys) find(ctx context.Context, issuer, id string) ([]jose.JSONWebKey, error) {
	f := k.lookup(issuer)
	if found := f.match(id); len(found) > 0 && k.since(f.at) < freshFor {
		return found, nil
	}
	if k.since(f.triedAt) >= refetchAfter {
		var err error
		if f, err = k.refetch(ctx, issuer); err != nil {
			return nil, err
		}
	}
	if found := f.match(id); len(found) > 0 && k.since(f.at) < staleFor {
		return found, nil
	}
	if f.err != nil {
		return nil, f.err
	}
	return nil, errNotValid()
}

func (k *Keys) since(t time.Time) time.Duration { return k.now().Sub(t) }

// match finds keys by id. Without an id in the token there must be only one key, or a signature
// could be tried with any of them.
func (f fetched) match(id string) []jose.JSONWebKey {
	if id == "" && len(f.keys) == 1 {
		return f.keys
	}
	var found []jose.JSONWebKey
	for _, key := range f.keys {
		if id != "" && key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

func (k *Keys) lookup(issuer string) fetched {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, _ := k.cached.Get(issuer)
	return f
}

// refetch asks an issuer for its keys, once for all who wait for them. The fetch goes
// on if the first of them leaves.
func (k *Keys) refetch(ctx context.Context, issuer string) (fetched, error) {
	flight := k.flights.DoChan(issuer, func() (any, error) {
		if f := k.lookup(issuer); k.since(f.triedAt) < refetchAfter { // another flight just ended
			return f, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		about, keys, err := k.fetch(ctx, issuer)
		k.mu.Lock()
		defer k.mu.Unlock()
		// Keys of before are kept if the fetch has failed.
		f, _ := k.cached.Get(issuer)
		f.triedAt, f.err = k.now(), err
		if err == nil {
			f.about, f.keys, f.at = about, keys, f.triedAt
		}
		k.cached.Put(issuer, f, 1)
		return f, nil
	})
	select {
	case <-ctx.Done():
		return fetched{}, ctx.Err()
	case done := <-flight:
		return done.Val.(fetched), done.Err
	}
}

// fetch reads the discovery document of an issuer, and the keys that it names. The document must
// name the issuer it was fetched for (OpenID Connect Discovery, section 4.3).
func (k *Keys) fetch(ctx context.Context, issuer string) (d Metadata, keys []jose.JSONWebKey, err error) {
	if err := k.get(ctx, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration", &d); err != nil {
		return d, nil, errUnreachable(issuer, err)
	}
	if d.Issuer != issuer {
		return d, nil, errUnreachable(issuer, errors.New("its discovery document names another issuer"))
	}
	if strings.HasPrefix(issuer, "https://") && !strings.HasPrefix(d.Keys, "https://") {
		return d, nil, errUnreachable(issuer, errors.New("its discovery document names keys without https"))
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, d.Keys, &set); err != nil {
		return d, nil, errUnreachable(issuer, err)
	}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// A key of a kind that we do not know must not hide the others.
		if json.Unmarshal(raw, &key) == nil && usable(key) && len(keys) < maxKeys {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return d, nil, errUnreachable(issuer, errors.New("it has no key that can verify a signature"))
	}
	return d, keys, nil
}

// get reads a JSON document. Addresses come from the issuer, so they go through outbound.
func (k *Keys) get(ctx context.Context, url string, into any) error {
	resp, err := k.client.Get(ctx, url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fault.New(fault.BadGateway, "it answers %d", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errors.New("its answer is not JSON")
	}
	return nil
}

// usable reports whether a key is a public key for signatures, of a size that is
// neither broken nor a burden. Larger RSA keys would make verifying a means of attack.
func usable(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSA && public.N.BitLen() <= maxRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false // a shared secret, or a private key
}

// errUnreachable says why there are no keys. What outbound says may be shown.
func errUnreachable(issuer string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	why := err.Error()
	if f, ok := errors.AsType[*fault.Error](err); ok {
		why = f.Message
	}
	return fault.New(fault.BadGateway, "The keys of %s cannot be fetched: %s", issuer, why).Because(err)
}
