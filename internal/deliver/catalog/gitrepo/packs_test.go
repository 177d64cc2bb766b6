package gitrepo_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/gitrepo"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// A shelter hides the archives of all skills, so that no pack can be made.
type shelter struct {
	blob.Bucket
	hidden atomic.Bool
}

func (s *shelter) Get(ctx context.Context, key string) (io.ReadCloser, blob.Info, error) {
	if s.hidden.Load() {
		return nil, blob.Info{}, errors.New("hidden")
	}
	return s.Bucket.Get(ctx, key)
}

func newShelter(w *registrytest.World) *shelter {
	s := &shelter{Bucket: w.Registry.Blobs}
	w.Registry.Blobs = s
	return s
}

// TestKeptPacks: a second clone of the same commit reads no archive; what is removed is in
// no pack from then on.
func TestKeptPacks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		archives := newShelter(w)
		ada := w.Org("acme", access.Pro)
		leak := ada.Made("leak", "7.7.7", registrytest.Skill(t, "A zebra.", "zebra.bin", registrytest.Noise(2<<20)), public)
		ada.Made("shown", "1", registrytest.Skill(t, "Shown.", "large.bin", registrytest.Noise(2<<20)), public)
		first := files(t, clone(t, w, "/o/acme"))
		for _, options := range [][]string{nil, {"-c", "protocol.version=0"}} {
			archives.hidden.Store(true)
			if diff := cmp.Diff(first, files(t, clone(t, w, "/o/acme", options...))); diff != "" {
				t.Errorf("a clone from a kept pack differs:\n%.500s", diff)
			}
			archives.hidden.Store(false)
		}
		withdraw(ada, leak, "7.7.7")
		after := clone(t, w, "/o/acme")
		if out, _ := git(t, "-C", after, "grep", "zebra", "--", "."); strings.Contains(out, "zebra") || files(t, after)["plugins/leak/plugin.json"] != "" {
			t.Errorf("a clone after the withdrawal has the skill: %s", out)
		}
		ada.Made("later", "1", registrytest.Skill(t, "Later."), public)
		wantListed(t, w, "later")
	})
}

// wantListed waits until a clone has a skill. What was added to a shelf may come late: a
// history that takes long to make is kept for a while (catalog.Cache).
func wantListed(t *testing.T, w *registrytest.World, name string) {
	t.Helper()
	apptest.Eventually(t, "the clone to have "+name, func() bool {
		return files(t, clone(t, w, "/o/acme"))["plugins/"+name+"/plugin.json"] != ""
	})
}

// TestLargePacks: a pack that is too large to be kept is sent as it is made, each time.
func TestLargePacks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		archives := newShelter(w)
		plugins := &marketplace.Service{Catalog: w.Catalog}
		s := &gitrepo.Service{Catalog: w.Catalog, Marketplace: plugins}
		s.LimitPacks(1 << 20)
		s.Mount(w.API)
		ada := w.Org("acme", access.Pro)
		ada.Made("large", "1", registrytest.Skill(t, "Large.", "large.bin", registrytest.Noise(2<<20)), public)
		want := files(t, clone(t, w, "/o/acme"))
		if diff := cmp.Diff(want, files(t, clone(t, w, "/o/acme"))); diff != "" {
			t.Errorf("two clones differ:\n%.500s", diff)
		}
		archives.hidden.Store(true)
		out, ok := git(t, "clone", "--quiet", w.Server.URL+"/o/acme/marketplace.git", filepath.Join(t.TempDir(), "clone"))
		if ok || !strings.Contains(out, "the skills cannot be read now") {
			t.Errorf("a clone without archives: %v %s", ok, out)
		}
	})
}

// TestSlowClones: clones that read nothing keep no other one waiting, neither for memory nor
// for the processor.
func TestSlowClones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		archives := newShelter(w)
		plugins := &marketplace.Service{Catalog: w.Catalog}
		// Memory for one pack at a time.
		(&gitrepo.Service{Catalog: w.Catalog, Marketplace: plugins, Memory: httpapi.NewBudget(1, 0)}).Mount(w.API)
		ada := w.Org("acme", access.Pro)
		ada.Made("large", "1", registrytest.Skill(t, "Large.", "large.bin", registrytest.Noise(8<<20)), public)
		head := mustGit(t, "-C", clone(t, w, "/o/acme"), "rev-parse", "HEAD")
		archives.hidden.Store(true)
		body := lines("command=fetch", "0001", "want "+head, "done", "0000")
		for range 40 {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.Server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST /o/acme/marketplace.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nGit-Protocol: version=2\r\nContent-Length: %d\r\n\r\n%s",
				len(body), body)
			if err != nil {
				t.Fatal(err)
			}
			// Its answer has begun, and will not fit into the buffers of the connection.
			status, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
			if err != nil || !strings.Contains(status, "200") {
				t.Fatalf("a slow clone: %s %v", status, err)
			}
		}
		clone(t, w, "/o/acme")
	})
}

// A slow writer pauses before each write.
type slow time.Duration

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(s)) // in a bubble
	return len(p), nil
}

// TestPace cuts a reader off that is slower than the pace, and no other one.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pause time.Duration // before each 64 KiB
		want  error
	}{
		{"fast", 0, nil},
		{"twice the pace", time.Second, nil},
		{"half the pace", 4 * time.Second, gitrepo.ErrSlow},
		{"one stop", gitrepo.PaceGrace + time.Second, gitrepo.ErrSlow},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pace, err := gitrepo.Paced(slow(c.pause)), error(nil)
				for i := 0; i < 200 && err == nil; i++ {
					_, err = pace.Write(make([]byte, 2*gitrepo.MinPace))
				}
				if !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

// TestChangeDuringClone changes the shelf between the two requests of a clone. A clone
// that works is whole. After a removal it is refused, with what to do.
func TestChangeDuringClone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("stays", "1", registrytest.Skill(t, "Stays."), public)
		var change func()
		target, err := url.Parse(w.Server.URL)
		if err != nil {
			t.Fatal(err)
		}
		pass := httputil.NewSingleHostReverseProxy(target)
		between := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			// Version 2 lists the refs by POST, version 0 by GET: the fetch is what has wants.
			if change != nil && strings.Contains(string(body), "want") {
				change()
				change = nil
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			pass.ServeHTTP(rw, r)
		}))
		t.Cleanup(between.Close)
		for i, c := range []struct {
			name   string
			remove bool
			change func(id string)
		}{
			{"withdrawn", true, func(id string) { withdraw(ada, id, "1") }},
			{"deleted", true, func(id string) { ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent) }},
			{"private", true, func(id string) {
				ada.Do(http.MethodPatch, registrytest.EntryPath(id), object{"visibility": "org"}).Want(http.StatusOK)
			}},
			{"pushed", false, func(id string) { ada.Pushed(id, "2", registrytest.Skill(t, "New.")) }},
		} {
			for _, version := range []string{"2", "0"} {
				name := fmt.Sprintf("skill-%d-%s", i, version)
				id := ada.Made(name, "1", registrytest.Skill(t, "Changes."), public)
				wantListed(t, w, name)
				change = func() { c.change(id) }
				dir := filepath.Join(t.TempDir(), "clone")
				out, ok := git(t, "-c", "protocol.version="+version, "clone", "--quiet", between.URL+"/o/acme/marketplace.git", dir)
				switch {
				case ok:
					mustGit(t, "-C", dir, "fsck", "--strict", "--full")
					got := files(t, dir)
					if _, has := got["plugins/"+name+"/plugin.json"]; c.remove || !has || got["plugins/stays/plugin.json"] == "" {
						t.Errorf("%s, protocol %s: the clone has the skill: %t", c.name, version, has)
					}
				case c.remove && strings.Contains(out, "a skill was removed meanwhile: clone again"):
					// git insists on the commit that it was told of, which must not be read any more.
				default:
					t.Errorf("%s, protocol %s: %s", c.name, version, out)
				}
				if change != nil {
					t.Errorf("%s, protocol %s: nothing was fetched", c.name, version)
				}
			}
		}
	})
}
