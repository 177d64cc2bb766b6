-- +goose Up
-- Oldest binary: 31

-- The mean of the cases' scores, which does not grow with the number of trials as the
-- majority's pass rate does.
-- Owner: internal/runs
CREATE TABLE eval_run_scores (
    run_id TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    score  DOUBLE PRECISION, -- NULL without a decided case
    lift   TEXT -- JSON; NULL without a baseline, and of runs from before
);

INSERT INTO eval_run_scores (run_id, score)
SELECT run_id, AVG(rate) FROM (
    SELECT run_id, case_index, AVG(CASE verdict WHEN 'pass' THEN 1.0 ELSE 0.0 END)::double precision AS rate
    FROM eval_run_trials
    WHERE variant = 'skill' AND verdict IN ('pass', 'fail') AND run_id IN (SELECT id FROM eval_runs WHERE finished_at IS NOT NULL)
    GROUP BY run_id, case_index
) AS cases
GROUP BY run_id;
