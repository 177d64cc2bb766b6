package registry

import "github.com/whetstone-dev/whetstone/internal/platform/invariants"

// rules are the invariants between the registry's tables, for the doctor. Each query
// returns how many rows break one, and an example.
func rules() []invariants.Rule {
	return []invariants.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(e.name), '') FROM registry_entries e
				LEFT JOIN registry_versions v ON v.id = e.current_version_id AND v.entry_id = e.id
				WHERE e.current_version_id <> ''
					AND (v.id IS NULL OR v.version <> e.current_version OR v.content_hash <> e.current_hash)`,
			Wrong: "entries whose current version is missing or another",
			Do:    "make a version current with `whetstone rollback`, or restore a backup",
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(e.name), '') FROM registry_entries e
				JOIN registry_versions v ON v.id = e.current_version_id
				WHERE e.description <> COALESCE(v.entry_description, v.description)`,
			Wrong: "entries with a description of another version", Do: "push a version, or roll back and forward again",
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(e.name), '') FROM registry_entries e
				JOIN registry_versions v ON v.id = e.current_version_id WHERE v.state <> 'published'`,
			Wrong: "entries whose current version is a candidate or withdrawn", Do: "roll back to another version",
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(v.id), '') FROM registry_versions v
				WHERE v.archive_key = '' OR (v.canonical_key IS NULL) <> (v.canonical_hash IS NULL)`,
			Wrong: "versions that do not say where their archives are", Do: invariants.Report,
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(c.id), '') FROM registry_currents c
				WHERE NOT EXISTS (SELECT 1 FROM registry_versions v WHERE v.id = c.version_id)`,
			Wrong: "times of versions that are missing", Do: invariants.Report,
		},
	}
}
