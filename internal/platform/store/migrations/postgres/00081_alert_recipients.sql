-- +goose Up
-- Oldest binary: 31

-- The member whom a delivery of the channel owners is for; null for other channels.
ALTER TABLE alert_deliveries ADD COLUMN recipient_id TEXT;
