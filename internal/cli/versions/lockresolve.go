package versions

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
)

// A skillQuery is an item of POST /api/v1/registry/resolve.
type skillQuery struct {
	Name         string           `json:"name,omitempty"`
	Organisation string           `json:"organisation,omitempty"`
	Version      string           `json:"version,omitempty"`
	EntryID      string           `json:"entry_id,omitempty"`
	FromHere     bool             `json:"from_here,omitempty"`
	Hashes       []lockfiles.Hash `json:"hashes,omitempty"`
}

// A foundSkill is what the registry knows of a query.
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

// The states of the registry.
const (
	lockUpToDate = "up_to_date"
	withdrawn    = "withdrawn"
	lockModified = "modified"
	unknown      = "unknown"
)

// resolveBatch is the API's limit of items per request.
const resolveBatch = 1000

// resolveSkills asks the registry about all queries, and answers in their order.
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
