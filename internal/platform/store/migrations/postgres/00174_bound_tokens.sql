-- +goose Up
-- Oldest binary: 31

-- The sets that a token is bound to: their ids, sorted and joined by commas; empty for a token that
-- opens everything. The hash of a bound token is another one than that of its text, see
-- tokens.hash: the version before, which does not know the column, refuses it.
ALTER TABLE catalog_tokens ADD COLUMN sets TEXT NOT NULL DEFAULT '';
