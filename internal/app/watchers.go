package app

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// watchers lets a hook with one place report to several capabilities.
type watchers []telemetry.Watcher

// Changed implements telemetry.Watcher.
func (all watchers) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	for _, w := range all {
		if err := w.Changed(ctx, tx, orgID); err != nil {
			return err
		}
	}
	return nil
}

// dependents does the same for what refers to entries.
type dependents []registry.Dependent

// DeleteOfEntry implements registry.Dependent.
func (all dependents) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	for _, d := range all {
		if err := d.DeleteOfEntry(ctx, tx, entryID); err != nil {
			return err
		}
	}
	return nil
}
