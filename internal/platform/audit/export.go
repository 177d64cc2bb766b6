package audit

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	// exportPage is how many entries an export has in memory.
	exportPage = 500
	// settled is the age at which entries are exported. Younger ones may be
	// followed by entries of an earlier time, whose transactions take longer: an
	// export that is resumed would miss them.
	settled = 10 * time.Second
)

type exportInput struct {
	Actor  string `query:"actor" maxLength:"254" doc:"A user's or key's id, a person's address, or user, key, system or command."`
	Action string `query:"action" maxLength:"100" example:"registry." doc:"What the action begins with."`
	Target string `query:"target" maxLength:"200" doc:"The id or the name of what was changed."`
	Since  string `query:"since" example:"2026-01-02" doc:"Only entries from this time or day on."`
	Until  string `query:"until" example:"2026-01-02T03:04:05Z" doc:"Only entries before this time or day."`
	Cursor string `query:"cursor" maxLength:"36" doc:"The id of the last entry of an earlier export, for those after it."`
	Limit  int    `query:"limit" default:"0" minimum:"0" maximum:"100000" doc:"Entries in the answer; 0 for all."`
}

// handleExport streams the audit log, oldest first. An export that breaks off ends
// without the end of its body, so that it does not look complete.
func (s *Service) handleExport(ctx context.Context, in exportInput) (httpapi.Stream, error) {
	f := Filter{Actor: in.Actor, Action: in.Action, Target: in.Target, Limit: exportPage}
	if err := f.Between(in.Since, in.Until); err != nil {
		return nil, err
	}
	orgID, after := access.From(ctx).OrgID, Entry{}
	if in.Cursor != "" {
		var err error
		after, err = entryByID(ctx, s.DB, orgID, in.Cursor)
		if fault.Is(err, fault.NotFound) {
			return nil, fault.Invalid("cursor", "cursor must be the id of an entry that is still kept")
		}
		if err != nil {
			return nil, err
		}
	}
	end, left := store.Now().Add(-s.settled()), in.Limit
	if left > 0 {
		f.Limit = min(f.Limit, left)
	}
	page, err := entriesAfter(ctx, s.DB, orgID, after, end, f)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
		lines := json.NewEncoder(w)
		for {
			for _, e := range page {
				if lines.Encode(newEntryOutput(e)) != nil {
					return // the client is gone
				}
			}
			if left -= len(page); len(page) < f.Limit || left == 0 {
				return
			}
			if left > 0 {
				f.Limit = min(f.Limit, left)
			}
			if page, err = entriesAfter(r.Context(), s.DB, orgID, page[len(page)-1], end, f); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	}, nil
}

func (s *Service) settled() time.Duration {
	if s.testSettled != nil {
		return *s.testSettled
	}
	return settled
}
