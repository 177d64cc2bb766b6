package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// An AuditEntry is one change in the audit log: who changed what, and when.
type AuditEntry struct {
	ID     string      `json:"id"`
	At     time.Time   `json:"at"`
	Actor  AuditActor  `json:"actor"`
	Action string      `json:"action"` // capability.noun.verb
	Target AuditTarget `json:"target"`
	// Detail is a JSON object whose fields depend on the action.
	Detail    json.RawMessage `json:"detail"`
	Via       string          `json:"via"` // api, web, cli or job
	RequestID *string         `json:"request_id"`
}

// An AuditActor is who changed something.
type AuditActor struct {
	Kind   string  `json:"kind"` // user, key, system or command
	Name   string  `json:"name"` // the user's email address at that time, or ""
	UserID *string `json:"user_id"`
	KeyID  *string `json:"key_id"`
}

// An AuditTarget is what was changed.
type AuditTarget struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

// An AuditFilter selects entries; a zero field selects all.
type AuditFilter struct {
	Actor  string // the id of a user or key, an email address, or a kind of actor
	Action string // a prefix of the action, e.g. "registry."
	Target string // an id or a name
	Since  string // an RFC 3339 time, or a day
	Until  string // likewise, exclusive
	Limit  int    // 0: all
}

// maxAuditPage is the most entries that the server returns at once.
const maxAuditPage = 200

// Audit lists the organisation's audit log, newest first. It needs the permission
// admin. Unlike what List reads, the log has a cursor, since it grows while
// it is read.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	query := newQuery(map[string]string{
		"actor": f.Actor, "action": f.Action, "target": f.Target, "since": f.Since, "until": f.Until,
	})
	all := []AuditEntry{}
	for {
		limit := maxAuditPage
		if f.Limit > 0 {
			limit = min(maxAuditPage, f.Limit-len(all))
		}
		query.Set("limit", strconv.Itoa(limit))
		var page struct {
			Entries    []AuditEntry `json:"entries"`
			NextCursor *string      `json:"next_cursor"`
		}
		if err := c.get(ctx, "/api/v1/audit", query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if page.NextCursor == nil || f.Limit > 0 && len(all) >= f.Limit {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}
