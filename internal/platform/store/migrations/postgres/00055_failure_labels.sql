-- +goose Up
-- A few words of the judge for each reason why sessions of a skill failed.

-- Owner: internal/grades
CREATE TABLE grade_failure_labels (
    skill_id    TEXT NOT NULL,
    key         TEXT NOT NULL, -- of grade_failures
    grade_id    TEXT NOT NULL, -- whose reason was read: the label goes with it
    label       TEXT, -- NULL: the answer was not usable
    labelled_at BIGINT NOT NULL,
    PRIMARY KEY (skill_id, key)
);
CREATE INDEX grade_failure_labels_grade ON grade_failure_labels (grade_id);

ALTER TABLE grader_days ADD COLUMN labels BIGINT NOT NULL DEFAULT 0; -- prompts for labels; their requests are in calls
