package versions

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
)

// A recordedPlace identifies an installation of this device: the same entry may be
// installed in several folders.
type recordedPlace struct{ entryID, path string }

// recordLocks reports the skills of lock files to the server as installations of this
// device. Installations on record with the same client are synced instead of recorded
// again, so that a second report changes nothing. Skills that the registry does not
// have are skipped.
func recordLocks(ctx context.Context, s *server.Session, out []lockFileOutput) error {
	device, _ := server.DeviceID()
	known, err := recorded(ctx, s, device)
	if err != nil {
		return err
	}
	var items []client.SyncItem
	seen := map[recordedPlace]bool{}
	for i := range out {
		for n := range out[i].Skills {
			o := &out[i].Skills[n]
			// A skill whose folder is unknown is recorded at the path of its lock file.
			path := cmp.Or(o.Path, out[i].File)
			at := recordedPlace{o.EntryID, path}
			if o.EntryID == "" || o.contentHash == "" {
				continue
			}
			o.Recorded = true
			if seen[at] {
				continue
			}
			seen[at] = true
			if known[at] == out[i].Client {
				items = append(items, client.SyncItem{
					EntryID: o.EntryID, CurrentVersionHash: o.contentHash, DeviceID: device, InstallPath: path,
				})
				continue
			}
			body := map[string]string{
				"device_id": device, "install_path": path, "content_hash": o.contentHash, "client": string(out[i].Client),
			}
			route := "/api/v1/registry/" + url.PathEscape(o.EntryID) + "/install"
			if err := s.Call(ctx, http.MethodPost, route, body, nil); err != nil {
				return err
			}
		}
	}
	if len(items) == 0 {
		return nil
	}
	_, err = s.Sync(ctx, items)
	return err
}

// recorded returns the installations of this device that the server has on record, with
// the client that each was reported for.
func recorded(ctx context.Context, s *server.Session, device string) (map[recordedPlace]lockfiles.Client, error) {
	var out struct {
		Installations []struct {
			EntryID     string           `json:"entry_id"`
			DeviceID    string           `json:"device_id"`
			InstallPath string           `json:"install_path"`
			Client      lockfiles.Client `json:"client"`
		} `json:"installations"`
	}
	err := s.Call(ctx, http.MethodGet, "/api/v1/registry/installed", nil, &out)
	known := map[recordedPlace]lockfiles.Client{}
	for _, i := range out.Installations {
		if i.DeviceID == device {
			known[recordedPlace{i.EntryID, i.InstallPath}] = i.Client
		}
	}
	return known, err
}
