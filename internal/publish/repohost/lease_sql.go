package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// insert takes a free or expired lease; false if another worker's is valid.
func (l *Lease) insert(ctx context.Context) (bool, error) {
	n, err := l.db.Exec(ctx, `UPDATE `+string(l.table)+` SET held_until = $2 WHERE id = $1 AND held_until < $3`,
		l.id, store.Micros(l.until), store.Micros(store.Now()))
	return n == 1, err
}

// move changes the expiry, in microseconds; 0 releases the lease. It returns false if
// another worker holds it now.
func (l *Lease) move(ctx context.Context, until int64) (bool, error) {
	n, err := l.db.Exec(ctx, `UPDATE `+string(l.table)+` SET held_until = $3 WHERE id = $1 AND held_until = $2`,
		l.id, store.Micros(l.until), until)
	return n == 1, err
}
