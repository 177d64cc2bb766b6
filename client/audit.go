package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// An AuditEntry says who changed what, and when.
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
	Name   string  `json:"name"` // the person's address at that time, or ""
	UserID *string `json:"user_id"`
	KeyID  *string `json:"key_id"`
}

// An AuditTarget is what was changed.
type AuditTarget struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

// An AuditFilter chooses entries; a zero field chooses all.
type AuditFilter struct {
	Actor  string // a user's or key's id, a person's address, or a kind of actor
	Action string // what the action begins with, like "registry."
	Target string // an id or a name
	Since  string // an RFC 3339 time or a day
	Until  string // likewise
	Limit  int    // 0: all
}

// auditPage is how many entries the server is asked for at once.
const auditPage = 200

// Audit lists the organisation's audit entries, newest first. It needs the
// permission admin.
func (c *Client) Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	query := url.Values{}
	for name, value := range map[string]string{"actor": f.Actor, "action": f.Action, "target": f.Target, "since": f.Since, "until": f.Until} {
		if value != "" {
			query.Set(name, value)
		}
	}
	all := []AuditEntry{}
	for {
		wanted := auditPage
		if f.Limit > 0 {
			wanted = min(auditPage, f.Limit-len(all))
		}
		query.Set("limit", strconv.Itoa(wanted))
		var page struct {
			Entries    []AuditEntry `json:"entries"`
			NextCursor *string      `json:"next_cursor"`
		}
		if _, err := c.do(ctx, call{method: http.MethodGet, path: "/api/v1/audit", query: query, repeatable: true}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if page.NextCursor == nil || f.Limit > 0 && len(all) >= f.Limit {
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}
