package account

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// auditCommand has the commands of the audit log. `whetstone audit` alone is `audit
// list`.
type auditCommand struct {
	List   auditList   `cmd:"" default:"withargs" help:"List who changed what, newest first."`
	Export auditExport `cmd:"" help:"Print the audit log as JSON lines, oldest first."`
}

// auditList has the filters of the list, which the server applies.
type auditList struct {
	server.Flags `embed:""`
	Actor        string `env:"-" placeholder:"WHO" help:"Only by this actor: id of a user or key, email address, or user, key, system or command."`
	Action       string `env:"-" placeholder:"PREFIX" help:"Only actions that begin with this, e.g. registry."`
	Target       string `env:"-" placeholder:"WHAT" help:"Only about the target with this id or name."`
	Since        string `env:"-" placeholder:"TIME" help:"Only at or after this time (RFC 3339) or day."`
	Until        string `env:"-" placeholder:"TIME" help:"Only before this time or day."`
	Limit        int    `env:"-" default:"50" placeholder:"N" help:"How many entries, newest first; 0 for all."`
}

// Run lists the audit log, newest first. It needs the permission admin. Times are
// local, for a person at a terminal; --json has UTC.
func (c *auditList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		entries, err := s.Audit(ctx, client.AuditFilter{
			Actor: c.Actor, Action: c.Action, Target: c.Target, Since: c.Since, Until: c.Until, Limit: c.Limit,
		})
		if err != nil {
			return err
		}
		return term.List[client.AuditEntry]{
			None: "No entries.",
			Head: "TIME\tWHO\tVIA\tACTION\tTARGET\tDETAIL",
			Row: func(e client.AuditEntry) []any {
				return []any{
					e.At.Local().Format("2006-01-02 15:04:05"), term.Plain(cmp.Or(e.Actor.Name, e.Actor.Kind)), e.Via, e.Action,
					term.Plain(e.Target.Kind + " " + cmp.Or(e.Target.Name, e.Target.ID)), detailText(e.Detail),
				}
			},
		}.Print(p, entries)
	})
}

// detailText formats the detail of an entry, a JSON object, as one line, e.g. "role:
// admin, was: member". Keys are sorted, so that equal details look alike.
func detailText(raw json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		// Not an object: print it as it is rather than fail.
		return term.Cell(string(raw))
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if text := valueText(fields[name]); text != "" {
			all = append(all, strings.ReplaceAll(name, "_", " ")+": "+text)
		}
	}
	return term.Cell(strings.Join(all, ", "))
}

// valueText formats one JSON value. It returns "" for null and for an empty value,
// which detailText leaves out. Nested objects are joined like the detail itself.
func valueText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return term.YesNo(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, valueText(item))
		}
		return strings.Join(all, " ")
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return detailText(raw)
}

// auditPage is the page size of an export: large enough that a request is rare, small
// enough to hold a page in memory.
const auditPage = 2_000

// auditExport has the filters of the export. Unlike the list it can resume: Cursor is
// the id of the last entry of an earlier export.
type auditExport struct {
	server.Flags `embed:""`
	Actor        string `env:"-" placeholder:"WHO" help:"Only by this actor: id of a user or key, email address, or user, key, system or command."`
	Action       string `env:"-" placeholder:"PREFIX" help:"Only actions that begin with this, e.g. registry."`
	Target       string `env:"-" placeholder:"WHAT" help:"Only about the target with this id or name."`
	Since        string `env:"-" placeholder:"TIME" help:"Only at or after this time (RFC 3339) or day."`
	Until        string `env:"-" placeholder:"TIME" help:"Only before this time or day."`
	Cursor       string `env:"-" placeholder:"ID" help:"Only after the entry with this id: the last one of an earlier export."`
}

// Run prints entries as JSON lines, as the server sends them, with or without --json.
// Pages are written as they arrive, so that a log of any size needs little memory. A
// page that is not full is the last one.
func (c *auditExport) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		query := url.Values{"limit": {strconv.Itoa(auditPage)}}
		for name, value := range map[string]string{
			"actor": c.Actor, "action": c.Action, "target": c.Target, "since": c.Since, "until": c.Until, "cursor": c.Cursor,
		} {
			if value != "" {
				query.Set(name, value)
			}
		}
		for {
			var page []byte
			if err := s.Call(ctx, http.MethodGet, "/api/v1/audit/export?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			if _, err := p.Stdout.Write(page); err != nil {
				return err
			}
			// The server sends one entry per line, so counting needs no decoding.
			lines := bytes.Split(bytes.TrimSpace(page), []byte("\n"))
			if len(lines) < auditPage {
				return nil
			}
			var last struct {
				ID string `json:"id"`
			}
			if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
				return err
			}
			query.Set("cursor", last.ID)
		}
	})
}
