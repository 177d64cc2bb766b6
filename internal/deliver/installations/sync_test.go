package installations_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// statuses are the sync statuses of what the client installed, oldest first.
func statuses(c *registrytest.Client) string {
	c.T.Helper()
	var all []string
	for _, i := range c.Get(registrytest.Path + "/installed").Want(http.StatusOK).List("installations") {
		all = append(all, apptest.Text(i, "sync_status"))
	}
	return strings.Join(all, " ")
}

func TestSync(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		v := ada.Versions(id)
		one, two := apptest.Text(v["1"], "content_hash"), apptest.Text(v["2"], "content_hash")
		for _, c := range []struct {
			name, hash string
			update     bool
			current    any
		}{
			{"up to date", two, false, "2"},
			{"behind", one, true, "1"},
			{"of no version", registrytest.Sum([]byte("edited")), true, nil},
			{"none", "none", true, nil},
			{"no hash", "", true, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				answers := [][]object{ada.In(t).Sync(registrytest.Item(id, c.hash))}
				if c.hash != "" { // a query has no way to say it
					query := url.Values{"entry_id": {id}, "hash": {c.hash}}.Encode()
					answers = append(answers, ada.In(t).Get(registrytest.Path+"/sync/check?"+query).Want(http.StatusOK).List("entries"))
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
		ada.Post(registrytest.EntryPath(id)+"/rollback", nil).Want(http.StatusOK)
		got := ada.Sync(registrytest.Item(id, two), registrytest.Item(id, one))
		if got[0]["has_update"] != true || got[0]["latest_version"] != "1" || got[0]["current_version"] != "2" ||
			got[1]["has_update"] != false {
			t.Errorf("after a rollback: %v", got)
		}
	})
}

// wantUpdate checks the download of an entry of sync, and takes it away.
func wantUpdate(t *testing.T, w *registrytest.World, e object, update bool) {
	t.Helper()
	link := apptest.Text(e, "download_url")
	if !update {
		apptest.WantKeys(t, e, "entry_id", "name", "has_update", "current_version", "latest_version", "latest_content_hash")
		return
	}
	expires, err := time.Parse(time.RFC3339, apptest.Text(e, "expires_at"))
	if left := time.Until(expires); err != nil || left < 14*time.Minute || left > 15*time.Minute {
		t.Errorf("expires_at %v, want in 15 minutes", e["expires_at"])
	}
	registrytest.WantDownload(w.Anonymous().In(t).Get(link), apptest.Text(e, "latest_content_hash"))
	registrytest.DropVarying(t, e, nil, []string{"expires_at"})
	delete(e, "download_url")
}

func TestSyncLinksCannotBeForged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		pdf, docx := ada.EntryOf("pdf", 1), ada.EntryOf("docx", 1)
		got := ada.Sync(registrytest.Item(pdf, "none"), registrytest.Item(docx, "none"))
		link := apptest.Text(got[0], "download_url")
		unsigned, _, _ := strings.Cut(link, "?")
		if !strings.HasPrefix(link, w.Server.URL+"/") {
			t.Errorf("download_url %q is not absolute", link)
		}
		for name, forged := range map[string]string{
			"other content":     strings.ReplaceAll(link, apptest.Text(got[0], "latest_content_hash"), apptest.Text(got[1], "latest_content_hash")),
			"longer life":       strings.Replace(link, "expires=1", "expires=2", 1),
			"other name":        strings.Replace(link, "filename=pdf", "filename=doc", 1),
			"without signature": unsigned,
		} {
			if forged == link {
				t.Fatalf("%s: nothing was changed in %s", name, link)
			}
			w.Anonymous().Get(forged).WantErrorWith(http.StatusForbidden, "not valid")
		}
		brief, err := w.Blobs.SignedURL(t.Context(), w.KeyOf(apptest.Text(got[0], "latest_content_hash")),
			blob.SignOptions{Expires: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		apptest.Eventually(t, "the link to expire", func() bool { return w.Anonymous().Get(brief).Status != http.StatusOK })
		w.Anonymous().Get(brief).WantErrorWith(http.StatusForbidden, "expired")
	})
}

// TestSyncRefreshes checks that records learn what the items of a POST say,
// and not those of a GET.
func TestSyncRefreshes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		bob := w.Member(ada.Org, access.Member)
		id := ada.EntryOf("pdf", 2)
		v := ada.Versions(id)
		one, two := apptest.Text(v["1"], "content_hash"), apptest.Text(v["2"], "content_hash")
		ada.Install(id, object{"device_id": "a"})
		bob.Install(id, nil)
		place := func(device string, hash string) object {
			return object{"entry_id": id, "current_version_hash": hash, "device_id": device}
		}
		for _, c := range []struct {
			name  string
			items []object
			want  string
		}{
			{"behind", []object{registrytest.Item(id, one)}, "behind"},
			{"edited", []object{registrytest.Item(id, registrytest.Sum(nil))}, "modified"},
			{"up to date", []object{registrytest.Item(id, two)}, "up_to_date"},
			{"none", []object{registrytest.Item(id, "none")}, "up_to_date"},
			{"no hash", []object{registrytest.Item(id, "")}, "up_to_date"},
			{"none at its place", []object{place("a", "none")}, "unknown"},
			{"by its place", []object{place("a", one)}, "behind"},
			{"of another place", []object{place("b", two)}, "behind"},
			{"its own place counts more", []object{registrytest.Item(id, registrytest.Sum(nil)), place("a", two)}, "up_to_date"},
			{"of another entry", []object{registrytest.Item(uuid.NewString(), one)}, "up_to_date"},
		} {
			ada.Sync(c.items...)
			if got := statuses(ada); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		ada.Install(id, object{"device_id": "b", "content_hash": one})
		ada.Sync(registrytest.Item(id, registrytest.Sum(nil))) // ambiguous: it may be either of the two
		if got := statuses(ada); got != "up_to_date behind" {
			t.Errorf("after an item that does not say its place: %s", got)
		}
		ada.Get(registrytest.Path + "/sync/check?entry_id=" + id + "&hash=" + one).Want(http.StatusOK)
		if got := statuses(ada) + ", " + statuses(bob); got != "up_to_date behind, up_to_date" {
			t.Errorf("after a GET, and of another user: %s", got)
		}
		if n := ada.Installs(id); n != 3 {
			t.Errorf("%d installations, want 3: sync makes none", n)
		}
	})
}

// TestSyncSeen checks that a record is touched again only after a while.
func TestSyncSeen(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 1)
		hash := apptest.Text(ada.Install(id, nil), "content_hash")
		seen := func(ago time.Duration) bool {
			then := store.Micros(time.Now().Add(-ago))
			w.Exec(`UPDATE registry_installations SET last_seen_at = $1`, then)
			w.Exec(`UPDATE registry_sayings SET heard_at = $1`, then)
			ada.Sync(registrytest.Item(id, hash))
			return w.Count(`registry_installations WHERE last_seen_at > $1`, then) == 1
		}
		if seen(9*time.Minute) || !seen(11*time.Minute) {
			t.Error("want last_seen_at to be written after ten minutes, not before")
		}
	})
}

func TestSyncInstalled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		if got := ada.Get(registrytest.Path + "/sync/check").Want(http.StatusOK).List("entries"); len(got) != 0 {
			t.Errorf("entries %v, want none", got)
		}
		pdf, docx, xlsx := ada.EntryOf("pdf", 1), ada.EntryOf("docx", 1), ada.EntryOf("xlsx", 1)
		ada.Install(pdf, nil)
		ada.Install(docx, nil)
		ada.Install(xlsx, object{"content_hash": "none"})
		ada.Pushed(docx, "2", registrytest.Skill(t, "2."))
		answer := ada.Get(registrytest.Path + "/sync/check").Want(http.StatusOK)
		apptest.WantKeys(t, answer.Object(), "entries")
		var got []string
		for _, e := range answer.List("entries") {
			got = append(got, apptest.Text(e, "name"))
			if update := apptest.Text(e, "name") != "pdf"; e["has_update"] != update || (apptest.Text(e, "download_url") != "") != update {
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
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		ada.Install(id, nil)
		old := apptest.Text(ada.Versions(id)["1"], "content_hash")
		for range 2 {
			ada.Sync(registrytest.Item(id, old))
			ada.Sync(registrytest.Item(id, old))
			if got := statuses(ada); got != "behind" {
				t.Errorf("after a sync: %s, want behind", got)
			}
			ada.Install(id, nil)
			if got := statuses(ada); got != "up_to_date" {
				t.Errorf("after an installation: %s, want up_to_date", got)
			}
			ada.Sync(registrytest.Item(id, "edited"))
			if got := statuses(ada); got != "modified" {
				t.Errorf("after a sync with other content: %s, want modified", got)
			}
		}
		if n := w.Count(`registry_sayings`); n != 1 {
			t.Errorf("%d last reports are stored, want 1", n)
		}
	})
}

// TestSyncCache repeats a sync while everything that its answer depends on
// changes: no answer is older than the question.
func TestSyncCache(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		bob := w.Org("globex", access.Pro)
		id, other := ada.EntryOf("pdf", 1), bob.EntryOf("docx", 1)
		latest := func() string {
			var all []string
			for range 2 { // the second time from the cache
				all = nil
				for _, e := range ada.Sync(registrytest.Item(id, "none"), registrytest.Item(other, "none")) {
					all = append(all, apptest.Text(e, "name")+" "+apptest.Text(e, "latest_version"))
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
		ada.Push(id, "2.0", registrytest.Skill(t, "B."))
		want("after a push", "pdf 2.0")
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{}).Want(http.StatusOK)
		want("after a rollback", "pdf 1")
		w.Exec(`UPDATE registry_entries SET visibility = 'public' WHERE id = $1`, other)
		want("after another's became public", "pdf 1, docx 1")
		bob.Push(other, "2.0", registrytest.Skill(t, "B."))
		want("after another's push", "pdf 1, docx 2.0")
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		want("after a deletion", "docx 2.0")
	})
}

// TestSyncCacheIsNotForged sends an item whose fields, one after the other, are
// those of two items of a colleague.
func TestSyncCacheIsNotForged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		eve := w.Member(ada.Org, access.Viewer)
		pdf, docx := ada.EntryOf("pdf", 1), ada.EntryOf("docx", 1)
		for _, end := range []string{"\x00" + docx + "\x00none\x00\x00", docx + "none"} {
			forged := registrytest.Item(pdf, "none")
			forged["install_path"] = end
			eve.Sync(forged)
			if got := ada.Sync(registrytest.Item(pdf, "none"), registrytest.Item(docx, "none")); len(got) != 2 {
				t.Errorf("entries %v, want both", got)
			}
		}
	})
}

func TestSyncRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Free)
		path := registrytest.SyncPath
		many := make([]object, 1001)
		for i := range many {
			many[i] = registrytest.Item(uuid.NewString(), "none")
		}
		ada.Post(path, object{"installations": many}).WantIssueWith("installations", "1000")
		if got := ada.Sync(many[:1000]...); len(got) != 0 {
			t.Errorf("entries %v, want none: they are unknown", got)
		}
		ada.Post(path, nil).WantIssueWith("installations", "installations is required")
		ada.Post(path, object{"installations": nil}).WantIssueWith("installations", "installations")
		ada.Post(path, object{"installations": []object{{}}}).WantIssueWith("installations.0.entry_id", "entry_id is required")
		ada.Post(path, object{"installations": []object{registrytest.Item("x", 1)}}).
			WantIssueWith("installations.0.current_version_hash", "unexpected number")
		ada.Post(path, object{"installations": []object{registrytest.Item("x", strings.Repeat("x", 65))}}).
			WantIssueWith("installations.0.current_version_hash", "64")
		check := path + "/check"
		ada.Get(check+"?entry_id=a&entry_id=b&hash=none").WantIssueWith("hash", "once for each entry_id")
		ada.Get(check+"?entry_id=a").WantIssueWith("hash", "once for each entry_id")
		ada.Get(check+"?hash=none").WantIssueWith("hash", "once for each entry_id")
		ada.Get(check+"?"+strings.Repeat("entry_id=a&hash=none&", 1001)).WantIssueWith("entry_id", "1000")
	})
}
