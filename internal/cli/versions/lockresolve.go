package versions

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
)

// A skillQuery is an item of POST /api/v1/registry/resolve: what a lock file has about
// a skill. All fields are optional; the server matches with what is there.
type skillQuery struct {
	Name         string           `json:"name,omitempty"`
	Organisation string           `json:"organisation,omitempty"`
	Version      string           `json:"version,omitempty"`
	EntryID      string           `json:"entry_id,omitempty"`
	FromHere     bool             `json:"from_here,omitempty"`
	Hashes       []lockfiles.Hash `json:"hashes,omitempty"`
}

// A foundSkill is the registry's answer to a query. EntryID is "" if it has no such
// skill that the key may see.
type foundSkill struct {
	State             string `json:"state"`
	MatchedBy         string `json:"matched_by"`
	EntryID           string `json:"entry_id"`
	Name              string `json:"name"`
	Organisation      string `json:"organisation"`
	Version           string `json:"version"`
	ContentHash       string `json:"content_hash"`
	LatestVersion     string `json:"latest_version"`
	LatestContentHash string `json:"latest_content_hash"`
}

// The states that the registry answers with; others are printed as they are.
const (
	lockUpToDate = "up_to_date"
	withdrawn    = "withdrawn"
	lockModified = "modified"
	unknown      = "unknown"
)

// resolveBatch is the API's limit of items per request.
const resolveBatch = 1000

// resolveSkills asks the registry about all queries, in batches, and returns the
// answers in their order. An answer that is missing is the zero foundSkill.
func resolveSkills(ctx context.Context, s *server.Session, queries []skillQuery) ([]foundSkill, error) {
	all := make([]foundSkill, 0, len(queries))
	for len(queries) > 0 {
		n := min(len(queries), resolveBatch)
		body := struct {
			Items []skillQuery `json:"items"`
		}{queries[:n]}
		var out struct {
			Items []foundSkill `json:"items"`
		}
		if err := s.Call(ctx, http.MethodPost, "/api/v1/registry/resolve", body, &out); err != nil {
			return nil, err
		}
		all = append(append(all, out.Items...), make([]foundSkill, max(0, n-len(out.Items)))...)
		queries = queries[n:]
	}
	return all, nil
}
