package lease

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// insert takes a free lease, or reclaims one that has expired. It reports false
// if another worker's has not.
func (l *Lease) insert(ctx context.Context) (bool, error) {
	n, err := l.db.Exec(ctx, `UPDATE `+string(l.table)+` SET held_until = $2 WHERE id = $1 AND held_until < $3`,
		l.id, store.Micros(l.until), store.Micros(store.Now()))
	return n == 1, err
}

// move lets a lease expire at another time, in microseconds; 0 releases it. It
// reports false if the lease is another worker's now.
func (l *Lease) move(ctx context.Context, until int64) (bool, error) {
	n, err := l.db.Exec(ctx, `UPDATE `+string(l.table)+` SET held_until = $3 WHERE id = $1 AND held_until = $2`,
		l.id, store.Micros(l.until), until)
	return n == 1, err
}
