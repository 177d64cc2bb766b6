-- +goose Up
-- Pages sum the days of all skills of an organisation. Kept in the order of
-- their key, without a table and an index beside it, the days of a skill stand
-- side by side: reading them takes a third of the time.

-- Owner: internal/skills
CREATE TABLE skill_days_by_key (
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
    pass_rate_sum         INTEGER NOT NULL, -- billionths
    PRIMARY KEY (subject_id, day)
) STRICT, WITHOUT ROWID;
INSERT INTO skill_days_by_key
SELECT subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions, checks, triggers, confidence_sum,
    confidence_count, graded_sessions, pass_rate_sum
FROM skill_days ORDER BY subject_id, day;
DROP TABLE skill_days;
ALTER TABLE skill_days_by_key RENAME TO skill_days;
