package installations

import (
	"cmp"
	"context"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Mount adds the routes of installations.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleInstall, httpapi.Route{
		Permission: access.RegistryInstall, Plan: access.Pro, Method: "POST", Path: "/api/v1/registry/{id}/install",
		Summary: "Record an installation",
	})
	httpapi.Add(a, s.handleInstallations, httpapi.Route{
		Permission: access.Read, Plan: access.Team, Method: "GET", Path: "/api/v1/registry/{id}/installations",
		Summary: "List who installed an entry",
	})
	httpapi.Add(a, s.handleInstalled, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/installed",
		Summary: "List what the caller installed",
	})
	httpapi.Add(a, s.handleSync, httpapi.Route{
		Permission: access.Read, Method: "POST", Path: "/api/v1/registry/sync", HandChecked: true,
		Summary: "Ask which installations have updates",
	})
	httpapi.Add(a, s.handleSyncCheck, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/sync/check",
		Summary: "Ask which recorded installations have updates",
	})
}

// installInput is an installation that a client reports. All of it is optional: old
// clients send an empty body, and still count.
type installInput struct {
	registry.EntryPath
	UserAgent string `header:"User-Agent" doc:"Names the client where the body does not"`
	Body      api.NewInstallation
}

type installOutput struct {
	Installation api.Installation `json:"installation"`
}

func (s *Service) handleInstall(ctx context.Context, in installInput) (installOutput, error) {
	state, err := s.Install(ctx, access.From(ctx), New{
		EntryID: in.ID, DeviceID: in.Body.DeviceID, InstallPath: in.Body.InstallPath, ContentHash: in.Body.ContentHash,
		Client: cmp.Or(in.Body.Client, text.TruncateRunes(clientName(in.UserAgent), maxClient)),
	})
	return installOutput{newInstallationOutput(state)}, err
}

type installationsOutput struct {
	Installations []api.MemberInstallation `json:"installations" nullable:"false"`
}

// handleInstallations lists the installations of an entry. The list is not paged: an
// entry has at most some installations per member.
func (s *Service) handleInstallations(ctx context.Context, in registry.EntryPath) (installationsOutput, error) {
	states, err := s.OfEntry(ctx, access.From(ctx).OrgID, in.ID)
	out := installationsOutput{make([]api.MemberInstallation, len(states))}
	for i, state := range states {
		out.Installations[i] = api.MemberInstallation{
			User:         api.Installer{ID: state.UserID, Name: state.UserName, Email: state.UserEmail},
			Installation: newInstallationOutput(state),
		}
	}
	return out, err
}

type installedListOutput struct {
	Installations []api.InstalledEntry `json:"installations" nullable:"false"`
}

// handleInstalled lists the caller's own installations. It needs no plan: people
// always see their own.
func (s *Service) handleInstalled(ctx context.Context, _ struct{}) (installedListOutput, error) {
	states, err := s.OfCaller(ctx, access.From(ctx))
	out := installedListOutput{make([]api.InstalledEntry, len(states))}
	for i, state := range states {
		out.Installations[i] = api.InstalledEntry{
			Installation: newInstallationOutput(state), Name: state.EntryName, LatestVersion: state.LatestVersion,
		}
	}
	return out, err
}

// syncInput is what a client has installed. Hashes and not versions: a file that was
// changed by hand shows as modified.
type syncInput struct {
	Body struct {
		Installations []struct {
			EntryID            string `json:"entry_id"`
			CurrentVersionHash string `json:"current_version_hash,omitempty" maxLength:"64" doc:"none: nothing is installed yet"`
			DeviceID           string `json:"device_id,omitempty"`
			InstallPath        string `json:"install_path,omitempty"`
		} `json:"installations" maxItems:"1000" nullable:"false"`
	}
}

type syncOutput struct {
	Entries []api.SyncEntry `json:"entries" nullable:"false"`
}

// newSyncOutput converts the results of a sync. Results keep the order of the items,
// without those that the caller may not see.
func newSyncOutput(results []SyncResult) syncOutput {
	out := syncOutput{make([]api.SyncEntry, len(results))}
	for i, r := range results {
		out.Entries[i] = api.SyncEntry{
			EntryID: r.EntryID, Name: r.Name, HasUpdate: r.HasUpdate, CurrentVersion: r.Current, LatestVersion: r.Latest,
			LatestContentHash: r.LatestHash, DownloadURL: r.DownloadURL, ExpiresAt: httpapi.NullTime(r.ExpiresAt),
		}
	}
	return out
}

func (s *Service) handleSync(ctx context.Context, in syncInput) (syncOutput, error) {
	items, err := in.items()
	if err != nil {
		return syncOutput{}, err
	}
	// POST reports, and GET only asks.
	results, err := s.Sync(ctx, access.From(ctx), items, true)
	return newSyncOutput(results), err
}

// items validates by hand what the schema says (HandChecked): huma's validation
// of 1,000 items dominates the request that clients make most often.
func (in syncInput) items() ([]SyncItem, error) {
	sent := in.Body.Installations
	switch {
	case sent == nil:
		return nil, fault.Invalid("installations", "installations is required")
	case len(sent) > MaxSync:
		return nil, fault.Invalid("installations", "installations: expected at most %d items", MaxSync)
	}
	items := make([]SyncItem, len(sent))
	for i, item := range sent {
		at := "installations." + strconv.Itoa(i)
		switch {
		case item.EntryID == "":
			return nil, fault.Invalid(at+".entry_id", "entry_id is required")
		case len(item.CurrentVersionHash) > maxHash:
			return nil, fault.Invalid(at+".current_version_hash", "current_version_hash: expected length <= %d", maxHash)
		}
		items[i] = SyncItem{
			EntryID: item.EntryID, Hash: item.CurrentVersionHash, DeviceID: item.DeviceID, InstallPath: item.InstallPath,
		}
	}
	return items, nil
}

// syncCheckInput is a sync in the query of a GET. Two lists of equal length, since a
// query has no list of objects.
type syncCheckInput struct {
	EntryID []string `query:"entry_id,explode" maxItems:"1000" doc:"Entries to ask about, with a hash each; the recorded installations when omitted"`
	Hash    []string `query:"hash,explode" maxItems:"1000"`
}

func (s *Service) handleSyncCheck(ctx context.Context, in syncCheckInput) (syncOutput, error) {
	c := access.From(ctx)
	if len(in.EntryID)+len(in.Hash) == 0 {
		results, err := s.SyncInstalled(ctx, c)
		return newSyncOutput(results), err
	}
	if len(in.Hash) != len(in.EntryID) {
		return syncOutput{}, fault.Invalid("hash", "hash must be given once for each entry_id")
	}
	items := make([]SyncItem, len(in.EntryID))
	for i := range items {
		items[i] = SyncItem{EntryID: in.EntryID[i], Hash: in.Hash[i]}
	}
	results, err := s.Sync(ctx, c, items, false)
	return newSyncOutput(results), err
}

// newInstallationOutput converts an installation. The database has empty texts where
// the API has null.
func newInstallationOutput(i State) api.Installation {
	return api.Installation{
		ID: i.ID, EntryID: i.EntryID, Version: i.Version, ContentHash: orNull(i.ContentHash),
		InstallPath: orNull(i.InstallPath), DeviceID: orNull(i.DeviceID), Client: orNull(i.Client),
		SyncStatus:  string(i.Status()),
		InstalledAt: httpapi.Time(i.InstalledAt), LastSeenAt: httpapi.Time(i.LastSeenAt),
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
