package privacy

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Described is a table of the plan.
type Described struct {
	Name, Export, Delete     string
	Columns, Omitted, People []string
}

// Describe returns the plan of a database.
func Describe(ctx context.Context, db *store.DB) (all []Described, err error) {
	err = db.Snapshot(ctx, func(tx *store.Tx) error {
		p, err := newPlan(ctx, tx)
		for _, t := range p {
			all = append(all, Described{t.Name, t.export, t.delete, t.Columns, t.omitted, t.people})
		}
		return err
	})
	return all, err
}

// LeftOutTables are the tables that are not in archives.
func LeftOutTables() map[string]string { return leftOut }

// Sweep deletes archives that have expired.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }

// PurgeLate deletes what was written after the end of organisations.
func (s *Service) PurgeLate(ctx context.Context) error { return s.purgeLate(ctx) }

// Key is where the archive is.
func (e Export) Key() string { return e.key() }
