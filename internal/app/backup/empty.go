package backup

import (
	"context"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// checkEmpty refuses a place that has any data: Restore never deletes. schema is the backup's:
// the database will be migrated to it, and then to the newest.
func (p Place) checkEmpty(ctx context.Context, schema int64) error {
	if err := CheckFinished(ctx, p.Blobs); err != nil {
		return err
	}
	if err := p.DB.Snapshot(ctx, func(tx *store.Tx) error { return checkEmptyDatabase(ctx, tx, schema) }); err != nil {
		return err
	}
	for info, err := range p.Blobs.List(ctx, "") {
		if err != nil {
			return err
		}
		return fault.New(fault.Conflict, "the place for the blobs is not empty (it holds %s): "+
			"name another with --blob-url or --data, or empty it", info.Key)
	}
	if p.Repositories == "" {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(p.Repositories, "*", "*.git"))
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fault.New(fault.Conflict, "the folder of repositories is not empty (it holds %s): "+
			"name another with --repohost-url or --data, or empty it", found[0])
	}
	return nil
}

// checkEmptyDatabase accepts a database that was migrated and has no rows.
func checkEmptyDatabase(ctx context.Context, tx *store.Tx, schema int64) error {
	now, err := tx.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if now > schema {
		return fault.New(fault.Conflict, "the database has the newer schema %d and the backup %d: "+
			"name an empty database with --database-url or --data", now, schema)
	}
	tables, err := tx.Tables(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		filled, err := tx.HasRows(ctx, t)
		if err != nil {
			return err
		}
		if filled {
			return fault.New(fault.Conflict, "the database is not empty (it has rows in %s): "+
				"name another with --database-url or --data, or empty it", t.Name)
		}
	}
	return nil
}
