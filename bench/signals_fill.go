package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// benchSignalsRead measures how soon somebody sees what signals say. The
// answer must not slow down as signals come in.
func benchSignalsRead(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.signalsReadOn)
}

// signalsReadOn measures servers with few and with many signals, which take
// turns.
func (l *lab) signalsReadOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	few, many := l.readSizes()[0], l.readSizes()[len(l.readSizes())-1]
	var sides []side
	for _, size := range []readSize{few, many} {
		s, err := l.serveSignals(ctx, fresh, size.count)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		req, err := s.request(ctx, http.MethodGet, "/api/v1/creator-signals/overview", nil)
		if err != nil {
			return nil, err
		}
		request, err := wire(req)
		if err != nil {
			return nil, err
		}
		sides = append(sides, l.steady(s, request, 1))
	}
	sums, err := l.compare(ctx, sides...)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("signals-read: %s, overview of %s signals, ", database, many.name)
	return []row{
		{Name: name + "p50", Figure: sums[1].p50, Unit: "ms", Beside: few.name, Other: sums[0].p50},
		{Name: name + "p99", Figure: sums[1].p99, Unit: "ms", Beside: few.name, Other: sums[0].p99, AtMost: readGrowth},
	}, nil
}

// serveSignals starts a server on a database with so many signals.
func (l *lab) serveSignals(ctx context.Context, fresh func() (string, error), count int) (*server, error) {
	url, err := fresh()
	if err != nil {
		return nil, err
	}
	data, err := l.folder("signals-read")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data, "--database-url", url)
	if err != nil {
		return nil, err
	}
	if err := fillSignals(ctx, s, url, count); err != nil {
		s.stop()
		return nil, fmt.Errorf("fill %d signals: %w", count, err)
	}
	return s, nil
}

func openStore(ctx context.Context, url string) (*store.DB, error) {
	return store.Open(ctx, store.Options{URL: url, MaxConns: 2})
}

// fillSignals writes signals of 50 skills and 30 days and their cells straight
// into the database of a running server. 100 people sent them.
func fillSignals(ctx context.Context, s *server, url string, count int) error {
	var me struct{ Organisation struct{ ID string } }
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return err
	}
	db, err := openStore(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close()
	today := store.Micros(time.Now()) / dayMicros
	for first := 0; first < count; first += observedChunk {
		_, err := db.Exec(ctx, counted+`
			INSERT INTO signals (org_id, source_key, skill_name, signal_type, contributor, confidence, day)
			SELECT $3, 'signal--' || CAST(1000000000000000000 + n AS TEXT), 'signalled-' || substr(CAST(100 + n % 50 AS TEXT), 2),
				'missed_trigger', 'contributor--' || CAST(n / 50 % 100 AS TEXT), 500000000, CAST($4 AS BIGINT) - n % 30
			FROM counted`, first, min(first+observedChunk, count), me.Organisation.ID, today)
		if err != nil {
			return err
		}
	}
	if err := fillCells(ctx, db, me.Organisation.ID, today, count); err != nil {
		return err
	}
	return settle(ctx, db)
}

// fillCells counts the signals: every skill has as many on every day.
func fillCells(ctx context.Context, db *store.DB, orgID string, today int64, count int) error {
	cell := func(level, skill, form, kind, class, signals string) string {
		return fmt.Sprintf(`
			INSERT INTO signal_cells (id, org_id, level, skill_name, form, signal_type, class, signals, contributors, few, confidence_sum, last_day)
			SELECT '%[1]s-' || CAST(n AS TEXT), $3, '%[1]s', %[2]s, '%[3]s', '%[4]s', %[5]s, %[6]s, 100, '', 0, CAST($4 AS BIGINT) FROM counted`,
			level, skill, form, kind, class, signals)
	}
	const skill = `'signalled-' || substr(CAST(100 + n % 50 AS TEXT), 2)`
	perSkill, perDay := fmt.Sprint(count/50), fmt.Sprint(count/50/30)
	for _, c := range []struct {
		text string
		rows int
	}{
		{cell("org", "''", "", "", "''", fmt.Sprint(count)), 1},
		{cell("skill", skill, "", "", "''", perSkill), 50},
		{cell("kind", skill, "event", "missed_trigger", "''", perSkill), 50},
		{cell("week", skill, "event", "missed_trigger", "'2026-W' || CAST(10 + n / 50 AS TEXT)", perDay), 50 * 5},
		{cell("day", skill, "event", "missed_trigger", "'2026-03-' || CAST(10 + n / 50 AS TEXT)", perDay), 50 * 15},
	} {
		if _, err := db.Exec(ctx, counted+c.text, 0, c.rows, orgID, today); err != nil {
			return err
		}
	}
	return nil
}
