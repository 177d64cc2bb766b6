-- +goose Up
-- Oldest binary: 31

-- Sessions whose judge gave no usable verdict. Their outcomes don't count.
-- Owner: internal/grades
CREATE TABLE grade_unusable (
    session_hash TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL, -- whose session it is
    judged_at    BIGINT NOT NULL,
    PRIMARY KEY (session_hash, skill_id)
);
CREATE INDEX grade_unusable_skill ON grade_unusable (org_id, skill_id);
CREATE INDEX grade_unusable_user ON grade_unusable (user_id);
