-- +goose Up
-- Pull requests are listed, and found by the entry that is deleted.
CREATE INDEX pull_requests_listed ON pull_requests (org_id, id);
CREATE INDEX pull_requests_entry ON pull_requests (entry_id, id);
