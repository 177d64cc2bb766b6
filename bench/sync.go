package main

import (
	"context"
	"path/filepath"
)

const (
	fewEntries  = 1_000
	manyEntries = 100_000
	syncLimit   = 10  // milliseconds
	syncGrowth  = 1.5 // from few entries to many
)

// benchSync measures what clients ask most often: which of their skills have
// updates. The answer must not slow down as the registry grows.
func benchSync(ctx context.Context, l *lab) ([]row, error) {
	var urls [2]string
	for i := range urls {
		folder, err := l.folder("sync")
		if err != nil {
			return nil, err
		}
		urls[i] = "sqlite:" + filepath.Join(folder, "whetstone.db")
	}
	rows, err := l.syncOn(ctx, "SQLite", urls)
	if err != nil {
		return nil, err
	}
	server, err := l.startPostgres()
	if err != nil {
		return rows, err
	}
	defer server.stop()
	for i := range urls {
		if urls[i], err = server.database(ctx); err != nil {
			return rows, err
		}
	}
	more, err := l.syncOn(ctx, "PostgreSQL", urls)
	return append(rows, more...), err
}

// syncOn measures a small and a large registry, which take turns.
func (l *lab) syncOn(ctx context.Context, database string, urls [2]string) ([]row, error) {
	var sides []side
	for i, entries := range []int{fewEntries, manyEntries} {
		data, err := l.folder("sync")
		if err != nil {
			return nil, err
		}
		s, err := l.serve(ctx, data, "--database-url", urls[i])
		if err != nil {
			return nil, err
		}
		defer s.stop()
		request, err := fill(ctx, s, urls[i], entries)
		if err != nil {
			return nil, err
		}
		// One client, for the time that it waits is the figure.
		sides = append(sides, l.steady(s, request, 1))
	}
	sums, err := l.compare(ctx, sides...)
	if err != nil {
		return nil, err
	}
	few, many := sums[0], sums[1]
	small, large := "sync: "+database+", 1 k entries, ", "sync: "+database+", 100 k entries, "
	return []row{
		{Name: small + "p50", Figure: few.p50, Unit: "ms", Beside: limit, Other: syncLimit},
		{Name: small + "p99", Figure: few.p99, Unit: "ms", Beside: limit, Other: syncLimit, AtMost: 1},
		{Name: large + "p50", Figure: many.p50, Unit: "ms", Beside: limit, Other: syncLimit},
		{Name: large + "p99", Figure: many.p99, Unit: "ms", Beside: limit, Other: syncLimit, AtMost: 1},
		{Name: large + "p99", Figure: many.p99, Unit: "ms", Beside: "1 k entries", Other: few.p99, AtMost: syncGrowth},
	}, nil
}
