// Package locks has what the client's commands do with lock files: it compares those
// of any client with the registry, and installs exactly what that of whetstone says.
package locks

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
)

// A query is an item of POST /api/v1/registry/resolve.
type query struct {
	Name         string           `json:"name,omitempty"`
	Organisation string           `json:"organisation,omitempty"`
	Version      string           `json:"version,omitempty"`
	EntryID      string           `json:"entry_id,omitempty"`
	FromHere     bool             `json:"from_here,omitempty"`
	Hashes       []lockfiles.Hash `json:"hashes,omitempty"`
}

// A found is what the registry knows of a query.
type found struct {
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
	upToDate  = "up_to_date"
	withdrawn = "withdrawn"
	modified  = "modified"
	unknown   = "unknown"
)

// batch is the API's limit of items per request.
const batch = 1000

// resolve asks the registry about all queries, and answers in their order.
func resolve(ctx context.Context, s *server.Session, queries []query) ([]found, error) {
	all := make([]found, 0, len(queries))
	for len(queries) > 0 {
		n := min(len(queries), batch)
		body := struct {
			Items []query `json:"items"`
		}{queries[:n]}
		var out struct {
			Items []found `json:"items"`
		}
		if err := s.Call(ctx, http.MethodPost, "/api/v1/registry/resolve", body, &out); err != nil {
			return nil, err
		}
		all = append(append(all, out.Items...), make([]found, max(0, n-len(out.Items)))...)
		queries = queries[n:]
	}
	return all, nil
}
