package telemetry_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

// retention is that of the tests.
const retention = 90 * 24 * time.Hour

type object = apptest.Object

// world is the service as internal/app wires it.
type world struct {
	*apptest.World
	bucket        *bucket
	registry      *registry.Service
	release       *release.Service
	installations *installations.Service
	evidence      *content.Service
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{bucket: &bucket{}}
	w.World = apptest.NewWorld(t, db, apptest.Options{Blobs: func(files blob.Bucket) blob.Bucket {
		w.bucket.Bucket = files
		return w.bucket
	}})
	money := &costs.Service{DB: db, Jobs: w.Queue, Prices: pricing.Embedded()}
	counts := &skills.Service{
		DB: db, Window: 30, Costs: money,
		Versions: registry.History{}, Installations: installations.History{}, Plugins: plugins.History{},
	}
	w.registry = &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Log: w.Log}
	w.evidence = &content.Service{DB: db, Jobs: w.Queue, Seal: sealtest.Keyring(), Retention: retention}
	opened := &sessions.Service{DB: db, Skills: counts, Costs: money, Registry: w.registry, Content: w.evidence}
	curated := &curate.Service{DB: db, Jobs: w.Queue, Skills: counts}
	s := &telemetry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Curate: curated, Costs: money, Sessions: opened, Evidence: w.evidence,
		Auth: w.Auth, Retention: retention, Log: w.Log,
	}
	w.installations = &installations.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Registry: w.registry}
	w.release = &release.Service{DB: db, Registry: w.registry}
	w.registry.OnEntryDeleted = w.installations
	s.Register()
	money.Register()
	curated.Register()
	curated.Mount(w.API)
	counts.Mount(w.API)
	money.Mount(w.API)
	w.registry.Mount(w.API)
	w.release.Mount(w.API)
	opened.Mount(w.API)
	w.evidence.Mount(w.API)
	s.Mount(w.API)
	return w
}

// bucket is a real bucket with a hook for tests.
type bucket struct {
	blob.Bucket
	afterPut atomic.Pointer[func()] // called when a blob has been stored
}

// Put stores a blob and then calls the hook.
func (b *bucket) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	err := b.Bucket.Put(ctx, key, r, size)
	if after := b.afterPut.Load(); after != nil {
		(*after)()
	}
	return err
}

// org makes an organisation and an owner of it.
func (w *world) org(name string) *client {
	w.T.Helper()
	return &client{w.Org(name)}
}

// member adds a person to an organisation, whose key has all permissions of
// the role, or only those given.
func (w *world) member(o auth.Organisation, role access.Role, permissions ...access.Permission) *client {
	w.T.Helper()
	return &client{w.Member(o, role, permissions...)}
}

// client calls the API with one person's key.
type client struct{ *apptest.Caller }

// in returns the client for a subtest or a check.
func (c *client) in(t apptest.T) *client { return &client{c.In(t)} }

// push sends records, each array under its name, under a push_id of their own
// or, where that is empty, without.
func (c *client) push(pushID string, canonical object) apptest.Response {
	c.T.Helper()
	body := object{"schema_version": "2.0", "canonical": canonical}
	if pushID != "" {
		body["push_id"] = pushID
	}
	return c.pushBody(body)
}

func (c *client) pushBody(body any) apptest.Response {
	c.T.Helper()
	return c.Do(http.MethodPost, "/api/v1/push", body)
}
