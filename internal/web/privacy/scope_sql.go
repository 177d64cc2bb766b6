package privacy

// What is an organisation's is read from the schema: rows with its org_id, and rows
// that refer to those by foreign keys. This file has what the schema does not say. In
// all conditions $1 is the id of the organisation.

// A scope is the rows of a table that are an organisation's.
type scope struct {
	export string // "" if they are not in archives; why is in leftOut
	delete string // the same as export when empty
}

const (
	ofOrg    = `org_id = $1`
	entries  = `SELECT id FROM registry_entries WHERE org_id = $1`
	versions = `SELECT id FROM registry_versions WHERE entry_id IN (` + entries + `)`
	ofSkills = `SELECT id FROM skills WHERE org_id = $1 UNION ALL ` + versions
	people   = `SELECT id FROM users WHERE org_id = $1`
	pushed   = `SELECT id FROM agent_sessions WHERE org_id = $1 UNION ALL SELECT session_hash FROM cost_requests WHERE org_id = $1
		UNION ALL SELECT session_hash FROM skill_observations WHERE org_id = $1`
	// A delivery of the code host is of the organisation that holds the claim on the
	// repository's account, as in the lists of deliveries.
	deliveries = `(EXISTS (SELECT 1 FROM repohost_connections c WHERE c.org_id = $1 AND c.repo_key = repohost_deliveries.repo_key)
			OR EXISTS (SELECT 1 FROM repohost_installations i
				WHERE i.org_id = $1 AND i.installation_id = repohost_deliveries.installation_id))
		AND (repo_key = '' OR EXISTS (SELECT 1 FROM repohost_claims k
			WHERE k.org_id = $1 AND substr(repohost_deliveries.repo_key, 1, length(k.account_key) + 1) = k.account_key || '/'))`
	// An alias may name an observation that has become an alias itself. The last of a
	// chain is deleted first: the others lead to it.
	aliases = `alias IN (SELECT alias FROM (
		WITH RECURSIVE chain (alias, depth) AS (
			SELECT a.alias, 1 FROM skill_aliases a JOIN skill_observations o ON o.id = a.observation_id WHERE o.org_id = $1
			UNION ALL SELECT a.alias, chain.depth + 1 FROM skill_aliases a JOIN chain ON a.observation_id = chain.alias)
		SELECT alias FROM chain ORDER BY depth DESC LIMIT 1000) AS ends)`
	// One entry stays for the operator, which names no person.
	auditEntries = `org_id = $1 AND action <> '` + deleted + `'`
)

// scopes are those that the schema does not say.
var scopes = map[string]scope{
	"organisations":          {export: `id = $1`},
	"audit_entries":          {export: ofOrg, delete: auditEntries},
	"registry_installations": {export: ofOrg, delete: ofOrg + ` OR entry_id IN (` + entries + `)`},
	"installation_changes": {
		export: `user_id IN (` + people + `)`, delete: `user_id IN (` + people + `) OR entry_id IN (` + entries + `)`,
	},
	"catalog_commit_plugins": {export: ofOrg + ` OR owner_id = $1`, delete: ofOrg},
	"agent_session_events":   {export: `session_id IN (SELECT id FROM agent_sessions WHERE org_id = $1)`},
	"agent_session_skills":   {export: `session_id IN (SELECT id FROM agent_sessions WHERE org_id = $1)`},
	"evidence_texts":         {export: `session_id IN (SELECT id FROM evidence_sessions WHERE org_id = $1)`},
	"grade_failures":         {export: `grade_id IN (SELECT id FROM grades WHERE org_id = $1)`},
	"grade_failure_labels":   {export: `skill_id IN (SELECT id FROM skills WHERE org_id = $1)`},
	"skill_days":             {export: `subject_id IN (` + ofSkills + `)`},
	"skill_totals":           {export: `subject_id IN (` + ofSkills + ` UNION ALL ` + people + `)`},
	"cost_days":              {export: `subject_id = $1 OR subject_id IN (` + ofSkills + `)`},
	"cost_buckets":           {export: `subject_id = $1 OR subject_id IN (` + ofSkills + `)`},
	"cost_groups":            {export: `subject_id = $1 OR subject_id IN (` + ofSkills + `)`},
	"cost_marks":             {export: `session_hash IN (` + pushed + `)`},
	"pull_comments":          {export: `substr(id, 1, length($1) + 1) = $1 || '/'`},
	"repohost_deliveries":    {export: deliveries},
	"skill_aliases":          {delete: aliases},
	"device_codes":           {delete: ofOrg},
	"trusted_exchanges":      {delete: ofOrg},
	"used_sign_ins":          {delete: ofOrg},
	"audit_exported":         {delete: `entry_id IN (SELECT id FROM audit_entries WHERE ` + auditEntries + `)`},
	"jobs":                   {delete: ofOrg},
	"job_turns":              {delete: ofOrg},
	"organisation_exports":   {delete: ofOrg},
}

// ofPeople are the conditions on rows of a person, $2, whose tables have no column that
// names them.
var ofPeople = map[string]string{
	"agent_session_events": `session_id IN (SELECT id FROM agent_sessions WHERE user_id = $2)`,
	"agent_session_skills": `session_id IN (SELECT id FROM agent_sessions WHERE user_id = $2)`,
	"community_bundles":    `creator_id = $2`,
	"evidence_texts":       `session_id IN (SELECT id FROM evidence_sessions WHERE user_id = $2)`,
	"scim_group_members":   `member_id IN (SELECT id FROM scim_users WHERE user_id = $2)`,
}

// leftOut are the tables that are not in archives, and why.
var leftOut = map[string]string{
	"device_codes":         "codes of logins that are under way",
	"trusted_exchanges":    "tokens of workflow runs, which expire within an hour",
	"used_sign_ins":        "sign-ins with identity providers that are over, so that none is used twice",
	"organisation_exports": "the archives themselves",

	"skill_aliases":        "names of one observation by several tools; data/skill_observations.jsonl has the observations",
	"skill_session_days":   "counted from data/skill_observations.jsonl, with hashes instead of names",
	"skill_session_grades": "counted from data/skill_gradings.jsonl, with hashes instead of names",
	"signal_contributors":  "counted from data/signals.jsonl, with hashes instead of names",

	"jobs":                          "work that waits",
	"job_turns":                     "of the job queue",
	"job_keys":                      "of the job queue",
	"job_schedules":                 "of the job queue",
	"job_workers":                   "of the job queue",
	"rate_windows":                  "counters of rate limits, which expire within an hour",
	"service_secrets":               "secrets of the installation",
	"signing_keys":                  "keys of the installation",
	"attestation_backfill":          "progress of the installation",
	"audit_export":                  "progress of the installation",
	"audit_exported":                "progress of the installation",
	"registry_requirement_backfill": "progress of the installation",
	"registry_tree_backfill":        "progress of the installation",
	"skill_backfill":                "progress of the installation",
	"organisation_deletions":        "organisations that are gone",
}

// omitted are the columns that are not in archives: secrets, and what secrets are
// recognised by.
var omitted = map[string][]string{
	"alert_rules":            {"address", "secret", "old_secret"},
	"api_keys":               {"hash"},
	"catalog_tokens":         {"hash"},
	"event_webhooks":         {"url", "secret", "old_secret"},
	"evidence_texts":         {"sealed", "key_id"},
	"grades":                 {"sealed"},
	"invitations":            {"hash"},
	"repohost_installations": {"token"},
	"scim_tokens":            {"hash"},
	"sessions":               {"hash"},
}

// blobKeys are the expressions that yield the keys of the blobs of a row.
var blobKeys = map[string][]string{
	"registry_versions":     {`archive_key`, `canonical_key`},
	"source_snapshots":      {`'sources/' || source_id || '/' || content_hash`},
	"telemetry_pushes":      {`blob_key`},
	"eval_environments":     {`key`},
	"eval_trial_recordings": {`blob_key`},
	"clawhub_uploads":       {`'clawhub/' || id`},
}
