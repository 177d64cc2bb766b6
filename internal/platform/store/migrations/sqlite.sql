-- The schema that the migrations of SQLite make. Written by `make generate`.

CREATE TABLE agent_session_events (
    session_id  TEXT NOT NULL, -- agent_sessions.id
    id          TEXT NOT NULL, -- hash of the natural key
    kind        TEXT NOT NULL,
    at          INTEGER NOT NULL,
    name        TEXT NOT NULL, -- of the tool or the skill
    duration    INTEGER, -- microseconds
    ok          INTEGER,
    PRIMARY KEY (session_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_session_skills (
    session_id TEXT NOT NULL, -- agent_sessions.id
    skill_id   TEXT NOT NULL,
    started_at INTEGER NOT NULL, -- of the session
    activated  INTEGER NOT NULL,
    offered    INTEGER NOT NULL,
    version_id TEXT, -- that was activated last
    pass_rate  INTEGER, -- in billionths
    basis      TEXT NOT NULL, -- of the grade; '' without one
    outcome    TEXT NOT NULL, -- pass or fail; '' without a grade
    PRIMARY KEY (session_id, skill_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_session_skills_outcome ON agent_session_skills (skill_id, outcome, started_at, session_id) WHERE outcome <> '';
CREATE INDEX agent_session_skills_version ON agent_session_skills (version_id, started_at, session_id) WHERE version_id IS NOT NULL;
CREATE INDEX agent_session_skills_activated ON agent_session_skills (skill_id, activated, started_at, session_id);

CREATE TABLE agent_sessions (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    session_id  TEXT NOT NULL, -- the agent's
    agent       TEXT NOT NULL, -- '' when unknown
    started_at  INTEGER NOT NULL, -- of the first event
    last_at     INTEGER NOT NULL, -- end of the last event
    provisional INTEGER NOT NULL, -- these times are only those of gradings
    ended_at    INTEGER, -- as the agent reported it
    turns       INTEGER NOT NULL, -- these count the rows of agent_session_events
    tool_calls  INTEGER NOT NULL,
    tool_errors INTEGER NOT NULL,
    events      INTEGER NOT NULL,
    truncated   INTEGER NOT NULL, -- there were more events than are stored
    pass_rate   INTEGER, -- mean over its skills, in billionths
    basis       TEXT NOT NULL, -- of the grades, mixed of several; '' without one
    outcome     TEXT NOT NULL, -- pass or fail; '' without a grade
    reported_at INTEGER NOT NULL -- hour of the last report: the retention counts from it
, unnamed_turns INTEGER NOT NULL DEFAULT 0, call_facts INTEGER NOT NULL DEFAULT 0, fact_calls INTEGER NOT NULL DEFAULT 0, error_facts INTEGER NOT NULL DEFAULT 0, fact_errors INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX agent_sessions_session ON agent_sessions (org_id, session_id, user_id);
CREATE INDEX agent_sessions_agent ON agent_sessions (org_id, agent, started_at, id);
CREATE INDEX agent_sessions_user ON agent_sessions (user_id, started_at, id);
CREATE INDEX agent_sessions_outcome ON agent_sessions (org_id, outcome, started_at, id);
CREATE INDEX agent_sessions_errors ON agent_sessions (org_id, started_at, id) WHERE tool_errors > 0;
CREATE INDEX agent_sessions_reported ON agent_sessions (reported_at);
CREATE INDEX agent_sessions_fact_errors ON agent_sessions (org_id, started_at, id) WHERE fact_errors > 0;

CREATE TABLE alert_deliveries (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL,
    rule_id         TEXT NOT NULL,
    event_id        TEXT, -- null for a test
    channel         TEXT NOT NULL,
    status          TEXT NOT NULL, -- pending, retrying, delivered or failed
    attempts        INTEGER NOT NULL,
    response_status INTEGER,
    detail          TEXT,
    created_at      INTEGER NOT NULL,
    attempted_at    INTEGER,
    next_attempt_at INTEGER
, recipient_id TEXT) STRICT;
CREATE INDEX alert_deliveries_rule ON alert_deliveries (rule_id, id);

CREATE TABLE alert_events (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL,
    rule_id         TEXT NOT NULL,
    skill_id        TEXT NOT NULL,
    skill_name      TEXT NOT NULL,
    type            TEXT NOT NULL,
    transition      TEXT NOT NULL, -- firing, resolved or reminder
    threshold       REAL NOT NULL,
    pass_rate       REAL,
    interval_low    REAL,
    interval_high   REAL,
    graded_sessions INTEGER NOT NULL,
    days_silent     REAL,
    window_from     INTEGER NOT NULL,
    window_to       INTEGER NOT NULL,
    last_session_at INTEGER,
    sequence        INTEGER NOT NULL,
    episode_id      TEXT NOT NULL,
    firing_since    INTEGER NOT NULL,
    version         TEXT, -- current in the registry at that time
    note            TEXT,
    occurred_at     INTEGER NOT NULL
, measured REAL, reference REAL, reference_version TEXT, evidence REAL, evidence_limit REAL, last_graded_at INTEGER) STRICT;
CREATE INDEX alert_events_org ON alert_events (org_id, id);
CREATE INDEX alert_events_rule ON alert_events (rule_id, id);

CREATE TABLE alert_rules (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL REFERENCES organisations (id),
    skill_id         TEXT REFERENCES skills (id), -- null: all skills
    type             TEXT NOT NULL,
    threshold        REAL NOT NULL,
    sensitivity      TEXT NOT NULL,
    action           TEXT, -- rollback, or null
    channel          TEXT NOT NULL,
    address          TEXT NOT NULL, -- URL or e-mail address; shown masked only
    secret           TEXT, -- signs webhooks
    old_secret       TEXT, -- signs beside it after a rotation
    old_secret_until INTEGER,
    enabled          INTEGER NOT NULL,
    disabled_reason  TEXT,
    created_by       TEXT NOT NULL REFERENCES users (id),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
, snoozed_until INTEGER, due_at INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX alert_rules_org ON alert_rules (org_id, id);
CREATE INDEX alert_rules_due ON alert_rules (due_at, org_id) WHERE enabled;

CREATE TABLE alert_states (
    rule_id        TEXT NOT NULL REFERENCES alert_rules (id),
    skill_id       TEXT NOT NULL,
    state          TEXT NOT NULL,
    since          INTEGER NOT NULL,
    good_streak    INTEGER NOT NULL, -- evaluations in a row that were fine while firing
    sequence       INTEGER NOT NULL, -- notices so far
    episode_id     TEXT, -- the event that began the firing
    last_notice_at INTEGER, acknowledged_at INTEGER, acknowledged_by TEXT, evidence REAL, evidence_limit REAL, evidence_sessions INTEGER NOT NULL DEFAULT 0, evidence_of TEXT NOT NULL DEFAULT '', rollback_version TEXT, rollback_at INTEGER, rollback_blocked_by TEXT, rollback_needs INTEGER NOT NULL DEFAULT 0, evidence_reached INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (rule_id, skill_id)
) STRICT;

CREATE TABLE api_keys (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    user_id      TEXT NOT NULL REFERENCES users (id),
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL, -- what people recognise the key by
    hash         TEXT NOT NULL UNIQUE, -- hex SHA-256; the key itself is kept nowhere
    permissions  TEXT, -- space-separated; null means all that the role gives
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at   INTEGER,
    revoked_at   INTEGER
, created_by_key TEXT, login INTEGER NOT NULL DEFAULT 0, relay INTEGER NOT NULL DEFAULT 0, device_id TEXT, entry_id TEXT, allowed_ips TEXT, refused_at INTEGER) STRICT;
CREATE INDEX api_keys_org ON api_keys (org_id, id);
CREATE INDEX api_keys_entry ON api_keys (expires_at) WHERE entry_id IS NOT NULL;
CREATE INDEX api_keys_user ON api_keys (user_id);

CREATE TABLE attestation_backfill (
    after_id TEXT NOT NULL -- the last version that is done; no row: all are
) STRICT;

CREATE TABLE attestations (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    version_id TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    kind       TEXT NOT NULL, -- provenance, gate, override, run
    ref        TEXT NOT NULL, -- id of the gate or the run
    statement  TEXT NOT NULL, -- JSON, as it was signed
    key_id     TEXT NOT NULL REFERENCES signing_keys (id),
    signature  TEXT NOT NULL, -- base64
    created_at INTEGER NOT NULL,
    UNIQUE (version_id, kind, ref)
) STRICT;
CREATE INDEX attestations_key ON attestations (key_id);

CREATE TABLE audit_entries (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    actor       TEXT NOT NULL, -- user, key, system or command
    actor_name  TEXT NOT NULL, -- the person's address at that time; '': nobody's
    user_id     TEXT,
    key_id      TEXT,
    action      TEXT NOT NULL, -- capability.noun.verb
    target_kind TEXT NOT NULL,
    target_id   TEXT NOT NULL,
    target_name TEXT NOT NULL,
    detail      TEXT NOT NULL, -- a small JSON object without secrets
    via         TEXT NOT NULL, -- api, web, cli or job
    request_id  TEXT
) STRICT;
CREATE INDEX audit_entries_newest ON audit_entries (org_id, at, id);
CREATE INDEX audit_entries_age ON audit_entries (at);

CREATE TABLE audit_export (
    id      INTEGER PRIMARY KEY,
    sent_at INTEGER NOT NULL -- the time of the newest entry that was sent
) STRICT;

CREATE TABLE audit_exported (
    entry_id TEXT PRIMARY KEY,
    at       INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_exported_age ON audit_exported (at);

CREATE TABLE candidate_reviews (
    version_id TEXT PRIMARY KEY REFERENCES registry_versions (id) ON DELETE CASCADE,
    org_id     TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    looks      INTEGER NOT NULL, -- how many: of two at the same time, one begins again
    found      TEXT NOT NULL, -- JSON
    looked_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX candidate_reviews_org ON candidate_reviews (org_id);

CREATE TABLE catalog_commit_plugins (
    shelf       TEXT NOT NULL,
    name        TEXT NOT NULL,
    since       INTEGER NOT NULL, -- the first commit that has the plugin like this
    until       INTEGER, -- the first one that has not; null: the newest one has it
    org_id      TEXT REFERENCES organisations (id) ON DELETE CASCADE, -- whose shelf it is; null: of all
    owner_id    TEXT NOT NULL, -- the organisation of the entry
    entry_id    TEXT NOT NULL,
    version_id  TEXT NOT NULL,
    version     TEXT NOT NULL, -- of the plugin
    description TEXT NOT NULL,
    zip         TEXT NOT NULL, -- SHA-256 of the plugin as a zip
    tree        TEXT NOT NULL, -- the git tree of the skill
    PRIMARY KEY (shelf, name, since)
) STRICT;
CREATE INDEX catalog_commit_plugins_org ON catalog_commit_plugins (org_id);

CREATE TABLE catalog_commits (
    shelf        TEXT NOT NULL, -- all, or the id of an organisation with /public or /private
    number       INTEGER NOT NULL,
    org_id       TEXT REFERENCES organisations (id) ON DELETE CASCADE, -- whose shelf it is; null: of all
    hash         TEXT NOT NULL, -- the commit's name
    parent       TEXT NOT NULL, -- empty for the first one
    tree         TEXT NOT NULL,
    market       TEXT NOT NULL, -- the format of the tree, and the names in it
    message      TEXT NOT NULL, -- empty when it is no longer served
    committed_at INTEGER NOT NULL,
    orgs         INTEGER NOT NULL, -- with changes: the revision of the shelf that it shows
    changes      INTEGER NOT NULL,
    PRIMARY KEY (shelf, number)
) STRICT;
CREATE INDEX catalog_commits_org ON catalog_commits (org_id);

CREATE TABLE catalog_tokens (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL, -- what is shown of the token
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the token
    created_by   TEXT NOT NULL, -- the user
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at   INTEGER,
    replaced_at  INTEGER -- when it was rotated; it works until it expires
) STRICT;
CREATE INDEX catalog_tokens_org ON catalog_tokens (org_id, id);

CREATE TABLE clawhub_uploads (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,
    sha256     TEXT NOT NULL,
    size       INTEGER NOT NULL,
    received   INTEGER NOT NULL, -- boolean: its bytes are stored
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX clawhub_uploads_org ON clawhub_uploads (org_id, created_at);
CREATE INDEX clawhub_uploads_age ON clawhub_uploads (created_at);

CREATE TABLE cloud_sources (
    id                  TEXT PRIMARY KEY, -- without the prefix that the API shows
    org_id              TEXT NOT NULL REFERENCES organisations (id),
    label               TEXT NOT NULL,
    source_type         TEXT NOT NULL, -- upload, repohost
    skill_id            TEXT REFERENCES skills (id), -- the skill it is measured as
    installation_id     INTEGER, -- these four of a repohost source only
    repo_full_name      TEXT,
    default_branch      TEXT,
    skill_path          TEXT,
    current_snapshot_id TEXT, -- null before the first
    suggested_at        INTEGER NOT NULL, -- as of when its suggestions are
    created_by          TEXT NOT NULL REFERENCES users (id),
    created_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX cloud_sources_org ON cloud_sources (org_id, id);
CREATE INDEX cloud_sources_linked ON cloud_sources (org_id) WHERE skill_id IS NOT NULL;
CREATE INDEX cloud_sources_suggested ON cloud_sources (suggested_at, id) WHERE skill_id IS NOT NULL;

CREATE TABLE community_bundles (
    id                  TEXT PRIMARY KEY,
    org_id              TEXT NOT NULL REFERENCES organisations (id), -- who sent it
    creator_id          TEXT NOT NULL, -- whom it is for; perhaps no user yet
    skill_name          TEXT NOT NULL,
    digest              TEXT NOT NULL, -- of creator, skill and bundle: the same again is no other
    contributor_hash    TEXT NOT NULL,
    schema_version      TEXT NOT NULL,
    tool_version        TEXT,
    agent_type          TEXT NOT NULL,
    sanitization_level  TEXT NOT NULL,
    positive_queries    INTEGER NOT NULL,
    eval_entries        INTEGER NOT NULL,
    total_sessions      INTEGER NOT NULL,
    graded_sessions     INTEGER NOT NULL,
    average_pass_rate   REAL,
    deployed_proposals  INTEGER NOT NULL,
    bundle              TEXT NOT NULL,
    created_at          INTEGER NOT NULL, -- as the bundle has it
    submitted_at        INTEGER NOT NULL,
    UNIQUE (org_id, digest)
) STRICT;
CREATE INDEX community_bundles_creator ON community_bundles (creator_id, id, skill_name, contributor_hash, submitted_at);
CREATE INDEX community_bundles_skill ON community_bundles (creator_id, skill_name, id, contributor_hash, submitted_at,
    created_at, total_sessions, graded_sessions, average_pass_rate);

CREATE TABLE comparison_arms (
    comparison_id TEXT NOT NULL REFERENCES comparisons (id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    name          TEXT NOT NULL,
    subject       TEXT NOT NULL, -- JSON; {} for no skill
    entry_id      TEXT, -- of subject
    agent         TEXT, -- JSON
    label         TEXT NOT NULL, -- the version that was found
    run_id        TEXT NOT NULL, -- of an earlier comparison where that is as good
    conditions    TEXT NOT NULL, -- digest of the content and of all that the outcome depends on
    reused        INTEGER NOT NULL,
    PRIMARY KEY (comparison_id, position)
) STRICT;
CREATE INDEX comparison_arms_run ON comparison_arms (run_id);
CREATE INDEX comparison_arms_entry ON comparison_arms (entry_id, comparison_id) WHERE entry_id IS NOT NULL;
CREATE INDEX comparison_arms_conditions ON comparison_arms (conditions, comparison_id);

CREATE TABLE comparison_preferences (
    comparison_id TEXT NOT NULL REFERENCES comparisons (id) ON DELETE CASCADE,
    a             INTEGER NOT NULL, -- position of an arm
    b             INTEGER NOT NULL,
    case_id       TEXT NOT NULL,
    n             INTEGER NOT NULL, -- the trial
    kind          TEXT NOT NULL, -- pair, same, cut
    answer        TEXT NOT NULL, -- JSON
    PRIMARY KEY (comparison_id, a, b, case_id, n, kind)
) STRICT;

CREATE TABLE comparisons (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    suite_id   TEXT NOT NULL, -- may be deleted
    status     TEXT NOT NULL, -- as of eval_runs
    trials     INTEGER NOT NULL,
    preference INTEGER NOT NULL,
    margin     REAL NOT NULL,
    max_micros INTEGER, -- that all arms may cost together
    seed       INTEGER NOT NULL,
    result     TEXT, -- JSON; NULL until it is over
    error      TEXT,
    created_by TEXT NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at   INTEGER
) STRICT;
CREATE INDEX comparisons_org ON comparisons (org_id, id);
CREATE INDEX comparisons_suite ON comparisons (suite_id, id);

CREATE TABLE cost_buckets (
    subject_id TEXT NOT NULL,
    day        INTEGER NOT NULL,
    bucket     INTEGER NOT NULL, -- see bucketOf
    uses       INTEGER NOT NULL,
    micros     INTEGER NOT NULL,
    PRIMARY KEY (subject_id, day, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE cost_days (
    subject_id       TEXT NOT NULL,
    day              INTEGER NOT NULL, -- days since the epoch, UTC
    requests         INTEGER NOT NULL,
    reported         INTEGER NOT NULL, -- requests whose price the producer reported
    unpriced         INTEGER NOT NULL, -- requests whose price is unknown
    micros           INTEGER NOT NULL,
    input            INTEGER NOT NULL, -- tokens
    output           INTEGER NOT NULL,
    cache_read       INTEGER NOT NULL,
    cache_write      INTEGER NOT NULL,
    uses             INTEGER NOT NULL, -- that began on this day
    use_requests     INTEGER NOT NULL, -- of these uses
    sessions         INTEGER NOT NULL, -- of an organisation: that began on this day
    session_requests INTEGER NOT NULL, -- of these sessions
    graded_sessions  INTEGER NOT NULL, -- whose cost is known, on the day of the grade
    graded_micros    INTEGER NOT NULL, -- of these sessions
    pass_rate_sum    INTEGER NOT NULL, -- billionths; of these sessions
    PRIMARY KEY (subject_id, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE cost_groups (
    key          TEXT PRIMARY KEY, -- of a session: hash of subject and session
    kind         TEXT NOT NULL, -- use, session
    subject_id   TEXT NOT NULL, -- a skill, or the organisation
    version_id   TEXT,
    session_key  TEXT, -- of a use: the session with the skill
    session_hash TEXT NOT NULL,
    first_at     INTEGER, -- NULL: of a session with a skill
    requests     INTEGER NOT NULL,
    unpriced     INTEGER NOT NULL, -- requests
    micros       INTEGER NOT NULL,
    grade_day    INTEGER, -- of a session with a skill: the day of its grade
    pass_rate    INTEGER -- billionths
) STRICT;
CREATE INDEX cost_groups_session ON cost_groups (session_key) WHERE session_key IS NOT NULL;

CREATE TABLE cost_marks (
    session_hash TEXT NOT NULL,
    marked_at    INTEGER NOT NULL,
    skill_name   TEXT NOT NULL, opens_turn INTEGER NOT NULL DEFAULT 0, -- empty: no skill from here on
    PRIMARY KEY (session_hash, marked_at, skill_name)
) STRICT, WITHOUT ROWID;

CREATE TABLE cost_models (
    org_id   TEXT NOT NULL,
    day      INTEGER NOT NULL,
    model    TEXT NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (org_id, day, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE cost_prices (
    org_id        TEXT PRIMARY KEY,
    models        TEXT NOT NULL, -- JSON; the organisation's own prices
    table_hash    TEXT NOT NULL, -- of all prices that its requests are priced by
    reprice_after TEXT -- the last request that has them; NULL: all have
) STRICT;

CREATE TABLE cost_requests (
    id               TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id           TEXT NOT NULL,
    user_id          TEXT NOT NULL,
    session_hash     TEXT NOT NULL, -- hash of user and session; empty when there is none
    turn_hash        TEXT, -- hash of user and prompt
    skill_name       TEXT NOT NULL, -- as the producer attributes it; empty for none
    inferred         INTEGER NOT NULL, -- true: without a name, the skill is that of the last mark
    skill_id         TEXT, -- the skill that it counts for
    version_id       TEXT, -- the version that the session used
    use_key          TEXT, -- the use of the skill that it belongs to
    occurred_at      INTEGER NOT NULL,
    model            TEXT NOT NULL,
    input            INTEGER NOT NULL, -- tokens
    output           INTEGER NOT NULL,
    cache_read       INTEGER NOT NULL,
    cache_write      INTEGER NOT NULL,
    cache_write_hour INTEGER NOT NULL, -- of cache_write
    reported_micros  INTEGER, -- what the producer says that it cost
    micros           INTEGER -- what it counts as
) STRICT;
CREATE INDEX cost_requests_session ON cost_requests (session_hash, occurred_at) WHERE session_hash <> '';
CREATE INDEX cost_requests_use ON cost_requests (use_key) WHERE use_key IS NOT NULL;
CREATE INDEX cost_requests_skill ON cost_requests (skill_id, id) WHERE skill_id IS NOT NULL;
CREATE INDEX cost_requests_priced ON cost_requests (org_id, id) WHERE reported_micros IS NULL;

CREATE TABLE device_codes (
    hash       TEXT PRIMARY KEY, -- hex SHA-256 of the device code
    user_code  TEXT NOT NULL UNIQUE,
    client_id  TEXT NOT NULL,
    status     TEXT NOT NULL, -- pending, approved, denied, used
    org_id     TEXT REFERENCES organisations (id),
    user_id    TEXT REFERENCES users (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
, key_id TEXT REFERENCES api_keys (id), device_id TEXT) STRICT;
CREATE INDEX device_codes_expiry ON device_codes (expires_at);

CREATE TABLE entry_codeowners (
    connection_id TEXT PRIMARY KEY REFERENCES repohost_connections (id) ON DELETE CASCADE,
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id      TEXT NOT NULL REFERENCES registry_entries (id) ON DELETE CASCADE,
    repository    TEXT NOT NULL, -- e.g. acme/skills
    commit_sha    TEXT NOT NULL, -- that the file was read at
    path          TEXT NOT NULL, -- of the file, e.g. .github/CODEOWNERS
    line          INTEGER NOT NULL, -- that applies; 0: none does
    pattern       TEXT NOT NULL, -- of the line; '': none applies
    owners        TEXT NOT NULL, -- JSON: as they are written, e.g. ["@acme/docs", "ada@example.org"]
    read_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX entry_codeowners_entry ON entry_codeowners (entry_id);
CREATE INDEX entry_codeowners_org ON entry_codeowners (org_id);

CREATE TABLE entry_owners (
    entry_id TEXT NOT NULL REFERENCES registry_entries (id) ON DELETE CASCADE,
    org_id   TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id  TEXT REFERENCES users (id) ON DELETE CASCADE,
    team_id  TEXT REFERENCES teams (id) ON DELETE CASCADE,
    set_at   INTEGER NOT NULL,
    UNIQUE (entry_id, user_id),
    UNIQUE (entry_id, team_id)
) STRICT;
CREATE INDEX entry_owners_org ON entry_owners (org_id);
CREATE INDEX entry_owners_user ON entry_owners (user_id);
CREATE INDEX entry_owners_team ON entry_owners (team_id);

CREATE TABLE eval_agent_costs (
    org_id TEXT NOT NULL REFERENCES organisations (id),
    agent  TEXT NOT NULL,
    model  TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    trials INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    PRIMARY KEY (org_id, agent, model, run_id)
) STRICT;
CREATE INDEX eval_agent_costs_run ON eval_agent_costs (run_id);

CREATE TABLE eval_environments (
    suite_id TEXT NOT NULL REFERENCES eval_suites (id),
    key      TEXT NOT NULL, bytes INTEGER NOT NULL DEFAULT 0, -- of the blob that a case of the suite refers to
    PRIMARY KEY (suite_id, key)
) STRICT;
CREATE INDEX eval_environments_key ON eval_environments (key);

CREATE TABLE eval_run_cases (
    run_id         TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_id        TEXT NOT NULL,
    query          TEXT, -- of the cases that have one
    should_trigger INTEGER NOT NULL,
    verdict        TEXT NOT NULL,
    invocation     TEXT NOT NULL, -- how the skill is called; empty if the case does not say
    PRIMARY KEY (run_id, case_id)
) STRICT;

CREATE TABLE eval_run_catalogs (
    run_id         TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    org_id         TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    catalog        TEXT NOT NULL, -- full, claude-code or codex
    context_window INTEGER NOT NULL, -- tokens; 0 with full
    pair           TEXT NOT NULL, -- equal for runs that differ in the listing only
    choice         TEXT NOT NULL, -- JSON of the columns above, and the number of skills
    skills         TEXT NOT NULL -- JSON: names and descriptions as they are listed
) STRICT;
CREATE INDEX eval_run_catalogs_org ON eval_run_catalogs (org_id, pair);

CREATE TABLE eval_run_costs (
    run_id TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    cost   TEXT NOT NULL -- JSON: micros, unpriced_requests, requests, tokens
) STRICT;

CREATE TABLE eval_run_counts (
    run_id TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    tried  INTEGER NOT NULL, -- trials of both variants that were not skipped
    errors INTEGER NOT NULL -- of these
) STRICT;

CREATE TABLE eval_run_events (
    run_id     TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    id         INTEGER NOT NULL, -- from 1, without gaps
    name       TEXT NOT NULL, -- progress, case, status
    data       TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT;

CREATE TABLE eval_run_imports (
    run_id   TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    suite_id TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    digest   TEXT NOT NULL,
    origin   TEXT NOT NULL, -- JSON: tool, version, model, its own totals
    UNIQUE (suite_id, digest)
) STRICT;

CREATE TABLE eval_run_purposes (
    run_id         TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    improve_run_id TEXT NOT NULL -- that the run was made for
) STRICT;
CREATE INDEX eval_run_purposes_improve ON eval_run_purposes (improve_run_id);

CREATE TABLE eval_run_scores (
    run_id TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    score  REAL, -- NULL without a decided case
    lift   TEXT -- JSON; NULL without a baseline, and of runs from before
) STRICT;

CREATE TABLE eval_run_terms (
    run_id       TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    terms        TEXT NOT NULL, -- JSON: agent, max_micros, estimate_micros
    spent_micros INTEGER NOT NULL -- by all requests, those of interrupted trials, too
) STRICT;

CREATE TABLE eval_run_trials (
    run_id      TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_index  INTEGER NOT NULL, -- the case's place in the run's cases
    variant     TEXT NOT NULL, -- skill, no_skill, previous
    n           INTEGER NOT NULL, -- from 1
    verdict     TEXT NOT NULL, -- pass, fail, error, skipped
    score       REAL,
    duration_ms INTEGER NOT NULL,
    error       TEXT,
    evidence    TEXT NOT NULL, -- JSON
    output_tail TEXT NOT NULL,
    PRIMARY KEY (run_id, case_index, variant, n)
) STRICT;

CREATE TABLE eval_runs (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL REFERENCES organisations (id),
    suite_id      TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    source_id     TEXT, -- the cloud source that the run says something about
    status        TEXT NOT NULL, -- queued, running, succeeded, failed, cancelled
    subject       TEXT NOT NULL, -- JSON: what was asked for, and the skill found
    previous      TEXT, -- JSON: the skill of the baseline "previous"
    distractors   TEXT, -- JSON: what the skill competes with; null if no case asks
    trials        INTEGER NOT NULL,
    baseline      TEXT NOT NULL, -- none, no_skill, previous
    seed          INTEGER NOT NULL,
    judge         TEXT, -- JSON; null if no case needs one
    total         INTEGER NOT NULL, -- units of work: trials of cases
    done          INTEGER NOT NULL,
    last_event    INTEGER NOT NULL, -- number of the newest event
    passed        INTEGER NOT NULL, -- cases, like the next three; 0 until the end
    failed        INTEGER NOT NULL,
    errors        INTEGER NOT NULL,
    skipped       INTEGER NOT NULL,
    pass_rate     REAL,
    interval_low  REAL,
    interval_high REAL,
    pass_k        REAL,
    base_rate     REAL, -- the baseline's, on the cases that both decided
    base_delta    REAL,
    base_gain     REAL,
    error         TEXT,
    created_by    TEXT NOT NULL REFERENCES users (id),
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    finished_at   INTEGER,
    verifier_kind TEXT NOT NULL, -- of the suite, like the rest, when the run was made
    no_skill      INTEGER NOT NULL,
    case_count    INTEGER NOT NULL,
    cases         TEXT NOT NULL -- the suite's; last, so that reading the others does not read it
) STRICT;
CREATE INDEX eval_runs_suite ON eval_runs (suite_id, id);
CREATE INDEX eval_runs_source ON eval_runs (source_id, suite_id, id) WHERE source_id IS NOT NULL;

CREATE TABLE eval_schedule_runs (
    run_id      TEXT PRIMARY KEY, -- may be deleted with its suite
    schedule_id TEXT NOT NULL REFERENCES eval_schedules (id) ON DELETE CASCADE,
    due_at      INTEGER, -- NULL for a run that a person started
    status      TEXT NOT NULL, -- running until it is recorded, then as of eval_runs, or deleted
    max_micros  INTEGER,
    passed      INTEGER NOT NULL DEFAULT 0, -- trials with the skill
    decided     INTEGER NOT NULL DEFAULT 0,
    counts      INTEGER NOT NULL DEFAULT 0, -- it is evidence
    reference   REAL, -- score that it is compared with
    cost_micros INTEGER, -- NULL if a price is unknown
    conditions  TEXT NOT NULL DEFAULT '[]', -- JSON; what it was made with
    changed     TEXT NOT NULL DEFAULT '[]', -- JSON; since the run before
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER
) STRICT;
CREATE UNIQUE INDEX eval_schedule_runs_due ON eval_schedule_runs (schedule_id, due_at);
CREATE INDEX eval_schedule_runs_newest ON eval_schedule_runs (schedule_id, run_id);

CREATE TABLE eval_schedules (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL REFERENCES organisations (id),
    suite_id         TEXT NOT NULL, -- may be deleted
    subject          TEXT NOT NULL, -- JSON
    entry_id         TEXT, -- of subject
    skill            TEXT NOT NULL, -- its name, as of the last run
    agent            TEXT, -- JSON
    trials           INTEGER NOT NULL,
    baseline         TEXT NOT NULL,
    every            TEXT NOT NULL, -- '' with cron
    cron             TEXT NOT NULL, -- '' with every
    max_micros       INTEGER, -- that one run may cost
    max_month_micros INTEGER, -- that the runs of a calendar month may cost
    enabled          INTEGER NOT NULL,
    paused_reason    TEXT,
    next_at          INTEGER, -- NULL unless enabled
    last_run_id      TEXT,
    reference        TEXT, -- JSON; NULL until there are enough runs
    building         TEXT, -- JSON; the reference that follows
    created_by       TEXT NOT NULL REFERENCES users (id),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX eval_schedules_org ON eval_schedules (org_id, id);
CREATE INDEX eval_schedules_suite ON eval_schedules (suite_id, id);
CREATE INDEX eval_schedules_entry ON eval_schedules (entry_id, id) WHERE entry_id IS NOT NULL;
CREATE INDEX eval_schedules_due ON eval_schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE eval_suite_edits (
    org_id    TEXT NOT NULL REFERENCES organisations (id),
    suite_id  TEXT NOT NULL,
    version   INTEGER NOT NULL, -- that the change made
    source_id TEXT, -- of the suite
    edited_by TEXT NOT NULL REFERENCES users (id),
    edited_at INTEGER NOT NULL,
    cases     TEXT NOT NULL, -- JSON: names of cases that were added, removed and changed
    PRIMARY KEY (suite_id, version)
) STRICT;
CREATE INDEX eval_suite_edits_source ON eval_suite_edits (org_id, source_id);

CREATE TABLE eval_suites (
    id                TEXT PRIMARY KEY,
    org_id            TEXT NOT NULL REFERENCES organisations (id),
    source_id         TEXT, -- of a cloud source, without its prefix
    name              TEXT NOT NULL,
    source_kind       TEXT NOT NULL,
    verifier_kind     TEXT NOT NULL,
    supports_no_skill INTEGER NOT NULL,
    resource_limits   TEXT, -- a JSON object
    case_count        INTEGER NOT NULL,
    kind              TEXT NOT NULL, -- task_package or cases
    issues            TEXT NOT NULL, -- why it cannot be run, as JSON; follows from the rest
    version           INTEGER NOT NULL, -- grows with every change
    created_by        TEXT NOT NULL REFERENCES users (id),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    cases             TEXT NOT NULL -- a JSON array; last, so that reading the others does not read it
) STRICT;
CREATE INDEX eval_suites_org ON eval_suites (org_id, id);
CREATE INDEX eval_suites_source ON eval_suites (source_id, id);

CREATE TABLE eval_trial_recordings (
    id       TEXT PRIMARY KEY, -- session_id of the trial
    run_id   TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_id  TEXT NOT NULL,
    variant  TEXT NOT NULL,
    n        INTEGER NOT NULL,
    blob_key TEXT NOT NULL UNIQUE,
    sha256   TEXT NOT NULL,
    bytes    INTEGER NOT NULL
) STRICT;
CREATE INDEX eval_trial_recordings_run ON eval_trial_recordings (run_id);

CREATE TABLE event_deliveries (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    webhook_id      TEXT NOT NULL,
    event_id        TEXT, -- null for a test
    event_type      TEXT NOT NULL,
    replay_of       TEXT, -- the delivery that a person sent again
    queued          INTEGER NOT NULL, -- it has a job
    status          TEXT NOT NULL, -- pending, retrying, delivered or failed
    attempts        INTEGER NOT NULL,
    response_status INTEGER,
    detail          TEXT,
    created_at      INTEGER NOT NULL,
    attempted_at    INTEGER,
    next_attempt_at INTEGER
) STRICT;
CREATE INDEX event_deliveries_webhook ON event_deliveries (webhook_id, id);
CREATE INDEX event_deliveries_org ON event_deliveries (org_id);
CREATE INDEX event_deliveries_age ON event_deliveries (created_at);
CREATE INDEX event_deliveries_unqueued ON event_deliveries (id) WHERE NOT queued;

CREATE TABLE event_records (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    type        TEXT NOT NULL,
    path        TEXT NOT NULL, -- page about it; '' for none
    data        TEXT NOT NULL, -- JSON object
    occurred_at INTEGER NOT NULL
) STRICT;
CREATE INDEX event_records_org ON event_records (org_id);
CREATE INDEX event_records_age ON event_records (occurred_at);

CREATE TABLE event_webhooks (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    url              TEXT NOT NULL, -- sealed
    secret           TEXT NOT NULL, -- sealed; signs
    old_secret       TEXT, -- sealed; signs beside secret until old_secret_until
    old_secret_until INTEGER,
    events           TEXT NOT NULL, -- types, with spaces between them
    paused           INTEGER NOT NULL,
    paused_reason    TEXT, -- null: a person paused it
    created_by       TEXT NOT NULL, -- the user
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX event_webhooks_org ON event_webhooks (org_id, id);

CREATE TABLE evidence_sessions (
    id      TEXT PRIMARY KEY, -- agent_sessions.id
    org_id  TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name    TEXT NOT NULL, -- agent_sessions.session_id
    texts   INTEGER NOT NULL, -- these count the rows of evidence_texts
    bytes   INTEGER NOT NULL, -- of the texts in clear
    stored  INTEGER NOT NULL -- of the texts as they are sealed
) STRICT;
CREATE INDEX evidence_sessions_org ON evidence_sessions (org_id, id, stored);
CREATE INDEX evidence_sessions_user ON evidence_sessions (user_id);

CREATE TABLE evidence_settings (
    org_id     TEXT PRIMARY KEY REFERENCES organisations (id) ON DELETE CASCADE,
    enabled    INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE evidence_texts (
    session_id  TEXT NOT NULL, -- evidence_sessions.id
    event_id    TEXT NOT NULL, -- agent_session_events.id or cost_requests.id
    at          INTEGER NOT NULL,
    length      INTEGER NOT NULL, -- of the text as it was sent
    bytes       INTEGER NOT NULL,
    stored      INTEGER NOT NULL,
    key_id      TEXT NOT NULL, -- of the key that sealed it
    received_at INTEGER NOT NULL, -- the retention counts from it
    sealed      BLOB NOT NULL,
    PRIMARY KEY (session_id, event_id)
) STRICT;
CREATE INDEX evidence_texts_received ON evidence_texts (received_at);
CREATE INDEX evidence_texts_key ON evidence_texts (key_id);

CREATE TABLE gate_policies (
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    entry_id   TEXT NOT NULL, -- '' for the organisation's default
    policy     TEXT NOT NULL, -- JSON
    updated_by TEXT NOT NULL REFERENCES users (id),
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, entry_id)
) STRICT;

CREATE TABLE gate_requirements (
    version_id    TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL REFERENCES organisations (id),
    entry_id      TEXT NOT NULL,
    approvals     INTEGER NOT NULL,
    self_approval INTEGER NOT NULL,
    host_reviews  INTEGER NOT NULL
) STRICT;
CREATE INDEX gate_requirements_entry ON gate_requirements (entry_id);

CREATE TABLE gate_runs (
    gate_id    TEXT NOT NULL REFERENCES gates (id),
    suite_id   TEXT NOT NULL,
    step       TEXT NOT NULL, -- screen, confirm
    arm        TEXT NOT NULL, -- new, current
    run_id     TEXT NOT NULL, -- a run of an earlier gate where that is as good
    version_id TEXT NOT NULL,
    conditions TEXT NOT NULL, reused INTEGER NOT NULL DEFAULT 0, -- digest of all that the outcome depends on but the version
    PRIMARY KEY (gate_id, suite_id, step, arm)
) STRICT;
CREATE INDEX gate_runs_version ON gate_runs (version_id, suite_id);
CREATE INDEX gate_runs_run ON gate_runs (run_id);

CREATE TABLE gates (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    entry_id   TEXT NOT NULL REFERENCES registry_entries (id),
    version_id TEXT NOT NULL,
    version    TEXT NOT NULL,
    against_id TEXT, -- the version that was current; null for the first one
    against    TEXT,
    status     TEXT NOT NULL, -- queued, running, decided, superseded, cancelled
    verdict    TEXT, -- pass, block, inconclusive, skipped
    reason     TEXT NOT NULL,
    policy     TEXT NOT NULL, -- JSON, as it was at the push
    created_by TEXT NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    decided_at INTEGER,
    override   TEXT, -- JSON: who, when, why
    result     TEXT NOT NULL -- JSON: what the trials of each suite showed, and their cost
, pull_id TEXT, pull TEXT, pool TEXT NOT NULL DEFAULT '', content TEXT NOT NULL DEFAULT '', previous TEXT NOT NULL DEFAULT '[]') STRICT;
CREATE INDEX gates_org ON gates (org_id, id);
CREATE INDEX gates_entry ON gates (entry_id, id);
CREATE INDEX gates_pull ON gates (pull_id, id) WHERE pull_id IS NOT NULL;
CREATE INDEX gates_content ON gates (entry_id, content) WHERE content <> '';

CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);

CREATE TABLE grade_failure_labels (
    skill_id    TEXT NOT NULL,
    key         TEXT NOT NULL, -- of grade_failures
    grade_id    TEXT NOT NULL, -- whose reason was read: the label goes with it
    label       TEXT, -- NULL: the answer was not usable
    labelled_at INTEGER NOT NULL,
    PRIMARY KEY (skill_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX grade_failure_labels_grade ON grade_failure_labels (grade_id);

CREATE TABLE grade_failures (
    grade_id     TEXT NOT NULL,
    key          TEXT NOT NULL, -- failures of one key are one group
    label        TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    basis        TEXT NOT NULL,
    session_key  TEXT NOT NULL, -- of skill_session_grades
    session_hash TEXT NOT NULL,
    failed_at    INTEGER NOT NULL,
    PRIMARY KEY (grade_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX grade_failures_skill ON grade_failures (skill_id, failed_at);

CREATE TABLE grade_queue (
    session_hash TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL, -- whose session it is
    rank         TEXT NOT NULL, -- a hash: the order in which sessions are sampled
    attempts     INTEGER NOT NULL, -- of the judge
    queued_at    INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    PRIMARY KEY (session_hash, skill_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX grade_queue_due ON grade_queue (due_at, org_id);
CREATE INDEX grade_queue_skill ON grade_queue (org_id, skill_id, rank);
CREATE INDEX grade_queue_user ON grade_queue (user_id);

CREATE TABLE grade_unusable (
    session_hash TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL, -- whose session it is
    judged_at    INTEGER NOT NULL,
    PRIMARY KEY (session_hash, skill_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX grade_unusable_skill ON grade_unusable (org_id, skill_id);
CREATE INDEX grade_unusable_user ON grade_unusable (user_id);

CREATE TABLE grader_days (
    org_id   TEXT NOT NULL,
    grader   TEXT NOT NULL, -- its skill, '' for that of all skills
    day      INTEGER NOT NULL, -- days since the epoch, UTC
    skill_id TEXT NOT NULL, -- of the sessions
    judged   INTEGER NOT NULL, -- sessions
    calls    INTEGER NOT NULL, -- requests to the model
    micros   INTEGER NOT NULL, labels INTEGER NOT NULL DEFAULT 0, -- of the calls whose price is known
    PRIMARY KEY (org_id, grader, day, skill_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE graders (
    org_id             TEXT NOT NULL,
    skill_id           TEXT NOT NULL, -- '': of all skills without their own
    enabled            INTEGER NOT NULL,
    expectations       TEXT NOT NULL, -- JSON
    sample_per_day     INTEGER, -- NULL: all sessions
    max_micros_per_day INTEGER, -- NULL: no limit
    threshold          INTEGER NOT NULL, -- billionths
    updated_at         INTEGER NOT NULL,
    PRIMARY KEY (org_id, skill_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE grades (
    id           TEXT PRIMARY KEY, -- of skill_gradings
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL, -- whose session it is
    session_hash TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    basis        TEXT NOT NULL,
    pass_rate    INTEGER NOT NULL, -- billionths
    passed       INTEGER NOT NULL, -- the pass rate reaches the grader's threshold
    graded_by    TEXT, -- the person
    reason       TEXT,
    evidence     TEXT NOT NULL, -- JSON: the expectations and whether they passed
    judge        TEXT, -- JSON: how the verdict was made
    sealed       TEXT, -- encrypted JSON: what was quoted from the session
    graded_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX grades_session ON grades (session_hash, skill_id);
CREATE INDEX grades_skill ON grades (skill_id, basis, session_hash);
CREATE INDEX grades_user ON grades (user_id);
CREATE INDEX grades_person ON grades (graded_by) WHERE graded_by IS NOT NULL;
CREATE INDEX grades_graded ON grades (graded_at);

CREATE TABLE identities (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    provider     TEXT NOT NULL, -- its name in the settings at the last sign-in
    email        TEXT NOT NULL, -- at the last sign-in
    key_id       TEXT NOT NULL, -- that the sessions hang on
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL, role TEXT,
    UNIQUE (org_id, issuer, subject),
    UNIQUE (user_id, issuer) -- another identity of the same provider is another person
) STRICT;

CREATE TABLE improve_candidates (
    run_id    TEXT NOT NULL REFERENCES improve_runs (id) ON DELETE CASCADE,
    n         INTEGER NOT NULL, -- of the iteration
    parent    INTEGER NOT NULL, -- the iteration that it was made from
    partner   INTEGER, -- the other one that it merges
    stage     TEXT NOT NULL, -- written, minibatch, selection, done
    source_id TEXT, -- holds its files while it is tried
    minibatch TEXT NOT NULL, -- JSON: ids of cases
    edits     TEXT NOT NULL, -- JSON: that made it from its parent
    skill_md  TEXT NOT NULL,
    PRIMARY KEY (run_id, n)
) STRICT;

CREATE TABLE improve_iterations (
    run_id         TEXT NOT NULL REFERENCES improve_runs (id) ON DELETE CASCADE,
    n              INTEGER NOT NULL, -- 0 for the description that the skill has
    description    TEXT, -- null if none came of the iteration
    reason         TEXT NOT NULL, -- the writer's
    problem        TEXT, -- why it cannot win
    train_passed   INTEGER NOT NULL, -- queries, like the next four
    train_cases    INTEGER NOT NULL, -- those with a verdict
    holdout_passed INTEGER NOT NULL,
    holdout_cases  INTEGER NOT NULL,
    errors         INTEGER NOT NULL, -- without a verdict
    results        TEXT NOT NULL, -- JSON: of each query of the run; last as queries
    PRIMARY KEY (run_id, n)
) STRICT;

CREATE TABLE improve_policies (
    org_id      TEXT NOT NULL REFERENCES organisations (id),
    skill_id    TEXT NOT NULL,
    mode        TEXT NOT NULL, -- off, propose, publish
    monthly_usd REAL NOT NULL,
    updated_by  TEXT NOT NULL REFERENCES users (id),
    updated_at  INTEGER NOT NULL,
    night       TEXT NOT NULL, -- the last one that looked at the skill, e.g. 2026-01-02
    note        TEXT NOT NULL, -- what it did, or why it did nothing
    run_id      TEXT, -- an improve run of a night whose end has not been looked at
    PRIMARY KEY (org_id, skill_id)
) STRICT;
CREATE INDEX improve_policies_night ON improve_policies (night, org_id) WHERE mode <> 'off';
CREATE INDEX improve_policies_run ON improve_policies (org_id) WHERE run_id IS NOT NULL;

CREATE TABLE improve_policy_runs (
    run_id       TEXT PRIMARY KEY, -- an improve run that started by itself
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    skill_id     TEXT NOT NULL,
    max_cost_usd REAL NOT NULL,
    started_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX improve_policy_runs_skill ON improve_policy_runs (org_id, skill_id, started_at);

CREATE TABLE improve_proofs (
    suite_id TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    digest   TEXT NOT NULL,
    times    INTEGER NOT NULL,
    PRIMARY KEY (suite_id, digest)
) STRICT;

CREATE TABLE improve_runs (
    id             TEXT PRIMARY KEY,
    org_id         TEXT NOT NULL REFERENCES organisations (id),
    suite_id       TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    status         TEXT NOT NULL, -- queued, running, succeeded, no_winner, failed_transient, failed_terminal, cancelled
    subject        TEXT NOT NULL, -- JSON: what was asked for, and the skill found
    description    TEXT NOT NULL, -- the skill's when the run was made
    distractors    TEXT NOT NULL, -- JSON: what the skill competes with
    max_iterations INTEGER NOT NULL,
    holdout        REAL NOT NULL, -- share of the queries that only decide
    seed           INTEGER NOT NULL,
    judge          TEXT NOT NULL, -- JSON
    train_count    INTEGER NOT NULL, -- queries, like the next
    holdout_count  INTEGER NOT NULL,
    left_out       INTEGER NOT NULL, -- cases of the suite that were not taken
    done           INTEGER NOT NULL, -- trials
    total          INTEGER NOT NULL,
    winner         INTEGER, -- number of an iteration
    proposal_id    TEXT,
    error          TEXT,
    created_by     TEXT NOT NULL REFERENCES users (id),
    created_at     INTEGER NOT NULL,
    started_at     INTEGER,
    finished_at    INTEGER,
    queries        TEXT NOT NULL -- JSON; last, so that reading the others does not read it
) STRICT;
CREATE INDEX improve_runs_org ON improve_runs (org_id, id);
CREATE INDEX improve_runs_suite ON improve_runs (suite_id, id);

CREATE TABLE improve_searches (
    run_id   TEXT PRIMARY KEY REFERENCES improve_runs (id) ON DELETE CASCADE,
    terms    TEXT NOT NULL, -- JSON: what to change, and what the run may cost
    phase    TEXT NOT NULL, -- current, search, proof
    writing  TEXT NOT NULL, -- JSON: what the writer has cost
    cost     TEXT NOT NULL, -- JSON: of all so far
    proof    TEXT, -- JSON: what the proof shows
    cases    TEXT NOT NULL, -- JSON: id, digest, group, part
    skill_md TEXT NOT NULL -- of the current version
) STRICT;

CREATE TABLE improve_sources (
    source_id TEXT PRIMARY KEY,
    org_id    TEXT NOT NULL REFERENCES organisations (id),
    run_id    TEXT NOT NULL
) STRICT;
CREATE INDEX improve_sources_run ON improve_sources (run_id);

CREATE TABLE improve_trials (
    improve_run_id TEXT NOT NULL REFERENCES improve_runs (id) ON DELETE CASCADE,
    n              INTEGER NOT NULL, -- of the iteration that it was made for
    step           TEXT NOT NULL, -- current, rollout, minibatch, selection, proof, rest
    arm            TEXT NOT NULL, -- candidate, current
    run_id         TEXT NOT NULL,
    PRIMARY KEY (improve_run_id, n, step, arm)
) STRICT;

CREATE TABLE incidents (
    id               TEXT PRIMARY KEY, -- of the event in alert_events
    org_id           TEXT NOT NULL,
    rule_id          TEXT NOT NULL,
    skill_id         TEXT NOT NULL,
    skill_name       TEXT NOT NULL,
    entry_id         TEXT NOT NULL,
    version_id       TEXT NOT NULL, -- the bad version
    version          TEXT NOT NULL,
    good_version     TEXT NOT NULL, -- current since
    evidence         TEXT NOT NULL, -- in words
    connection_id    TEXT, -- null: the bad version came from no commit
    attempt_id       TEXT,
    commit_sha       TEXT,
    commit_status    TEXT NOT NULL, -- none, pending, done or failed
    commit_detail    TEXT NOT NULL,
    issue_status     TEXT NOT NULL, -- none, pending, done, closed or failed
    issue_detail     TEXT NOT NULL,
    issue_number     INTEGER,
    issue_url        TEXT,
    tries            INTEGER NOT NULL, -- at the code host, since it last answered
    installations    INTEGER NOT NULL, -- that still have the bad version
    told_at          INTEGER, -- when the channel was told which
    opened_at        INTEGER NOT NULL,
    closed_at        INTEGER
, marked_at INTEGER, issue_opened_at INTEGER, issue_closed_at INTEGER, outcome TEXT NOT NULL DEFAULT '') STRICT;
CREATE INDEX incidents_org ON incidents (org_id, id);
CREATE INDEX incidents_unfinished ON incidents (id) WHERE closed_at IS NULL OR issue_status = 'done';

CREATE TABLE installation_changes (
    user_id      TEXT NOT NULL REFERENCES users (id),
    entry_id     TEXT NOT NULL REFERENCES registry_entries (id),
    device_hash  TEXT NOT NULL, -- empty: all devices of the user taken together
    since        INTEGER NOT NULL,
    content_hash TEXT NOT NULL, -- from then on; empty: nothing, or different versions
    PRIMARY KEY (user_id, entry_id, device_hash, since)
) STRICT;
CREATE INDEX installation_changes_entry ON installation_changes (entry_id);

CREATE TABLE installation_holdings (
    org_id   TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    digest   TEXT NOT NULL, -- SHA-256 of holdings
    holdings TEXT NOT NULL, -- a line for each entry and content
    PRIMARY KEY (org_id, digest)
) STRICT;

CREATE TABLE installation_machines (
    user_id   TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    device_id TEXT NOT NULL,
    org_id    TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    digest    TEXT NOT NULL, -- empty until a job has computed it
    PRIMARY KEY (user_id, device_id)
) STRICT;
CREATE INDEX installation_machines_digest ON installation_machines (org_id, digest);

CREATE TABLE invitation_mails (
    invitation_id   TEXT PRIMARY KEY REFERENCES invitations (id) ON DELETE CASCADE,
    org_id          TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    status          TEXT NOT NULL, -- pending, retrying, delivered or failed
    attempts        INTEGER NOT NULL,
    response_status INTEGER,
    detail          TEXT,
    attempted_at    INTEGER,
    next_attempt_at INTEGER,
    leased_until    INTEGER, -- while it is being sent
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX invitation_mails_org ON invitation_mails (org_id, created_at);

CREATE TABLE invitations (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id),
    role        TEXT NOT NULL,
    email       TEXT, -- lower case; null: whoever accepts says it
    hash        TEXT NOT NULL UNIQUE, -- SHA-256 of the token
    created_by  TEXT, -- the user; null: made on the server
    key_id      TEXT, -- with which it was made
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    accepted_at INTEGER,
    accepted_by TEXT, -- the user that it made
    revoked_at  INTEGER
) STRICT;
CREATE INDEX invitations_org ON invitations (org_id, id);

CREATE TABLE job_keys (
    kind       TEXT NOT NULL,
    unique_key TEXT NOT NULL,
    PRIMARY KEY (kind, unique_key)
) STRICT;

CREATE TABLE job_schedules (
    kind    TEXT PRIMARY KEY,
    next_at INTEGER NOT NULL
) STRICT;

CREATE TABLE job_turns (
    org_id     TEXT PRIMARY KEY,
    claimed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE job_workers (
    id      TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
, schema_version INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE jobs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: a late worker must not end another's job
    kind         TEXT NOT NULL,
    args         TEXT NOT NULL, -- JSON
    unique_key   TEXT,
    state        TEXT NOT NULL, -- waiting, running, discarded
    attempt      INTEGER NOT NULL, -- how often it was started
    max_attempts INTEGER NOT NULL,
    run_at       INTEGER NOT NULL,
    owner        TEXT, -- the worker that runs it
    last_error   TEXT,
    created_at   INTEGER NOT NULL,
    discarded_at INTEGER
, org_id TEXT, for_org TEXT NOT NULL DEFAULT '', trace TEXT NOT NULL DEFAULT '') STRICT;
CREATE INDEX jobs_key ON jobs (kind, unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX jobs_state ON jobs (state, org_id, run_at, id);
CREATE INDEX jobs_turns ON jobs (for_org, run_at, id) WHERE state = 'waiting' AND org_id IS NULL;

CREATE TABLE key_policies (
    org_id              TEXT PRIMARY KEY REFERENCES organisations (id) ON DELETE CASCADE,
    max_days            INTEGER, -- of a key's life; null: keys need not expire
    require_allowed_ips INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
) STRICT;

CREATE TABLE organisation_deletions (
    id           TEXT PRIMARY KEY, -- that the organisation had
    requested_at INTEGER NOT NULL,
    finished_at  INTEGER, -- when the last row was deleted
    row_count    INTEGER NOT NULL,
    blob_count   INTEGER NOT NULL
) STRICT;

CREATE TABLE organisation_exports (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    created_by  TEXT NOT NULL, -- the user
    state       TEXT NOT NULL, -- queued, running, done, failed, expired
    row_count   INTEGER NOT NULL, -- so far
    blob_count  INTEGER NOT NULL, -- so far
    size        INTEGER NOT NULL, -- of the archive; 0 until it is done
    sha256      TEXT NOT NULL, -- of the archive; empty until it is done
    created_at  INTEGER NOT NULL,
    finished_at INTEGER,
    expires_at  INTEGER
, error TEXT) STRICT;
CREATE INDEX organisation_exports_org ON organisation_exports (org_id, id);

CREATE TABLE organisations (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    plan       TEXT NOT NULL,
    created_at INTEGER NOT NULL
, deleted_at INTEGER) STRICT;

CREATE TABLE plugin_loads (
    id           TEXT PRIMARY KEY, -- user, and hash of session, plugin, version and day
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    session_hash TEXT NOT NULL, -- as in skill_observations
    plugin       TEXT NOT NULL,
    marketplace  TEXT NOT NULL, -- empty when unknown
    version      TEXT NOT NULL, -- empty when unknown
    first_at     INTEGER NOT NULL, -- of this day
    last_at      INTEGER NOT NULL,
    pending      INTEGER NOT NULL -- its offers are not derived yet
) STRICT;
CREATE INDEX plugin_loads_plugin ON plugin_loads (org_id, plugin, id);
CREATE INDEX plugin_loads_session ON plugin_loads (session_hash);
CREATE INDEX plugin_loads_pending ON plugin_loads (org_id, id) WHERE pending;

CREATE TABLE plugin_markets (
    org_id      TEXT NOT NULL,
    plugin      TEXT NOT NULL,
    marketplace TEXT NOT NULL,
    PRIMARY KEY (org_id, plugin, marketplace)
) STRICT, WITHOUT ROWID;

CREATE TABLE plugin_skills (
    org_id   TEXT NOT NULL,
    plugin   TEXT NOT NULL,
    name     TEXT NOT NULL, -- of the skill, as agents report it: plugin:skill
    after_id TEXT, merged INTEGER NOT NULL DEFAULT 0, -- the last of plugin_loads that was offered it; NULL: all are
    PRIMARY KEY (org_id, plugin, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX plugin_skills_pending ON plugin_skills (org_id) WHERE after_id IS NOT NULL;

CREATE TABLE proposal_outcomes (
    proposal_id   TEXT PRIMARY KEY REFERENCES proposals (id),
    org_id        TEXT NOT NULL REFERENCES organisations (id),
    kind          TEXT NOT NULL, -- version, pull_request or patch
    state         TEXT NOT NULL, -- queued or failed; candidate, blocked, published, rolled_back, withdrawn; open, merged, closed; given
    message       TEXT NOT NULL, -- why it is in this state
    entry_id      TEXT NOT NULL, -- of the version
    version       TEXT NOT NULL, -- '' before there is one
    version_id    TEXT NOT NULL,
    connection_id TEXT NOT NULL, -- of the pull request
    branch        TEXT NOT NULL,
    commit_sha    TEXT NOT NULL, -- the head of the branch
    number        INTEGER NOT NULL, -- of the pull request; 0 before there is one
    url           TEXT NOT NULL,
    applied_by    TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX proposal_outcomes_entry ON proposal_outcomes (entry_id) WHERE entry_id <> '';
CREATE INDEX proposal_outcomes_connection ON proposal_outcomes (connection_id, number) WHERE connection_id <> '';
CREATE INDEX proposal_outcomes_state ON proposal_outcomes (state, updated_at);

CREATE TABLE proposals (
    id                  TEXT PRIMARY KEY,
    org_id              TEXT NOT NULL REFERENCES organisations (id),
    skill_id            TEXT NOT NULL REFERENCES skills (id),
    skill_name          TEXT NOT NULL,
    finding             TEXT NOT NULL, -- what it answers; once for each skill
    proposal_type       TEXT NOT NULL,
    current_value       TEXT,
    proposed_value      TEXT,
    reason              TEXT NOT NULL,
    confidence          REAL,
    pass_rate_before    REAL,
    projected_pass_rate REAL,
    evidence            TEXT NOT NULL, -- JSON
    status              TEXT NOT NULL, -- pending, approved, rejected or applied
    proposed_by         TEXT NOT NULL,
    reviewed_by         TEXT,
    reviewed_at         INTEGER,
    applied_at          INTEGER,
    created_at          INTEGER NOT NULL, target TEXT NOT NULL DEFAULT '', source_id TEXT NOT NULL DEFAULT '', entry_id TEXT NOT NULL DEFAULT '', base_version TEXT NOT NULL DEFAULT '', base_digest TEXT NOT NULL DEFAULT '', skill_md TEXT NOT NULL DEFAULT '', diff TEXT NOT NULL DEFAULT '', edits TEXT NOT NULL DEFAULT '[]', proved INTEGER NOT NULL DEFAULT 0, proof TEXT, edited_by TEXT, refreshed_at INTEGER,
    UNIQUE (org_id, skill_name, finding)
) STRICT;
CREATE INDEX proposals_org ON proposals (org_id, id);

CREATE TABLE pull_comments (
    id         TEXT PRIMARY KEY, -- organisation/repository/number
    comment_id INTEGER NOT NULL, -- the code host's; 0 before there is one
    body       TEXT NOT NULL, -- as it was last sent
    tries      INTEGER NOT NULL,
    held_until INTEGER NOT NULL -- a worker has it until then
) STRICT;

CREATE TABLE pull_requests (
    id                TEXT PRIMARY KEY,
    org_id            TEXT NOT NULL REFERENCES organisations (id),
    connection_id     TEXT NOT NULL,
    entry_id          TEXT NOT NULL,
    repo_id           INTEGER NOT NULL, -- the code host's, which survives a rename
    number            INTEGER NOT NULL,
    title             TEXT NOT NULL,
    url               TEXT NOT NULL,
    head_sha          TEXT NOT NULL, -- the commit that the status is about; '' before one was read
    status            TEXT NOT NULL, -- queued, gating, decided, valid, refused, unchanged, skipped, failed, closed
    message           TEXT NOT NULL,
    findings          TEXT NOT NULL, -- JSON: of the validation
    source_id         TEXT, -- holds the files of the head while it is gated
    gate_id           TEXT,
    again             INTEGER NOT NULL, -- somebody asked for another gate of the same head
    tries             INTEGER NOT NULL, -- at the code host, since it last answered
    asked             INTEGER NOT NULL, -- how often a write-back was asked for
    write_back_status TEXT NOT NULL, -- disabled, pending, success, failed, unsupported
    write_back_detail TEXT NOT NULL,
    write_back_tries  INTEGER NOT NULL,
    reported          TEXT NOT NULL, -- what the check-run is about: the commit, and the gate if there is one
    check_run_id      TEXT,
    annotations_sent  INTEGER NOT NULL,
    held_until        INTEGER NOT NULL, -- a worker has it until then
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    UNIQUE (connection_id, number)
) STRICT;
CREATE INDEX pull_requests_org ON pull_requests (org_id, repo_id, number);
CREATE INDEX pull_requests_listed ON pull_requests (org_id, id);
CREATE INDEX pull_requests_entry ON pull_requests (entry_id, id);

CREATE TABLE rate_windows (
    subject   TEXT NOT NULL, -- who, and on which route
    starts_at INTEGER NOT NULL,
    ends_at   INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    PRIMARY KEY (subject, starts_at)
) STRICT;
CREATE INDEX rate_windows_end ON rate_windows (ends_at);

CREATE TABLE registry_changes (
    org_id  TEXT PRIMARY KEY REFERENCES organisations (id) ON DELETE CASCADE,
    changes INTEGER NOT NULL -- grows with every change of what a sync tells of the organisation's entries
, removals INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE registry_currents (
    id         TEXT PRIMARY KEY,
    entry_id   TEXT NOT NULL REFERENCES registry_entries (id),
    version_id TEXT NOT NULL,
    since      INTEGER NOT NULL -- from when on the version was the current one
) STRICT;
CREATE INDEX registry_currents_since ON registry_currents (entry_id, since, id);

CREATE TABLE registry_entries (
    id                 TEXT PRIMARY KEY,
    org_id             TEXT NOT NULL REFERENCES organisations (id),
    name               TEXT NOT NULL,
    entry_type         TEXT NOT NULL,
    description        TEXT NOT NULL,
    visibility         TEXT NOT NULL,
    source_repo        TEXT,
    skill_id           TEXT REFERENCES skills (id),
    current_version_id TEXT NOT NULL,
    current_version    TEXT NOT NULL, -- of that version, so that a sync reads entries only
    current_hash       TEXT NOT NULL,
    installation_count INTEGER NOT NULL,
    created_by         TEXT NOT NULL REFERENCES users (id),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (org_id, name)
) STRICT;
CREATE INDEX registry_entries_public ON registry_entries (name, id) WHERE visibility = 'public';
CREATE INDEX registry_entries_skill ON registry_entries (skill_id);
CREATE INDEX registry_entries_unlisted ON registry_entries (name) WHERE visibility = 'unlisted';

CREATE TABLE registry_installations (
    id           TEXT PRIMARY KEY,
    entry_id     TEXT NOT NULL REFERENCES registry_entries (id),
    org_id       TEXT NOT NULL REFERENCES organisations (id), -- the user's, not the entry's
    user_id      TEXT NOT NULL REFERENCES users (id),
    device_id    TEXT NOT NULL,
    install_path TEXT NOT NULL,
    content_hash TEXT NOT NULL, -- what the client said it has; empty when it did not
    installed_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL, client TEXT NOT NULL DEFAULT '',
    UNIQUE (entry_id, user_id, device_id, install_path)
) STRICT;
CREATE INDEX registry_installations_user ON registry_installations (user_id, entry_id);

CREATE TABLE registry_names (
    name        TEXT PRIMARY KEY, -- of a public skill, at the host's own index
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE, -- whose skill has it
    released_at INTEGER -- when that skill was deleted; null while it is there
) STRICT;

CREATE TABLE registry_requirement_backfill (
    after_id TEXT NOT NULL -- the last version that is done; no row: all are
) STRICT;

CREATE TABLE registry_requirements (
    version_id    TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    entry_id      TEXT NOT NULL, -- of the version
    org_id        TEXT NOT NULL, -- of the entry
    required_org  TEXT NOT NULL, -- name of the organisation; '': that of the entry
    required_name TEXT NOT NULL,
    version_range TEXT NOT NULL, -- e.g. >= 1.2; '': any
    PRIMARY KEY (version_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_requirements_required ON registry_requirements (required_name, required_org, org_id);

CREATE TABLE registry_rollbacks (
    id             TEXT PRIMARY KEY,
    entry_id       TEXT NOT NULL REFERENCES registry_entries (id),
    from_version   TEXT NOT NULL,
    to_version     TEXT NOT NULL,
    reason         TEXT,
    rolled_back_by TEXT NOT NULL REFERENCES users (id),
    rolled_back_at INTEGER NOT NULL
, published TEXT, unmarked INTEGER NOT NULL DEFAULT 0, undone_at INTEGER, undone_by TEXT) STRICT;
CREATE INDEX registry_rollbacks_entry ON registry_rollbacks (entry_id, id);

CREATE TABLE registry_sayings (
    user_id  TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    sum      TEXT NOT NULL, -- SHA-256 of what a client said about its installations
    heard_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, sum)
) STRICT;
CREATE INDEX registry_sayings_heard_at ON registry_sayings (heard_at);

CREATE TABLE registry_tree_backfill (
    after_id TEXT NOT NULL -- the last version that is done; no row: all are
) STRICT;

CREATE TABLE registry_tree_hashes (
    kind       TEXT NOT NULL, -- whose hash, e.g. clawhub
    hash       TEXT NOT NULL, -- hex
    entry_id   TEXT NOT NULL,
    version_id TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    PRIMARY KEY (kind, hash, entry_id, version_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_tree_hashes_version ON registry_tree_hashes (version_id);

CREATE TABLE registry_versions (
    id             TEXT PRIMARY KEY,
    entry_id       TEXT NOT NULL REFERENCES registry_entries (id),
    version        TEXT NOT NULL,
    content_hash   TEXT NOT NULL, -- of the archive as it was sent
    canonical_hash TEXT, -- of the same files as installers want them; null without a SKILL.md
    tree_digest    TEXT NOT NULL, -- of the files, however they are packed
    size           INTEGER NOT NULL,
    description    TEXT NOT NULL,
    file_manifest  TEXT NOT NULL, -- JSON
    change_summary TEXT,
    source         TEXT NOT NULL,
    source_ref     TEXT,
    source_repo    TEXT,
    rolled_back    INTEGER NOT NULL,
    pushed_by      TEXT NOT NULL REFERENCES users (id),
    pushed_at      INTEGER NOT NULL, file_paths TEXT NOT NULL DEFAULT '[]', skill_md BLOB, archive_key TEXT NOT NULL DEFAULT '', canonical_key TEXT, entry_description TEXT, state TEXT NOT NULL DEFAULT 'published', gate_id TEXT, source_commit TEXT, source_path TEXT, apart INTEGER NOT NULL DEFAULT 0, chosen_by TEXT, withdrawn_reason TEXT,
    UNIQUE (entry_id, version)
) STRICT;
CREATE INDEX registry_versions_pushed ON registry_versions (entry_id, pushed_at, id);
CREATE INDEX registry_versions_content ON registry_versions (content_hash);
CREATE INDEX registry_versions_canonical ON registry_versions (canonical_hash);
CREATE INDEX registry_versions_archive_key ON registry_versions (archive_key);
CREATE INDEX registry_versions_canonical_key ON registry_versions (canonical_key);
CREATE INDEX registry_versions_candidates ON registry_versions (entry_id) WHERE state = 'candidate';

CREATE TABLE repohost_attempts (
    id                TEXT PRIMARY KEY,
    org_id            TEXT NOT NULL REFERENCES organisations (id),
    connection_id     TEXT NOT NULL,
    ref_kind          TEXT NOT NULL, -- branch or tag
    ref_name          TEXT NOT NULL,
    commit_sha        TEXT NOT NULL,
    cause             TEXT NOT NULL, -- push, tag, sync or reconcile
    delivery_id       TEXT, -- of repohost_deliveries
    status            TEXT NOT NULL,
    tries             INTEGER NOT NULL,
    version           TEXT,
    message           TEXT NOT NULL,
    findings          TEXT NOT NULL, -- JSON
    queued_at         INTEGER NOT NULL,
    attempted_at      INTEGER NOT NULL,
    published_at      INTEGER,
    write_back_status TEXT NOT NULL,
    write_back_detail TEXT NOT NULL,
    write_back_tries  INTEGER NOT NULL,
    status_sent       INTEGER NOT NULL,
    check_run_id      TEXT,
    annotations_sent  INTEGER NOT NULL, reported TEXT NOT NULL DEFAULT '', held_until INTEGER NOT NULL DEFAULT 0, asked INTEGER NOT NULL DEFAULT 0,
    UNIQUE (connection_id, ref_kind, ref_name, commit_sha)
) STRICT;
CREATE INDEX repohost_attempts_last ON repohost_attempts (connection_id, attempted_at, id);
CREATE INDEX repohost_attempts_queued ON repohost_attempts (connection_id, queued_at, id) WHERE status = 'queued';
CREATE INDEX repohost_attempts_delivery ON repohost_attempts (delivery_id);
CREATE INDEX repohost_attempts_version ON repohost_attempts (connection_id, version);

CREATE TABLE repohost_claims (
    account_key TEXT PRIMARY KEY,
    org_id      TEXT REFERENCES organisations (id), -- NULL: contested
    claimed_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX repohost_claims_org ON repohost_claims (org_id);

CREATE TABLE repohost_connections (
    id                 TEXT PRIMARY KEY,
    org_id             TEXT NOT NULL REFERENCES organisations (id),
    entry_id           TEXT NOT NULL, -- of a registry entry, which may be gone
    entry_name         TEXT NOT NULL,
    installation_id    INTEGER NOT NULL,
    repo_id            INTEGER NOT NULL, -- the code host's: it stays when the name changes
    repo_full_name     TEXT NOT NULL,
    repo_key           TEXT NOT NULL, -- the same in lower case
    default_branch     TEXT NOT NULL,
    skill_path         TEXT NOT NULL,
    auto_publish       INTEGER NOT NULL,
    write_back_enabled INTEGER NOT NULL,
    tag_pattern        TEXT NOT NULL,
    created_by         TEXT NOT NULL REFERENCES users (id),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    configured_at      INTEGER NOT NULL, -- when what is published last changed its rules
    held_until         INTEGER NOT NULL, host_default TEXT NOT NULL DEFAULT '', publish_unchanged INTEGER NOT NULL DEFAULT 0, open_issues INTEGER NOT NULL DEFAULT 0, pull_requests TEXT NOT NULL DEFAULT 'same_repository', reconcile_at INTEGER NOT NULL DEFAULT 0, codeowners INTEGER NOT NULL DEFAULT 0, chosen_by TEXT, chosen_at INTEGER NOT NULL DEFAULT 0, -- until when one worker publishes for it
    UNIQUE (repo_key, skill_path, entry_id)
) STRICT;
CREATE INDEX repohost_connections_org ON repohost_connections (org_id, id);
CREATE INDEX repohost_connections_repo ON repohost_connections (repo_id);
CREATE INDEX repohost_connections_due ON repohost_connections (reconcile_at, id);

CREATE TABLE repohost_deliveries (
    id              TEXT PRIMARY KEY,
    provider        TEXT NOT NULL,
    delivery_id     TEXT NOT NULL, -- the code host's
    event           TEXT NOT NULL,
    action          TEXT NOT NULL,
    content_type    TEXT NOT NULL,
    installation_id INTEGER NOT NULL, -- 0: none
    repo_full_name  TEXT NOT NULL, -- '': none
    repo_key        TEXT NOT NULL,
    body            BLOB NOT NULL,
    status          TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    detail          TEXT NOT NULL,
    received_at     INTEGER NOT NULL,
    finished_at     INTEGER,
    UNIQUE (provider, delivery_id)
) STRICT;
CREATE INDEX repohost_deliveries_repo ON repohost_deliveries (repo_key, id);
CREATE INDEX repohost_deliveries_received ON repohost_deliveries (received_at);

CREATE TABLE repohost_installations (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL REFERENCES organisations (id),
    installation_id INTEGER NOT NULL UNIQUE, -- the code host's
    account_login   TEXT NOT NULL,
    account_type    TEXT NOT NULL,
    suspended       INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
, account_key TEXT NOT NULL DEFAULT '', token TEXT) STRICT;
CREATE INDEX repohost_installations_org ON repohost_installations (org_id, id);
CREATE INDEX repohost_installations_account ON repohost_installations (account_key);

CREATE TABLE repohost_settings (
    org_id          TEXT PRIMARY KEY REFERENCES organisations (id),
    write_back_mode TEXT NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE schema_compat (
    version INTEGER PRIMARY KEY, -- of the schema
    oldest  INTEGER NOT NULL     -- schema of the oldest binary that works with it
) STRICT;

CREATE TABLE scim_group_members (
    org_id    TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    group_id  TEXT NOT NULL REFERENCES scim_groups (id) ON DELETE CASCADE,
    member_id TEXT NOT NULL REFERENCES scim_users (id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, member_id)
) STRICT;
CREATE INDEX scim_group_members_member ON scim_group_members (member_id);

CREATE TABLE scim_groups (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    name_key     TEXT NOT NULL, -- the same in lower case
    external_id  TEXT, -- the provider's id
    role         TEXT, -- that an owner lets it give; null: none
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (org_id, name_key),
    UNIQUE (org_id, external_id)
) STRICT;
CREATE INDEX scim_groups_org ON scim_groups (org_id, id);

CREATE TABLE scim_tokens (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL, -- what lists show of it
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the token
    created_by   TEXT NOT NULL, -- the user
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at   INTEGER
) STRICT;
CREATE INDEX scim_tokens_org ON scim_tokens (org_id, id);

CREATE TABLE scim_users (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id       TEXT UNIQUE REFERENCES users (id) ON DELETE CASCADE, -- null: never active so far
    user_name     TEXT NOT NULL,
    user_name_key TEXT NOT NULL, -- the same in lower case
    external_id   TEXT, -- the provider's id
    email         TEXT NOT NULL, -- lower case
    profile       TEXT NOT NULL, -- JSON: names and addresses
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    UNIQUE (org_id, user_name_key),
    UNIQUE (org_id, external_id)
) STRICT;
CREATE INDEX scim_users_org ON scim_users (org_id, id);
CREATE INDEX scim_users_email ON scim_users (org_id, email);

CREATE TABLE service_secrets (
    name       TEXT PRIMARY KEY,
    value      BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    user_id    TEXT NOT NULL REFERENCES users (id),
    key_id     TEXT NOT NULL REFERENCES api_keys (id), -- what it was signed in with; it may do no more
    hash       TEXT NOT NULL UNIQUE, -- hex SHA-256 of the cookie's value
    browser    TEXT NOT NULL, -- as it calls itself
    address    TEXT NOT NULL, -- where it signed in from
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL, -- to within minutes
    expires_at INTEGER NOT NULL
, identity_id TEXT) STRICT;
CREATE INDEX sessions_user ON sessions (user_id, id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE set_entries (
    set_id        TEXT NOT NULL REFERENCES sets (id) ON DELETE CASCADE,
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id      TEXT NOT NULL, -- no reference: the version before deletes entries and knows no sets
    position      INTEGER NOT NULL,
    version_range TEXT NOT NULL, -- empty: the current version
    PRIMARY KEY (set_id, entry_id)
) STRICT;
CREATE INDEX set_entries_entry ON set_entries (entry_id);

CREATE TABLE set_owners (
    set_id  TEXT NOT NULL REFERENCES sets (id) ON DELETE CASCADE,
    org_id  TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
    team_id TEXT REFERENCES teams (id) ON DELETE CASCADE,
    UNIQUE (set_id, user_id),
    UNIQUE (set_id, team_id)
) STRICT;
CREATE INDEX set_owners_user ON set_owners (user_id);
CREATE INDEX set_owners_team ON set_owners (team_id);

CREATE TABLE set_teams (
    set_id  TEXT NOT NULL REFERENCES sets (id) ON DELETE CASCADE,
    org_id  TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    PRIMARY KEY (set_id, team_id)
) STRICT;
CREATE INDEX set_teams_team ON set_teams (team_id);

CREATE TABLE sets (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    description  TEXT NOT NULL,
    repositories TEXT NOT NULL, -- JSON: patterns such as acme/*
    required     INTEGER NOT NULL,
    created_by   TEXT NOT NULL REFERENCES users (id),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (org_id, name)
) STRICT;

CREATE TABLE signal_cells (
    id             TEXT PRIMARY KEY, -- hash of the six columns after it
    org_id         TEXT NOT NULL,
    level          TEXT NOT NULL,
    skill_name     TEXT NOT NULL,
    form           TEXT NOT NULL, -- event or session
    signal_type    TEXT NOT NULL,
    class          TEXT NOT NULL, -- a day, a week, a grade, ...
    signals        INTEGER NOT NULL,
    contributors   INTEGER NOT NULL, -- distinct
    few            TEXT NOT NULL, -- the contributors while there are one or two
    confidence_sum INTEGER NOT NULL, -- billionths
    last_day       INTEGER NOT NULL
, published_signals INTEGER, published_contributors INTEGER NOT NULL DEFAULT 0, published_few TEXT NOT NULL DEFAULT '', published_confidence_sum INTEGER NOT NULL DEFAULT 0, published_last_day INTEGER NOT NULL DEFAULT 0, revealed INTEGER NOT NULL DEFAULT 0, since TEXT NOT NULL DEFAULT '', carried TEXT NOT NULL DEFAULT '', carried_signals INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX signal_cells_read ON signal_cells (org_id, level, skill_name);
CREATE INDEX signal_cells_changed ON signal_cells (org_id, skill_name) WHERE since <> '';

CREATE TABLE signal_contributors (
    id TEXT PRIMARY KEY -- hash of cell and contributor
) STRICT;

CREATE TABLE signal_snapshots (
    org_id   TEXT PRIMARY KEY REFERENCES organisations (id),
    since    TEXT NOT NULL, -- contributors, as in signal_cells
    taken_at INTEGER -- microseconds since the epoch, UTC; null before the first
) STRICT;

CREATE TABLE signals (
    org_id      TEXT NOT NULL REFERENCES organisations (id),
    source_key  TEXT NOT NULL, -- the sender's, or made by us for a session
    skill_name  TEXT NOT NULL,
    signal_type TEXT NOT NULL,
    contributor TEXT NOT NULL, -- keyed hash of a cohort or user
    confidence  INTEGER, -- billionths
    day         INTEGER NOT NULL, -- days since the epoch, UTC
    session     TEXT, -- JSON; null for a signal of a batch
    PRIMARY KEY (org_id, source_key)
) STRICT;

CREATE TABLE signing_keys (
    id          TEXT PRIMARY KEY, -- SHA-256 of the public key, hex
    public_key  TEXT NOT NULL, -- PEM
    private_key TEXT, -- sealed; null once another key signs
    active      INTEGER UNIQUE, -- true for the key that signs; null for the others
    endorsement TEXT, -- JSON: an envelope in which the key before names this one
    created_at  INTEGER NOT NULL,
    retired_at  INTEGER,
    revoked_at  INTEGER,
    reason      TEXT NOT NULL -- why it was revoked
) STRICT;

CREATE TABLE skill_aliases (
    alias          TEXT PRIMARY KEY, -- another name that a producer has for an observation
    observation_id TEXT NOT NULL
) STRICT;

CREATE TABLE skill_backfill (
    step     TEXT PRIMARY KEY,
    after_id TEXT NOT NULL -- the last row that is done
) STRICT;

CREATE TABLE "skill_days" (
    subject_id            TEXT NOT NULL,
    day                   INTEGER NOT NULL,
    sessions              INTEGER NOT NULL,
    trigger_sessions      INTEGER NOT NULL,
    last_sessions         INTEGER NOT NULL, -- sessions that were last seen on this day
    last_trigger_sessions INTEGER NOT NULL, -- sessions that last triggered on this day
    checks                INTEGER NOT NULL,
    triggers              INTEGER NOT NULL,
    confidence_sum        INTEGER NOT NULL, -- billionths
    confidence_count      INTEGER NOT NULL,
    graded_sessions       INTEGER NOT NULL,
    pass_rate_sum         INTEGER NOT NULL, last_offered_sessions INTEGER NOT NULL DEFAULT 0, person_sessions INTEGER NOT NULL DEFAULT 0, person_sum INTEGER NOT NULL DEFAULT 0, judge_sessions INTEGER NOT NULL DEFAULT 0, judge_sum INTEGER NOT NULL DEFAULT 0, outcome_sessions INTEGER NOT NULL DEFAULT 0, outcome_sum INTEGER NOT NULL DEFAULT 0, -- billionths
    PRIMARY KEY (subject_id, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE skill_gradings (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    skill_id      TEXT NOT NULL REFERENCES skills (id),
    version_id    TEXT,
    session_hash  TEXT NOT NULL,
    pass_rate     INTEGER, -- billionths
    graded_at     INTEGER NOT NULL
, rated_at INTEGER, origin_id TEXT, basis TEXT) STRICT;
CREATE INDEX skill_gradings_session ON skill_gradings (skill_id, session_hash);
CREATE INDEX skill_gradings_origin ON skill_gradings (origin_id) WHERE origin_id IS NOT NULL;
CREATE INDEX skill_gradings_graded ON skill_gradings (skill_id, graded_at);

CREATE TABLE skill_observations (
    id            TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    skill_id      TEXT NOT NULL REFERENCES skills (id),
    version_id    TEXT, -- the registry version it speaks of
    session_hash  TEXT NOT NULL, -- hash of user and session; empty when there is none
    prompt_hash   TEXT, -- names the prompt in telemetry_prompts
    version_hash  TEXT, -- what the producer called the version
    is_check      INTEGER NOT NULL, -- false: the skill was only offered
    triggered     INTEGER NOT NULL,
    confidence    INTEGER, -- billionths
    weight        INTEGER NOT NULL, -- how many of the kind a counter reported
    mode          TEXT,
    occurred_at   INTEGER NOT NULL,
    normalized_at INTEGER NOT NULL -- of the newest report; it wins
, version_name TEXT, version_basis TEXT, until_at INTEGER, ages TEXT, device_hash TEXT, origin_id TEXT, plugin TEXT) STRICT;
CREATE INDEX skill_observations_skill ON skill_observations (skill_id, occurred_at);
CREATE INDEX skill_observations_until ON skill_observations (skill_id, until_at) WHERE until_at IS NOT NULL;
CREATE INDEX skill_observations_origin ON skill_observations (origin_id) WHERE origin_id IS NOT NULL;
CREATE INDEX skill_observations_plugin ON skill_observations (session_hash) WHERE plugin IS NOT NULL;
CREATE INDEX skill_observations_activated ON skill_observations (skill_id, session_hash, occurred_at, version_id) WHERE triggered;

CREATE TABLE skill_session_days (
    session_key TEXT NOT NULL, -- hash of subject and session
    day         INTEGER NOT NULL, -- days since the epoch, UTC
    seen        INTEGER NOT NULL,
    triggers    INTEGER NOT NULL, offers INTEGER NOT NULL DEFAULT 0, skill_key TEXT, version_id TEXT,
    PRIMARY KEY (session_key, day)
) STRICT;
CREATE INDEX skill_session_days_skill ON skill_session_days (skill_key) WHERE skill_key IS NOT NULL;

CREATE TABLE skill_session_grades (
    session_key TEXT PRIMARY KEY,
    day         INTEGER NOT NULL,
    pass_rate   INTEGER NOT NULL -- billionths
, basis TEXT) STRICT;

CREATE TABLE skill_totals (
    subject_id      TEXT PRIMARY KEY,
    unique_sessions INTEGER NOT NULL,
    graded_sessions INTEGER NOT NULL,
    first_seen_at   INTEGER,
    last_seen_at    INTEGER
, by_hash INTEGER NOT NULL DEFAULT 0, by_plugin INTEGER NOT NULL DEFAULT 0, by_installation INTEGER NOT NULL DEFAULT 0, by_time INTEGER NOT NULL DEFAULT 0, grading_changes INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE skills (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL, confirmed INTEGER NOT NULL DEFAULT 1, hidden INTEGER NOT NULL DEFAULT 0, merged_into TEXT,
    UNIQUE (org_id, name)
) STRICT;
CREATE INDEX skills_merged ON skills (merged_into) WHERE merged_into IS NOT NULL;

CREATE TABLE source_links (
    org_id    TEXT NOT NULL REFERENCES organisations (id),
    skill_id  TEXT NOT NULL,
    source_id TEXT NOT NULL,
    PRIMARY KEY (org_id, skill_id, source_id)
) STRICT;

CREATE TABLE source_reports (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL,
    snapshot_id TEXT NOT NULL REFERENCES source_snapshots (id),
    engine      TEXT NOT NULL,
    status      TEXT NOT NULL, -- pass, warn, fail
    findings    TEXT NOT NULL, -- JSON
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX source_reports_snapshot ON source_reports (snapshot_id, id);

CREATE TABLE source_reviews (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL,
    source_id        TEXT NOT NULL REFERENCES cloud_sources (id),
    suggestion_id    TEXT NOT NULL,
    review_status    TEXT NOT NULL, -- accepted, rejected
    accept_target    TEXT, -- draft, saved_suite
    applied_suite_id TEXT,
    query            TEXT NOT NULL,
    should_trigger   INTEGER NOT NULL,
    evidence         TEXT NOT NULL,
    provenance       TEXT NOT NULL,
    rationale        TEXT,
    observed_count   REAL,
    confidence       REAL,
    last_observed_at INTEGER,
    invocation_type  TEXT,
    reviewed_by      TEXT NOT NULL REFERENCES users (id),
    reviewed_at      INTEGER NOT NULL,
    applied_at       INTEGER,
    UNIQUE (source_id, suggestion_id)
) STRICT;
CREATE INDEX source_reviews_newest ON source_reviews (source_id, reviewed_at, id);

CREATE TABLE source_snapshots (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL,
    source_id    TEXT NOT NULL REFERENCES cloud_sources (id),
    content_hash TEXT NOT NULL, -- SHA-256 of the canonical archive
    total_bytes  INTEGER NOT NULL,
    files        TEXT NOT NULL, -- JSON
    skill_name   TEXT NOT NULL,
    description  TEXT NOT NULL,
    runnable     INTEGER NOT NULL, -- its validation did not fail
    commit_sha   TEXT,
    ref          TEXT,
    created_by   TEXT NOT NULL REFERENCES users (id),
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX source_snapshots_source ON source_snapshots (source_id, created_at, id);

CREATE TABLE source_suggestions (
    id               TEXT PRIMARY KEY, -- UUIDv5 of source, normalised query and should_trigger
    org_id           TEXT NOT NULL,
    source_id        TEXT NOT NULL REFERENCES cloud_sources (id),
    prompt_ref       TEXT, -- names the text in telemetry, which is not copied: it goes when it goes there
    query            TEXT, -- of a run's case, instead
    should_trigger   INTEGER NOT NULL,
    evidence         TEXT NOT NULL, -- linked_telemetry, hosted_run
    provenance       TEXT NOT NULL,
    rationale        TEXT NOT NULL,
    observed_count   INTEGER NOT NULL,
    confidence       REAL NOT NULL,
    last_observed_at INTEGER NOT NULL,
    invocation_type  TEXT,
    reviewed         INTEGER NOT NULL -- a review stands in source_reviews
) STRICT;
CREATE INDEX source_suggestions_pending ON source_suggestions (source_id, confidence, observed_count, last_observed_at, id) WHERE NOT reviewed;
CREATE INDEX source_suggestions_source ON source_suggestions (source_id);

CREATE TABLE stored_bytes (
    org_id TEXT NOT NULL REFERENCES organisations (id),
    kind   TEXT NOT NULL, -- registry, sources, evals, telemetry, community
    bytes  INTEGER NOT NULL,
    PRIMARY KEY (org_id, kind)
) STRICT;

CREATE TABLE team_members (
    team_id  TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    org_id   TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id  TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    added_at INTEGER NOT NULL,
    PRIMARY KEY (team_id, user_id)
) STRICT;
CREATE INDEX team_members_user ON team_members (user_id);
CREATE INDEX team_members_org ON team_members (org_id);

CREATE TABLE teams (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    slug        TEXT NOT NULL, -- of the name, e.g. data-platform; @org/slug in CODEOWNERS
    description TEXT NOT NULL,
    created_by  TEXT NOT NULL, -- the user
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (org_id, slug)
) STRICT;

CREATE TABLE telemetry_prompts (
    hash          TEXT PRIMARY KEY, -- skills.PromptHash
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    prompt_id     TEXT NOT NULL,
    kind          TEXT NOT NULL,
    prompt_text   TEXT NOT NULL, -- only its uploader may read it
    occurred_at   INTEGER NOT NULL,
    normalized_at INTEGER NOT NULL,
    received_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX telemetry_prompts_user ON telemetry_prompts (user_id, occurred_at);
CREATE INDEX telemetry_prompts_received ON telemetry_prompts (received_at);

CREATE TABLE telemetry_pushes (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    user_id      TEXT NOT NULL REFERENCES users (id),
    push_id      TEXT NOT NULL, -- the client's name for it
    blob_key     TEXT, -- the raw body; null once erased
    accepted     INTEGER NOT NULL,
    rejected     INTEGER NOT NULL,
    received_at  INTEGER NOT NULL, bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (org_id, push_id)
) STRICT;
CREATE INDEX telemetry_pushes_user ON telemetry_pushes (user_id, received_at);
CREATE INDEX telemetry_pushes_raw ON telemetry_pushes (received_at) WHERE blob_key IS NOT NULL;

CREATE TABLE telemetry_records (
    id            TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    kind          TEXT NOT NULL,
    body          TEXT NOT NULL, -- JSON
    normalized_at INTEGER NOT NULL,
    received_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX telemetry_records_user ON telemetry_records (user_id, kind);
CREATE INDEX telemetry_records_received ON telemetry_records (received_at);

CREATE TABLE telemetry_states (
    id         TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id     TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    state      TEXT NOT NULL, -- JSON: what must be remembered to count each thing once
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE trusted_exchanges (
    token        TEXT PRIMARY KEY, -- hash of its issuer and id
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    publisher_id TEXT NOT NULL, -- it may be gone
    key_id       TEXT NOT NULL,
    run          TEXT NOT NULL, -- JSON: the workflow run
    expires_at   INTEGER NOT NULL -- when token and key have expired
) STRICT;
CREATE UNIQUE INDEX trusted_exchanges_key ON trusted_exchanges (key_id);
CREATE INDEX trusted_exchanges_publisher ON trusted_exchanges (publisher_id);
CREATE INDEX trusted_exchanges_age ON trusted_exchanges (expires_at);

CREATE TABLE trusted_publishers (
    id             TEXT PRIMARY KEY,
    org_id         TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id       TEXT NOT NULL REFERENCES registry_entries (id) ON DELETE CASCADE,
    provider       TEXT NOT NULL, -- github, gitlab or gitea
    issuer         TEXT NOT NULL, -- of ID tokens, e.g. https://token.actions.githubusercontent.com
    repository     TEXT NOT NULL, -- e.g. acme/skills
    repository_key TEXT NOT NULL, -- the same in lower case
    ref            TEXT NOT NULL, -- pattern of full refs, e.g. refs/heads/main; '' for every branch and tag
    workflow       TEXT NOT NULL, -- file, e.g. release.yml; '' for every one
    environment    TEXT NOT NULL, -- '' for every one, and none
    repository_id  TEXT NOT NULL, -- the code host's; '' until the first use
    owner_id       TEXT NOT NULL, -- the code host's; '' until the first use
    created_by     TEXT NOT NULL, -- the user
    created_at     INTEGER NOT NULL,
    last_used_at   INTEGER,
    UNIQUE (entry_id, issuer, repository_key, ref, workflow, environment)
) STRICT;
CREATE INDEX trusted_publishers_org ON trusted_publishers (org_id, id);
CREATE INDEX trusted_publishers_match ON trusted_publishers (issuer, repository_key);
CREATE INDEX trusted_publishers_issuer ON trusted_publishers (issuer, provider);

CREATE TABLE used_sign_ins (
    state      TEXT PRIMARY KEY, -- its SHA-256
    org_id     TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX used_sign_ins_age ON used_sign_ins (expires_at);

CREATE TABLE users (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    email      TEXT NOT NULL, -- lower case
    name       TEXT NOT NULL,
    role       TEXT NOT NULL,
    created_at INTEGER NOT NULL, removed_at INTEGER, former_email TEXT, address_claimed INTEGER NOT NULL DEFAULT 0, kind TEXT NOT NULL DEFAULT 'person', given_role TEXT,
    UNIQUE (org_id, email)
) STRICT;

CREATE TABLE version_approvals (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id    TEXT NOT NULL, -- of the version
    version_id  TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    user_id     TEXT NOT NULL REFERENCES users (id),
    decision    TEXT NOT NULL, -- approve, reject or comment
    comment     TEXT,
    created_at  INTEGER NOT NULL,
    replaced_at INTEGER -- by another decision of the same person
, review TEXT) STRICT;
CREATE INDEX version_approvals_version ON version_approvals (version_id, id);
CREATE UNIQUE INDEX version_approvals_standing ON version_approvals (version_id, user_id)
    WHERE replaced_at IS NULL AND decision <> 'comment';

CREATE TABLE version_publishers (
    version_id    TEXT PRIMARY KEY REFERENCES registry_versions (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, -- written after it
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    publisher_id  TEXT NOT NULL, -- it may be gone
    provider      TEXT NOT NULL,
    issuer        TEXT NOT NULL,
    repository    TEXT NOT NULL,
    repository_id TEXT NOT NULL,
    owner_id      TEXT NOT NULL,
    ref           TEXT NOT NULL, -- full ref, e.g. refs/tags/v1.2.3
    commit_sha    TEXT NOT NULL,
    workflow_ref  TEXT NOT NULL, -- e.g. acme/skills/.github/workflows/release.yml@refs/heads/main
    workflow_sha  TEXT NOT NULL,
    environment   TEXT NOT NULL,
    event         TEXT NOT NULL,
    run_id        TEXT NOT NULL,
    run_attempt   TEXT NOT NULL,
    run_url       TEXT NOT NULL,
    actor         TEXT NOT NULL,
    runner        TEXT NOT NULL, -- e.g. github-hosted
    created_at    INTEGER NOT NULL
) STRICT;

INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (1, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (2, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (3, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (4, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (5, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (6, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (7, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (8, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (9, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (10, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (11, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (12, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (13, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (14, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (15, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (16, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (17, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (18, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (19, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (21, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (22, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (23, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (24, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (25, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (27, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (28, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (29, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (31, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (32, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (33, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (34, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (35, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (36, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (37, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (38, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (39, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (40, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (41, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (42, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (43, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (44, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (45, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (47, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (48, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (49, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (50, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (51, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (54, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (55, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (56, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (57, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (58, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (59, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (60, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (61, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (62, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (63, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (64, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (65, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (66, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (68, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (69, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (71, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (73, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (74, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (75, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (76, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (77, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (78, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (79, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (80, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (81, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (82, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (83, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (84, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (85, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (91, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (92, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (93, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (94, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (97, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (102, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (106, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (109, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (115, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (119, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (120, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (121, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (131, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (150, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (160, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (161, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (162, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (170, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (171, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (172, 1);
INSERT INTO goose_db_version (version_id, is_applied) VALUES (173, 1);
