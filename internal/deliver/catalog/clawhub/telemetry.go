package clawhub

import (
	"cmp"
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// clientName is what installations by this protocol are recorded under. Rollbacks
// by alerts roll forward for it: the CLI never goes down to a lower version.
const clientName = "clawhub"

type okOutput struct {
	OK bool `json:"ok"`
}

// handleTelemetry records an installation. The CLI does not say on which machine:
// the key stands for it. Events about other things than skills are accepted, as
// older clients send them, and not kept.
func (s *Service) handleTelemetry(w http.ResponseWriter, r *http.Request, v visit) error {
	var in struct {
		Event       string `json:"event"`
		Slug        string `json:"slug"`
		OwnerHandle string `json:"ownerHandle"`
		Version     string `json:"version"`
	}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	if in.Event != "install" || in.Slug == "" {
		return answer(w, okOutput{true})
	}
	if err := checkTexts(in.Slug, in.OwnerHandle, in.Version); err != nil {
		return err
	}
	l, err := s.find(r.Context(), v, in.Slug, in.OwnerHandle)
	if err != nil {
		return err
	}
	ver, err := s.version(r.Context(), v, l, in.Version)
	if err != nil {
		return err
	}
	_, err = s.Installations.Install(r.Context(), v.caller, installations.New{
		EntryID: l.ID, DeviceID: device(v.caller), ContentHash: ver.ContentHash, Client: clientName,
	})
	if err != nil {
		return err
	}
	return answer(w, okOutput{true})
}

// device stands for the machine of a caller.
func device(c access.Caller) string { return cmp.Or(c.DeviceID, clientName+" "+c.KeyID) }

// seen moves the record of an installation to the version that was downloaded, if
// there is a record: the CLI reports installations, but not updates.
func (s *Service) seen(ctx context.Context, c access.Caller, ver registry.Version) {
	if c.KeyID == "" || !c.May(access.Read) {
		return
	}
	item := installations.SyncItem{EntryID: ver.EntryID, Hash: ver.ContentHash, DeviceID: device(c)}
	if _, err := s.Installations.Sync(ctx, c, []installations.SyncItem{item}, true); err != nil {
		s.Log.Warn("an update was not recorded", "entry", ver.EntryID, "error", err)
	}
}
