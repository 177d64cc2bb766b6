package registry_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// item is what a client of sync has.
func item(id string, hash any) object {
	return object{"entry_id": id, "current_version_hash": hash}
}

// sync asks about the items and returns the entries of the answer.
func (c *client) sync(items ...object) []object {
	c.t.Helper()
	return c.post(registryPath+"/sync", object{"installations": items}).want(http.StatusOK).list("entries")
}

// statuses are the sync statuses of what the client installed, oldest first.
func (c *client) statuses() string {
	c.t.Helper()
	var all []string
	for _, i := range c.get(registryPath + "/installed").want(http.StatusOK).list("installations") {
		all = append(all, text(i, "sync_status"))
	}
	return strings.Join(all, " ")
}

func TestSync(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.entryOf("pdf", 2)
		v := ada.versions(id)
		one, two := text(v["1"], "content_hash"), text(v["2"], "content_hash")
		for _, c := range []struct {
			name, hash string
			update     bool
			current    any
		}{
			{"up to date", two, false, "2"},
			{"behind", one, true, "1"},
			{"of no version", sum([]byte("edited")), true, nil},
			{"none", "none", true, nil},
			{"no hash", "", true, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				answers := [][]object{ada.in(t).sync(item(id, c.hash))}
				if c.hash != "" { // a query has no way to say it
					query := url.Values{"entry_id": {id}, "hash": {c.hash}}.Encode()
					answers = append(answers, ada.in(t).get(registryPath+"/sync/check?"+query).want(http.StatusOK).list("entries"))
				}
				for _, got := range answers {
					if len(got) != 1 {
						t.Fatalf("entries %v, want one", got)
					}
					wantUpdate(t, w, got[0], c.update)
					want := object{
						"entry_id": id, "name": "pdf", "has_update": c.update, "current_version": c.current,
						"latest_version": "2", "latest_content_hash": two,
					}
					if diff := cmp.Diff(want, got[0]); diff != "" {
						t.Errorf("entry (-want +got):\n%s", diff)
					}
				}
			})
		}
		ada.post(entryPath(id)+"/rollback", nil).want(http.StatusOK)
		got := ada.sync(item(id, two), item(id, one))
		if got[0]["has_update"] != true || got[0]["latest_version"] != "1" || got[0]["current_version"] != "2" || got[1]["has_update"] != false {
			t.Errorf("after a rollback: %v", got)
		}
	})
}

// wantUpdate checks the download of an entry of sync, and takes it away.
func wantUpdate(t *testing.T, w *world, e object, update bool) {
	t.Helper()
	link := text(e, "download_url")
	if !update {
		wantKeys(t, e, "entry_id", "name", "has_update", "current_version", "latest_version", "latest_content_hash")
		return
	}
	expires, err := time.Parse(time.RFC3339, text(e, "expires_at"))
	if left := time.Until(expires); err != nil || left < 14*time.Minute || left > 15*time.Minute {
		t.Errorf("expires_at %v, want in 15 minutes", e["expires_at"])
	}
	wantDownload(t, w.anonymous().in(t).get(link), text(e, "latest_content_hash"))
	take(t, e, nil, []string{"expires_at"})
	delete(e, "download_url")
}

// wantDownload checks an archive and what its headers say of it.
func wantDownload(t *testing.T, a answer, hash string) {
	t.Helper()
	a.want(http.StatusOK)
	if got := sum(a.body); got != hash {
		t.Errorf("%s: got %s, want %s", a.what, got, hash)
	}
	for header, want := range map[string]string{
		"Content-Type": "application/gzip", "ETag": `"` + hash + `"`,
		"Digest":                 "sha-256=" + base64.StdEncoding.EncodeToString(mustHex(hash)),
		"X-Content-Type-Options": "nosniff", "Content-Encoding": "",
	} {
		if got := a.header.Get(header); got != want {
			t.Errorf("%s: %s is %q, want %q", a.what, header, got, want)
		}
	}
	if got := a.header.Get("Content-Disposition"); !strings.HasPrefix(got, "attachment") || !strings.Contains(got, ".tar.gz") {
		t.Errorf("%s: Content-Disposition %q", a.what, got)
	}
}

func TestSyncLinksCannotBeForged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		pdf, docx := ada.entryOf("pdf", 1), ada.entryOf("docx", 1)
		got := ada.sync(item(pdf, "none"), item(docx, "none"))
		link := text(got[0], "download_url")
		unsigned, _, _ := strings.Cut(link, "?")
		if !strings.HasPrefix(link, w.server.URL+"/") {
			t.Errorf("download_url %q is not absolute", link)
		}
		for name, forged := range map[string]string{
			"other content":     strings.ReplaceAll(link, text(got[0], "latest_content_hash"), text(got[1], "latest_content_hash")),
			"longer life":       strings.Replace(link, "expires=1", "expires=2", 1),
			"other name":        strings.Replace(link, "filename=pdf", "filename=doc", 1),
			"without signature": unsigned,
		} {
			if forged == link {
				t.Fatalf("%s: nothing was changed in %s", name, link)
			}
			w.anonymous().get(forged).wantError(http.StatusForbidden, "not valid")
		}
		brief, err := w.blobs.SignedURL(t.Context(), w.keyOf(text(got[0], "latest_content_hash")), blob.SignOptions{Expires: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		w.eventually("the link to expire", func() bool { return w.anonymous().get(brief).status != http.StatusOK })
		w.anonymous().get(brief).wantError(http.StatusForbidden, "expired")
	})
}

// TestSyncRefreshes checks that records learn what the items of a POST say,
// and not those of a GET.
func TestSyncRefreshes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		bob := w.member(ada.org, access.Member)
		id := ada.entryOf("pdf", 2)
		v := ada.versions(id)
		one, two := text(v["1"], "content_hash"), text(v["2"], "content_hash")
		ada.install(id, object{"device_id": "a"})
		bob.install(id, nil)
		place := func(device string, hash string) object {
			return object{"entry_id": id, "current_version_hash": hash, "device_id": device}
		}
		for _, c := range []struct {
			name  string
			items []object
			want  string
		}{
			{"behind", []object{item(id, one)}, "behind"},
			{"edited", []object{item(id, sum(nil))}, "modified"},
			{"up to date", []object{item(id, two)}, "up_to_date"},
			{"none", []object{item(id, "none")}, "unknown"},
			{"by its place", []object{place("a", one)}, "behind"},
			{"of another place", []object{place("b", two)}, "behind"},
			{"its own place counts more", []object{item(id, sum(nil)), place("a", two)}, "up_to_date"},
			{"of another entry", []object{item(uuid.NewString(), one)}, "up_to_date"},
		} {
			ada.sync(c.items...)
			if got := ada.statuses(); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		ada.install(id, object{"device_id": "b", "content_hash": one})
		ada.sync(item(id, sum(nil))) // ambiguous: it may be either of the two
		if got := ada.statuses(); got != "up_to_date behind" {
			t.Errorf("after an item that does not say its place: %s", got)
		}
		ada.get(registryPath + "/sync/check?entry_id=" + id + "&hash=" + one).want(http.StatusOK)
		if got := ada.statuses() + ", " + bob.statuses(); got != "up_to_date behind, up_to_date" {
			t.Errorf("after a GET, and of another user: %s", got)
		}
		if n := ada.installs(id); n != 3 {
			t.Errorf("%d installations, want 3: sync makes none", n)
		}
	})
}

// TestSyncSeen checks that a record is touched again only after a while.
func TestSyncSeen(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.entryOf("pdf", 1)
		hash := text(ada.install(id, nil), "content_hash")
		seen := func(ago time.Duration) bool {
			then := store.Micros(time.Now().Add(-ago))
			w.exec(`UPDATE registry_installations SET last_seen_at = $1`, then)
			w.exec(`UPDATE registry_sayings SET heard_at = $1`, then)
			ada.sync(item(id, hash))
			return w.count(`registry_installations WHERE last_seen_at > $1`, then) == 1
		}
		if seen(9*time.Minute) || !seen(11*time.Minute) {
			t.Error("want last_seen_at to be written after ten minutes, not before")
		}
	})
}

func TestSyncInstalled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		if got := ada.get(registryPath + "/sync/check").want(http.StatusOK).list("entries"); len(got) != 0 {
			t.Errorf("entries %v, want none", got)
		}
		pdf, docx, xlsx := ada.entryOf("pdf", 1), ada.entryOf("docx", 1), ada.entryOf("xlsx", 1)
		ada.install(pdf, nil)
		ada.install(docx, nil)
		ada.install(xlsx, object{"content_hash": "none"})
		ada.push(docx, "2", skill(t, "2.")).want(http.StatusCreated)
		answer := ada.get(registryPath + "/sync/check").want(http.StatusOK)
		wantKeys(t, answer.object(), "entries")
		var got []string
		for _, e := range answer.list("entries") {
			got = append(got, text(e, "name"))
			if update := text(e, "name") != "pdf"; e["has_update"] != update || (text(e, "download_url") != "") != update {
				t.Errorf("entry %v", e)
			}
		}
		if diff := cmp.Diff([]string{"pdf", "docx", "xlsx"}, got); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestSyncAgain checks that a repeated report is written again after a
// different one came in between.
func TestSyncAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.entryOf("pdf", 2)
		ada.install(id, nil)
		for range 2 {
			ada.sync(item(id, "none"))
			ada.sync(item(id, "none"))
			if got := ada.statuses(); got != "unknown" {
				t.Errorf("after a sync: %s, want unknown", got)
			}
			ada.install(id, nil)
			if got := ada.statuses(); got != "up_to_date" {
				t.Errorf("after an installation: %s, want up_to_date", got)
			}
			ada.sync(item(id, "edited"))
			if got := ada.statuses(); got != "modified" {
				t.Errorf("after a sync with other content: %s, want modified", got)
			}
		}
		if n := w.count(`registry_sayings`); n != 1 {
			t.Errorf("%d last reports are stored, want 1", n)
		}
	})
}

// TestSyncCache repeats a sync while everything that its answer depends on
// changes: no answer is older than the question.
func TestSyncCache(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		bob := w.org("globex", access.Pro)
		id, other := ada.entryOf("pdf", 1), bob.entryOf("docx", 1)
		latest := func() string {
			var all []string
			for range 2 { // the second time from the cache
				all = nil
				for _, e := range ada.sync(item(id, "none"), item(other, "none")) {
					all = append(all, text(e, "name")+" "+text(e, "latest_version"))
				}
			}
			return strings.Join(all, ", ")
		}
		want := func(when, want string) {
			t.Helper()
			if got := latest(); got != want {
				t.Errorf("%s: got %q, want %q", when, got, want)
			}
		}
		want("at first", "pdf 1")
		ada.push(id, "2.0", skill(t, "B."))
		want("after a push", "pdf 2.0")
		ada.post(entryPath(id)+"/rollback", object{}).want(http.StatusOK)
		want("after a rollback", "pdf 1")
		w.exec(`UPDATE registry_entries SET visibility = 'public' WHERE id = $1`, other)
		want("after another's became public", "pdf 1, docx 1")
		bob.push(other, "2.0", skill(t, "B."))
		want("after another's push", "pdf 1, docx 2.0")
		ada.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent)
		want("after a deletion", "docx 2.0")
	})
}

func TestSyncRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Free)
		path := registryPath + "/sync"
		many := make([]object, 1001)
		for i := range many {
			many[i] = item(uuid.NewString(), "none")
		}
		ada.post(path, object{"installations": many}).wantInvalid("installations", "1000")
		if got := ada.sync(many[:1000]...); len(got) != 0 {
			t.Errorf("entries %v, want none: they are unknown", got)
		}
		ada.post(path, nil).wantInvalid("installations", "installations is required")
		ada.post(path, object{"installations": nil}).wantInvalid("installations", "installations")
		ada.post(path, object{"installations": []object{{}}}).wantInvalid("installations.0.entry_id", "entry_id is required")
		ada.post(path, object{"installations": []object{item("x", 1)}}).wantInvalid("installations.0.current_version_hash", "unexpected number")
		ada.post(path, object{"installations": []object{item("x", strings.Repeat("x", 65))}}).wantInvalid("installations.0.current_version_hash", "64")
		check := path + "/check"
		ada.get(check+"?entry_id=a&entry_id=b&hash=none").wantInvalid("hash", "once for each entry_id")
		ada.get(check+"?entry_id=a").wantInvalid("hash", "once for each entry_id")
		ada.get(check+"?hash=none").wantInvalid("hash", "once for each entry_id")
		ada.get(check+"?"+strings.Repeat("entry_id=a&hash=none&", 1001)).wantInvalid("entry_id", "1000")
	})
}

func TestDownload(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Free)
		if _, err := w.auth.SetPlan(t.Context(), "acme", access.Pro); err != nil {
			t.Fatal(err)
		}
		archive := skill(t, "A.")
		id := ada.made("pdf", "1.0", archive)
		path := versionPath(id, "1.0") + "/download"
		a := ada.get(path)
		wantDownload(t, a, sum(archive))
		if !bytes.Equal(a.body, archive) {
			t.Error("the archive is not what was sent")
		}
		if got := a.header.Get("Content-Disposition"); !strings.Contains(got, "pdf-1.0.tar.gz") {
			t.Errorf("Content-Disposition %q", got)
		}
		if head := ada.do(http.MethodHead, path, nil).want(http.StatusOK); head.header.Get("Content-Length") != a.header.Get("Content-Length") {
			t.Errorf("HEAD: Content-Length %q", head.header.Get("Content-Length"))
		}
		ada.get(versionPath(id, "2.0")+"/download").wantError(http.StatusNotFound, "Version 2.0 not found")
		ada.get(versionPath(uuid.NewString(), "1.0")+"/download").wantError(http.StatusNotFound, "Registry entry not found")
		w.anonymous().get(path).want(http.StatusUnauthorized)
		if err := w.blobs.Delete(t.Context(), w.keyOf(sum(archive))); err != nil {
			t.Fatal(err)
		}
		ada.get(path).wantError(http.StatusServiceUnavailable, "cannot be read now")
	})
}
