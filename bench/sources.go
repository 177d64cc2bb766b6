package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	sourceSuggestions = 10_000 // pending, and as many reviewed
	sourceLimit       = 50     // milliseconds
)

// benchSource measures the page that a reviewer opens: a source with many
// suggestions and reviews.
func benchSource(ctx context.Context, l *lab) ([]row, error) {
	folder, err := l.folder("source")
	if err != nil {
		return nil, err
	}
	rows, err := l.sourceOn(ctx, "SQLite", "sqlite:"+filepath.Join(folder, "whetstone.db"))
	if err != nil {
		return nil, err
	}
	server, err := l.startPostgres()
	if err != nil {
		return rows, err
	}
	defer server.stop()
	url, err := server.database(ctx)
	if err != nil {
		return rows, err
	}
	more, err := l.sourceOn(ctx, "PostgreSQL", url)
	return append(rows, more...), err
}

func (l *lab) sourceOn(ctx context.Context, database, url string) ([]row, error) {
	data, err := l.folder("source")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data, "--database-url", url)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	path, err := fillSource(ctx, s, url)
	if err != nil {
		return nil, err
	}
	req, err := s.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	request, err := wire(req)
	if err != nil {
		return nil, err
	}
	// One client, for the time that it waits is the figure.
	sums, err := l.compare(ctx, l.steady(s, request, 1))
	if err != nil {
		return nil, err
	}
	name := "source: " + database + ", detail with 10,000 suggestions and 10,000 reviews, "
	return []row{
		{Name: name + "p50", Figure: sums[0].p50, Unit: "ms", Beside: limit, Other: sourceLimit},
		{Name: name + "p99", Figure: sums[0].p99, Unit: "ms", Beside: limit, Other: sourceLimit, AtMost: 1},
	}, nil
}

// fillSource makes a source through the API, writes its suggestions and
// reviews straight into the database, and returns its path.
func fillSource(ctx context.Context, s *server, url string) (string, error) {
	var me struct {
		User, Organisation struct{ ID string }
	}
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]string{"type": "upload", "label": "bench"})
	if err != nil {
		return "", err
	}
	req, err := s.request(ctx, http.MethodPost, "/api/v1/cloud-sources", bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	var made struct{ ID string }
	if err := call(req, http.StatusCreated, &made); err != nil {
		return "", err
	}
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 2})
	if err != nil {
		return "", err
	}
	defer db.Close()
	f := sourceFiller{strings.TrimPrefix(made.ID, "src_"), me.Organisation.ID, me.User.ID, store.Micros(time.Now())}
	err = db.InTx(ctx, func(tx *store.Tx) error {
		for _, table := range []store.Bulk{f.prompts(), f.suggestions(), f.reviews()} {
			if _, err := table.Insert(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return "/api/v1/cloud-sources/" + made.ID, settle(ctx, db)
}

// A sourceFiller writes what belongs to one source.
type sourceFiller struct {
	sourceID, orgID, userID string
	at                      int64
}

// numbers are the suggestions: the first are pending, as many are reviewed.
func (f sourceFiller) numbers() []int {
	all := make([]int, sourceSuggestions)
	for i := range all {
		all[i] = i
	}
	return all
}

func benchQuery(n int) string {
	return fmt.Sprintf("Please read the table on page %d of the attached report and give me its rows as CSV", n)
}

func (f sourceFiller) prompts() store.Bulk {
	all := f.numbers()
	return store.Bulk{Table: "telemetry_prompts", Columns: []store.Column{
		column("hash", all, func(n int) string { return contentHash(n, "prompt")[:32] }),
		column("prompt_id", all, func(n int) string { return fmt.Sprint(n) }),
		column("prompt_text", all, benchQuery),
		same("org_id", all, f.orgID), same("user_id", all, f.userID), same("kind", all, "user"),
		same("occurred_at", all, f.at), same("normalized_at", all, f.at), same("received_at", all, f.at),
	}}
}

func (f sourceFiller) suggestions() store.Bulk {
	all := f.numbers()
	confidences := make([]float64, len(all))
	for i := range confidences {
		confidences[i] = float64(i) / float64(len(all))
	}
	ids := make([]string, len(all))
	for i := range ids {
		ids[i] = newID()
	}
	return store.Bulk{Table: "source_suggestions", Columns: slices.Concat(f.cases(all), []store.Column{
		store.Col("id", ids), store.Col("confidence", confidences),
		column("prompt_ref", all, func(n int) string { return contentHash(n, "prompt")[:32] }),
		same("rationale", all, "The skill did not fire in 3 of 4 observations of this query."),
		same("observed_count", all, int64(3)), same("last_observed_at", all, f.at), same("reviewed", all, false),
	})}
}

func (f sourceFiller) reviews() store.Bulk {
	all := f.numbers()
	return store.Bulk{Table: "source_reviews", Columns: slices.Concat(f.cases(all), []store.Column{
		column("id", all, func(int) string { return newID() }),
		column("suggestion_id", all, func(int) string { return newID() }),
		column("query", all, benchQuery),
		column("reviewed_at", all, func(n int) int64 { return f.at + int64(n) }),
		same("review_status", all, "accepted"), same("accept_target", all, "draft"), same("reviewed_by", all, f.userID),
	})}
}

// cases are the columns that suggestions and reviews share.
func (f sourceFiller) cases(all []int) []store.Column {
	return []store.Column{
		same("org_id", all, f.orgID), same("source_id", all, f.sourceID), same("should_trigger", all, true),
		same("evidence", all, "linked_telemetry"), same("provenance", all, "missed_query"),
	}
}
