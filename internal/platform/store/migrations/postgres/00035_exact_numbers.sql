-- +goose Up
-- Every field of an observation has the age of the report that it comes from, an
-- offer lasts from a first to a last time, and a version is attributed with the
-- reason for it. What rows that were there before lack is filled in by a job:
-- see skill_backfill.
ALTER TABLE skill_observations ADD COLUMN version_name TEXT; -- what the agent called the version it loaded
ALTER TABLE skill_observations ADD COLUMN version_basis TEXT; -- why version_id; NULL: it was current at the time
ALTER TABLE skill_observations ADD COLUMN until_at BIGINT; -- of an offer: the last time
ALTER TABLE skill_observations ADD COLUMN ages TEXT; -- JSON; of fields that do not come from the newest report
UPDATE skill_observations SET version_basis = 'hash' WHERE version_hash IS NOT NULL AND EXISTS (
    SELECT 1 FROM registry_versions v
    WHERE v.id = skill_observations.version_id AND v.content_hash = skill_observations.version_hash);
CREATE INDEX skill_observations_until ON skill_observations (skill_id, until_at) WHERE until_at IS NOT NULL;

ALTER TABLE skill_gradings ADD COLUMN rated_at BIGINT; -- of the report with the verdict; NULL: graded_at

ALTER TABLE skill_session_days ADD COLUMN offers BIGINT NOT NULL DEFAULT 0;
-- Of a version's row: the key of the skill's own row, which leads from a session
-- to the versions that it used.
ALTER TABLE skill_session_days ADD COLUMN skill_key TEXT;
ALTER TABLE skill_session_days ADD COLUMN version_id TEXT;
CREATE INDEX skill_session_days_skill ON skill_session_days (skill_key) WHERE skill_key IS NOT NULL;

ALTER TABLE skill_days ADD COLUMN last_offered_sessions BIGINT NOT NULL DEFAULT 0; -- sessions that were last offered it on this day

ALTER TABLE skill_totals ADD COLUMN by_hash BIGINT NOT NULL DEFAULT 0; -- checks of a version, by the basis of their attribution
ALTER TABLE skill_totals ADD COLUMN by_plugin BIGINT NOT NULL DEFAULT 0;
ALTER TABLE skill_totals ADD COLUMN by_installation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE skill_totals ADD COLUMN by_time BIGINT NOT NULL DEFAULT 0;
INSERT INTO skill_totals (subject_id, unique_sessions, graded_sessions, by_hash, by_time)
SELECT version_id, 0, 0, CAST(SUM(CASE WHEN version_basis = 'hash' THEN weight ELSE 0 END) AS BIGINT),
    CAST(SUM(CASE WHEN version_basis IS NULL THEN weight ELSE 0 END) AS BIGINT)
FROM skill_observations WHERE version_id IS NOT NULL AND is_check GROUP BY version_id
ON CONFLICT (subject_id) DO UPDATE SET by_hash = excluded.by_hash, by_time = excluded.by_time;

-- Owner: internal/skills
CREATE TABLE skill_backfill (
    step     TEXT PRIMARY KEY,
    after_id TEXT NOT NULL -- the last row that is done
);
INSERT INTO skill_backfill (step, after_id) SELECT 'observations', '' WHERE EXISTS (SELECT 1 FROM skill_observations);
INSERT INTO skill_backfill (step, after_id) SELECT 'gradings', '' WHERE EXISTS (SELECT 1 FROM skill_gradings);
