package signals

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// contributorLength is the length of a contributor in a list, with a space.
const contributorLength = 33

// sinceOf lists contributors, up to k. The list is sorted, and each name is followed by a space, so
// that one name is never part of another.
func sinceOf(people map[string]bool, k int) string {
	list := slices.Sorted(maps.Keys(people))
	return fewOf(list[:min(len(list), k)], k+1)
}

// mergeSince adds the contributors of the new row to the list of the old one, until that
// has k. It is SQL because the old list is only known to the database at the moment of the upsert.
// k is small, so the expression stays short.
func mergeSince(table string, k int) string {
	old := table + ".since"
	merged := old
	for i := range k {
		one := "SUBSTR(excluded.since, " + strconv.Itoa(1+i*contributorLength) + ", " + strconv.Itoa(contributorLength) + ")"
		merged += " || CASE WHEN REPLACE(" + old + ", " + one + ", '') = " + old + " THEN " + one + " ELSE '' END"
	}
	return "CASE WHEN LENGTH(" + old + ") >= " + strconv.Itoa(k*contributorLength) + " THEN " + old + " ELSE " + merged + " END"
}

// noteSenders adds to the contributors who have sent something since the last snapshot,
// and reports whether the next is due. It holds the lock of the row until the commit. The list has
// only pseudonyms, and is emptied by the snapshot.
func noteSenders(ctx context.Context, tx *store.Tx, orgID string, people map[string]bool, k int) (due bool, err error) {
	rows, err := tx.Query(ctx, `
		INSERT INTO signal_snapshots (org_id, since) VALUES ($1, $2)
		ON CONFLICT (org_id) DO UPDATE SET since = `+mergeSince("signal_snapshots", k)+`
		RETURNING since`, orgID, sinceOf(people, k))
	since, err := store.One(rows, err, "Snapshot", store.Value[string])
	return len(strings.Fields(since)) >= k, err
}

// standingsOf reads all cells of the skills that have changed. Cells of skills without changes
// can't get another fate.
func standingsOf(ctx context.Context, tx *store.Tx, orgID string) ([]*standing, error) {
	rows, err := tx.Query(ctx, `
		SELECT id, level, skill_name, form, signal_type, class, signals, contributors, few, since, carried, carried_signals,
			published_contributors, published_few, revealed
		FROM signal_cells
		WHERE org_id = $1 AND skill_name IN (SELECT skill_name FROM signal_cells WHERE org_id = $1 AND since <> '')`, orgID)
	return store.All(rows, err, func(row store.Row) (*standing, error) {
		c := &standing{below: map[level][]*standing{}}
		var few, since, carried, publishedFew string
		var revealed int
		err := row.Scan(&c.id, &c.level, &c.skill, &c.form, &c.kind, &c.class, &c.signals, &c.contributors, &few,
			&since, &carried, &c.carriedSignals,
			&c.people, &publishedFew, &revealed)
		c.cell.few, c.since, c.carried = strings.Fields(few), strings.Fields(since), strings.Fields(carried)
		c.few, c.revealed = strings.Fields(publishedFew), revealed == 1
		return c, err
	})
}

// publishLive makes the live figures of cells the published ones. The lists of who has changed a
// cell start anew.
const publishLive = `
	published_signals = signals, published_contributors = contributors, published_few = few,
	published_confidence_sum = confidence_sum, published_last_day = last_day, since = '', carried = ''`

// publish carries out what a snapshot has decided. At most three statements, whatever the number of
// cells.
func publish(ctx context.Context, tx *store.Tx, orgID string, fates map[fate][]string) error {
	for _, change := range []struct {
		fate fate
		set  string
	}{
		{advances, publishLive + `, revealed = 1`},
		{suppresses, publishLive},
		{keeps, `carried = since, carried_signals = signals`},
	} {
		if len(fates[change.fate]) == 0 {
			continue
		}
		in, list := tx.Dialect().In("$1", fates[change.fate])
		if _, err := tx.Exec(ctx, `UPDATE signal_cells SET `+change.set+` WHERE id`+in, list); err != nil {
			return err
		}
	}
	return noteSnapshot(ctx, tx, orgID)
}

// publishAll publishes everything that has changed.
func publishAll(ctx context.Context, tx *store.Tx, orgID string) error {
	_, err := tx.Exec(ctx, `
		UPDATE signal_cells SET `+publishLive+`, revealed = 1 WHERE org_id = $1 AND since <> ''`, orgID)
	if err != nil {
		return err
	}
	return noteSnapshot(ctx, tx, orgID)
}

func noteSnapshot(ctx context.Context, tx *store.Tx, orgID string) error {
	_, err := tx.Exec(ctx, `UPDATE signal_snapshots SET since = '', taken_at = $2 WHERE org_id = $1`, orgID,
		store.Micros(store.Now()))
	return err
}

// snapshotAt returns when the published figures were last brought up to date, nil for
// never.
func snapshotAt(ctx context.Context, q store.Querier, orgID string) (*time.Time, error) {
	rows, err := q.Query(ctx, `SELECT taken_at FROM signal_snapshots WHERE org_id = $1`, orgID)
	at, err := store.One(rows, err, "Snapshot", func(row store.Row) (at *time.Time, err error) {
		err = row.Scan(store.NullTime(&at))
		return at, err
	})
	if fault.Is(err, fault.NotFound) { // no signals, no snapshot
		err = nil
	}
	return at, err
}
