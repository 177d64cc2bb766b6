package client_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
)

// TestLife has the life of an entry, from its creation to its end.
func TestLife(t *testing.T) {
	t.Parallel()
	c := startService(t).client()
	ctx := t.Context()
	_, err := c.EntryByName(ctx, "pdf")
	wantStatus(t, err, 404, "No entry is named pdf")

	first := upload(t, "pdf", "1.0.0", "one")
	first.Visibility, first.SourceRepo, first.ChangeSummary = "public", "acme/skills", "the first"
	var sent []int64
	first.Progress = func(n int64) { sent = append(sent, n) }
	made, err := c.CreateEntry(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	if !made.Created || made.Entry.Name != "pdf" || made.Entry.EntryType != "skill" || made.Entry.Visibility != "public" ||
		*made.Entry.SourceRepo != "acme/skills" || made.Entry.Description != "Reads tables." {
		t.Errorf("made %+v", made.Entry)
	}
	if v := made.Version; v.Version != "1.0.0" || v.ContentHash != first.ContentHash || !v.IsCurrent || *v.ChangeSummary != "the first" ||
		v.Size != first.Size || v.Source != "cli" || !cmp.Equal(v.FileManifest, first.FileManifest) || time.Since(time.Time(v.PushedAt)) > time.Hour {
		t.Errorf("made %+v", v)
	}
	if !slices.IsSorted(sent) || sent[len(sent)-1] != first.Size {
		t.Errorf("progress %d, want it to end with %d", sent, first.Size)
	}
	id := made.Entry.ID
	_, err = c.CreateEntry(ctx, first)
	wantStatus(t, err, 409, "An entry named pdf exists")

	second := upload(t, "pdf", "1.1.0", "two")
	pushed, err := c.PushVersion(ctx, id, second)
	if err != nil || !pushed.Created || !pushed.Version.IsCurrent {
		t.Fatalf("pushed %+v, %v", pushed, err)
	}
	again, err := c.PushVersion(ctx, id, second)
	if err != nil || again.Created || again.Version.ID != pushed.Version.ID {
		t.Errorf("pushed again: %+v, %v; want the same version", again, err)
	}
	_, err = c.PushVersion(ctx, id, upload(t, "pdf", "1.1.0", "three"))
	wantStatus(t, err, 409, "exists with other content")

	if versions, err := c.Versions(ctx, id); err != nil || len(versions) != 2 || versions[0].Version != "1.1.0" {
		t.Errorf("versions %+v, %v", versions, err)
	}
	back, err := c.Rollback(ctx, id, "", "it fails")
	if err != nil || back.Version.Version != "1.0.0" || back.RolledBackFrom != "1.1.0" || *back.Reason != "it fails" {
		t.Errorf("rolled back: %+v, %v", back, err)
	}
	_, err = c.Rollback(ctx, id, "9", "")
	wantStatus(t, err, 404, "Version")
	detail, err := c.Entry(ctx, id)
	if err != nil || len(detail.Versions) != 2 || !detail.Versions[0].RolledBack || !detail.Versions[1].IsCurrent || len(detail.Rollbacks) != 1 {
		t.Errorf("detail %+v, %v", detail, err)
	}
	if r := detail.Rollbacks[0]; r.FromVersion != "1.1.0" || r.ToVersion != "1.0.0" || *r.Reason != "it fails" || *r.RolledBackBy == "" || time.Time(r.RolledBackAt).IsZero() {
		t.Errorf("rollback %+v", r)
	}
	if err := c.DeleteEntry(ctx, id); err != nil {
		t.Error(err)
	}
	_, err = c.Entry(ctx, id)
	wantStatus(t, err, 404, "not found")
}

func TestList(t *testing.T) {
	t.Parallel()
	s := startService(t)
	c, ctx := s.client(), t.Context()
	for name, visibility := range map[string]string{"pdf": "public", "csv": "org", "hidden": "unlisted"} {
		u := upload(t, name, "1.0.0", name)
		u.Visibility = visibility
		if _, err := c.CreateEntry(ctx, u); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		filter client.Filter
		want   []string
	}{
		{client.Filter{}, []string{"csv", "hidden", "pdf"}},
		{client.Filter{Name: "pdf"}, []string{"pdf"}},
		{client.Filter{Name: "pd"}, nil},
		{client.Filter{Query: "pd"}, []string{"pdf"}},
		{client.Filter{Query: "tables"}, []string{"csv", "hidden", "pdf"}},
		{client.Filter{Public: true}, []string{"pdf"}},
		{client.Filter{Public: true, Name: "csv"}, nil},
	} {
		entries, err := c.ListEntries(ctx, test.filter)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name)
			if e.CurrentVersion == nil || e.CurrentVersion.Version != "1.0.0" {
				t.Errorf("%s has the version %+v", e.Name, e.CurrentVersion)
			}
		}
		if diff := cmp.Diff(test.want, names); diff != "" || err != nil {
			t.Errorf("%+v: %v (-want +got):\n%s", test.filter, err, diff)
		}
	}
}

func TestInstallations(t *testing.T) {
	t.Parallel()
	c, ctx := startService(t).client(), t.Context()
	first, second := upload(t, "pdf", "1.0.0", "one"), upload(t, "pdf", "1.1.0", "two")
	made, err := c.CreateEntry(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	id := made.Entry.ID
	record, err := c.RecordInstall(ctx, id, api.NewInstallation{InstallPath: "/a", DeviceID: "laptop", ContentHash: first.ContentHash})
	if err != nil || record.SyncStatus != "up_to_date" || *record.Version != "1.0.0" || *record.InstallPath != "/a" || *record.DeviceID != "laptop" {
		t.Fatalf("record %+v, %v", record, err)
	}
	if _, err := c.PushVersion(ctx, id, second); err != nil {
		t.Fatal(err)
	}
	installed, err := c.Installed(ctx)
	if err != nil || len(installed) != 1 || installed[0].SyncStatus != "behind" || installed[0].Name != "pdf" || installed[0].LatestVersion != "1.1.0" {
		t.Errorf("installed %+v, %v", installed, err)
	}
	for name, ask := range map[string]func() ([]api.SyncEntry, error){
		"check": func() ([]api.SyncEntry, error) { return c.SyncCheck(ctx) },
		"sync": func() ([]api.SyncEntry, error) {
			return c.Sync(ctx, []client.SyncItem{
				{EntryID: id, CurrentVersionHash: first.ContentHash, DeviceID: "laptop", InstallPath: "/a"},
				{EntryID: "00000000-0000-7000-8000-000000000000", CurrentVersionHash: client.NoHash},
			})
		},
	} {
		entries, err := ask()
		if err != nil || len(entries) != 1 {
			t.Fatalf("%s: %+v, %v", name, entries, err)
		}
		e := entries[0]
		if !e.HasUpdate || e.EntryID != id || e.Name != "pdf" || *e.CurrentVersion != "1.0.0" || e.LatestVersion != "1.1.0" ||
			e.LatestContentHash != second.ContentHash || time.Time(*e.ExpiresAt).Before(time.Now()) {
			t.Errorf("%s: %+v", name, e)
		}
		var done, of int64
		archive, err := c.Download(ctx, e.DownloadURL, client.Wanted{
			ContentHash: second.ContentHash, Progress: func(d, o int64) { done, of = d, o },
		})
		if err != nil || hash(archive) != second.ContentHash || done != second.Size || of != second.Size {
			t.Errorf("%s: download of %d bytes, progress %d of %d: %v", name, len(archive), done, of, err)
		}
	}
	archive, err := c.DownloadVersion(ctx, id, "1.0.0", client.Wanted{ContentHash: first.ContentHash})
	if err != nil || hash(archive) != first.ContentHash {
		t.Errorf("download of a version: %d bytes, %v", len(archive), err)
	}
	_, err = c.DownloadVersion(ctx, id, "9", client.Wanted{})
	wantStatus(t, err, 404, "Version")
	if entries, err := c.Sync(ctx, nil); err != nil || len(entries) != 0 {
		t.Errorf("sync of nothing: %v, %v", entries, err)
	}
}

// TestManyItems has more than one request may.
func TestManyItems(t *testing.T) {
	t.Parallel()
	c, ctx := startService(t).client(), t.Context()
	made, err := c.CreateEntry(ctx, upload(t, "pdf", "1.0.0", "one"))
	if err != nil {
		t.Fatal(err)
	}
	items := make([]client.SyncItem, 2001)
	for i := range items {
		items[i] = client.SyncItem{EntryID: made.Entry.ID, CurrentVersionHash: client.NoHash, InstallPath: fmt.Sprint(i)}
	}
	if entries, err := c.Sync(ctx, items); err != nil || len(entries) != len(items) {
		t.Errorf("%d answers, %v; want %d", len(entries), err, len(items))
	}
}

func TestMe(t *testing.T) {
	t.Parallel()
	s := startService(t)
	me, err := s.client().Me(t.Context())
	if err != nil || me.User.Email != "owner@localhost" || me.Organisation.Name != "default" || me.Plan != "team" || me.Role != "owner" || len(me.Permissions) != 9 {
		t.Errorf("me %+v, %v", me, err)
	}
	s.key = "st_live_wrong"
	_, err = s.client().Me(t.Context())
	wantStatus(t, err, 401, "key")
}

func TestDeviceLogin(t *testing.T) {
	t.Parallel()
	s := startService(t)
	db, err := app.OpenDatabase(t.Context(), s.config.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	people := &auth.Service{DB: db}
	orgs, err := people.Orgs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	users, err := people.Users(t.Context(), orgs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	s.key = ""
	c, ctx := s.client(), t.Context()
	for _, approve := range []bool{true, false} {
		start, err := c.StartDeviceLogin(ctx, "test", "")
		if err != nil || start.UserCode == "" || start.VerificationURL != s.url+"/device" || start.ExpiresIn != 15*time.Minute || start.Interval != 5*time.Second {
			t.Fatalf("start %+v, %v", start, err)
		}
		if poll, err := c.PollDeviceLogin(ctx, start.DeviceCode); err != nil || poll.Status != client.DevicePending {
			t.Errorf("poll %+v, %v", poll, err)
		}
		if err := people.DecideDevice(ctx, start.UserCode, users[0], approve); err != nil {
			t.Fatal(err)
		}
		poll, err := c.PollDeviceLogin(ctx, start.DeviceCode)
		if err != nil {
			t.Fatal(err)
		}
		if !approve {
			if poll.Status != client.DeviceDenied || poll.APIKey != "" {
				t.Errorf("denied: %+v", poll)
			}
			continue
		}
		if poll.Status != client.DeviceApproved || poll.UserID != users[0].ID || poll.OrgID != orgs[0].ID {
			t.Errorf("approved: %+v", poll)
		}
		if me, err := client.New(client.Options{Server: s.url, APIKey: poll.APIKey}).Me(ctx); err != nil || me.User.ID != users[0].ID {
			t.Errorf("the key is of %+v, %v", me, err)
		}
		if poll, err := c.PollDeviceLogin(ctx, start.DeviceCode); err != nil || poll.Status != client.DeviceExpired {
			t.Errorf("polled again: %+v, %v", poll, err)
		}
	}
}

// TestRefused has what a server says to bad uploads, and to keys that may not.
func TestRefused(t *testing.T) {
	t.Parallel()
	c, ctx := startService(t).client(), t.Context()
	wrongHash := upload(t, "pdf", "1.0.0", "one")
	wrongHash.ContentHash = hash(nil)
	wrongManifest := upload(t, "pdf", "1.0.0", "one")
	wrongManifest.FileManifest[0].Size++
	cut := upload(t, "pdf", "1.0.0", "one")
	cut.Size -= 10
	several := upload(t, "", "", "one")
	for _, test := range []struct {
		name   string
		upload client.Upload
		path   string
		issues int
	}{
		{"wrong hash", wrongHash, "content_hash", 1},
		{"wrong manifest", wrongManifest, "file_manifest", 1},
		{"cut off", cut, "archive", 1},
		{"no name, no version", several, "name", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.CreateEntry(ctx, test.upload)
			e := asError(t, err)
			if e.Status != 400 || len(e.Issues) != test.issues || !slices.Equal(e.Issues[0].Path, []string{test.path}) || e.RequestID == "" {
				t.Errorf("got %+v, want a problem with %s", e, test.path)
			}
		})
	}
	if entries, err := c.ListEntries(ctx, client.Filter{}); err != nil || len(entries) != 0 {
		t.Errorf("entries %v, %v after nothing but refusals", entries, err)
	}
}
