package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A stored version is what the registry keeps of it beside its archive.
type storedVersion struct {
	id      string
	files   []skillpkg.ManifestEntry
	skillMD []byte // nil if it is too large to be kept in the database
}

// versionsByID reads versions of entries that the visit may see. It does not check
// that: the ids come from a listing or from find.
func versionsByID(ctx context.Context, q store.Querier, ids []string) ([]storedVersion, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT v.id, v.file_manifest, v.skill_md FROM registry_versions v WHERE v.id`+in, list)
	return store.All(rows, err, func(row store.Row) (v storedVersion, err error) {
		var manifest string
		if err := row.Scan(&v.id, &manifest, &v.skillMD); err != nil {
			return v, err
		}
		return v, json.Unmarshal([]byte(manifest), &v.files)
	})
}

// gatesByVersion returns the ids of the newest gates of versions, by version id.
// Versions that never had a gate are missing.
func gatesByVersion(ctx context.Context, q store.Querier, ids []string) (map[string]string, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `SELECT v.id, v.gate_id FROM registry_versions v WHERE v.gate_id IS NOT NULL AND v.id`+in, list)
	gates := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, gate string
		err := row.Scan(&id, &gate)
		gates[id] = gate
		return err
	})
	return gates, err
}
