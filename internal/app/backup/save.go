package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A saver makes one backup.
type saver struct {
	Place
	archive    *archive
	manifest   Manifest
	progress   Progress
	referenced *keyFile  // keys of the blobs that the snapshot refers to
	saved      blob.Keys // keys of the blobs that are in the archive
}

// Save writes a backup of the place to w while the service runs. Everything that
// was acknowledged before the call is in it. It returns the manifest and the number
// of bytes written. An error leaves w with an unfinished file, which a restore refuses.
func Save(ctx context.Context, p Place, w io.Writer) (_ Manifest, size int64, err error) {
	defer fault.Wrap(&err, "backup")
	s := &saver{Place: p, manifest: Manifest{
		Header: Header{Format: format, Engine: p.DB.Dialect().Name(), Version: p.Version, CreatedAt: store.Now()},
		Tables: map[string]int64{}, Deleted: []string{}, Lost: []string{}, Damaged: []string{},
	}}
	if p.Signer != nil {
		s.manifest.SignedWith = p.Signer.KeyIDs()[0]
	}
	if s.referenced, err = newKeyFile(); err != nil {
		return Manifest{}, 0, err
	}
	defer s.referenced.close()
	counted := &countingWriter{w: w}
	if s.archive, err = newArchive(counted, s.manifest.CreatedAt); err != nil {
		return Manifest{}, 0, err
	}
	defer func() { _ = s.archive.zst.Close() }() // frees an unfinished archive
	if err := CheckFinished(ctx, p.Blobs); err != nil {
		return Manifest{}, 0, err
	}
	// The database comes first, since a blob is stored before the row that refers
	// to it.
	if err := p.DB.Snapshot(ctx, func(tx *store.Tx) error { return s.saveDatabase(ctx, tx) }); err != nil {
		return Manifest{}, 0, err
	}
	if err := s.saveBlobs(ctx); err != nil {
		return Manifest{}, 0, err
	}
	if err := s.saveRepositories(ctx); err != nil {
		return Manifest{}, 0, err
	}
	err = s.archive.finish(&s.manifest, p.Signer)
	return s.manifest, counted.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// saveDatabase saves the header, all rows and the jobs. It runs in one snapshot, which on
// SQLite keeps the write-ahead log from being truncated.
func (s *saver) saveDatabase(ctx context.Context, tx *store.Tx) (err error) {
	if s.manifest.Schema, err = tx.SchemaVersion(ctx); err != nil {
		return err
	}
	if newest := store.Newest(); s.manifest.Schema != newest {
		return fault.New(fault.Conflict, "the database has the schema %d and this program %d: "+
			"use the version of Whetstone that runs on it, or run `whetstone migrate`", s.manifest.Schema, newest)
	}
	head, err := marshal(s.manifest.Header)
	if err != nil {
		return err
	}
	if err := s.archive.addBytes(headerName, head); err != nil {
		return err
	}
	tables, err := tx.Tables(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if slices.Contains(jobs.OwnTables(), t.Name) {
			continue
		}
		if err := s.saveTable(ctx, tx, t); err != nil {
			return err
		}
	}
	if err := s.saveJobs(ctx, tx); err != nil {
		return err
	}
	// The references are of the snapshot, like the rows.
	for _, r := range s.Referrers {
		if err := r.References(ctx, tx, s.referenced.add); err != nil {
			return err
		}
	}
	return nil
}

// chunkSize is about the size of a member of rows. A chunk is held in memory by both sides.
const chunkSize = 4 << 20

// saveTable writes the rows of a table in chunks of one member each, so that
// memory does not grow with the table. The manifest counts them.
func (s *saver) saveTable(ctx context.Context, tx *store.Tx, t store.Table) error {
	var rows []byte
	head := chunkHead{Table: t.Name, Columns: t.Columns}
	chunks := 0
	flush := func() error {
		line, err := json.Marshal(head)
		if err != nil {
			return err
		}
		chunk := append(append(line, '\n'), rows...)
		chunks++
		s.manifest.Tables[t.Name] += int64(head.Rows)
		s.progress.Rows += int64(head.Rows)
		s.report("database")
		rows, head.Rows = rows[:0], 0
		return s.archive.addBytes(numbered(databaseDir+t.Name+"/", chunks), chunk)
	}
	err := tx.Dump(ctx, t, func(row []any) (err error) {
		if rows, err = appendRow(rows, row); err != nil {
			return err
		}
		head.Rows++
		if len(rows) >= chunkSize {
			return flush()
		}
		return nil
	})
	if err != nil || head.Rows == 0 {
		s.manifest.Tables[t.Name] += 0 // empty tables are in the manifest, too
		return err
	}
	return flush()
}

// saveJobs writes the queue as jobs, not as rows: its tables are those of the
// engine, and a backup moves between engines.
func (s *saver) saveJobs(ctx context.Context, tx *store.Tx) error {
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	chunks := 0
	flush := func() error {
		chunks++
		defer lines.Reset()
		return s.archive.addBytes(numbered(jobsDir, chunks), lines.Bytes())
	}
	err := s.Jobs.Save(ctx, tx, func(j jobs.Saved) error {
		s.manifest.Jobs++
		if err := encode.Encode(j); err != nil {
			return err
		}
		if lines.Len() >= chunkSize {
			return flush()
		}
		return nil
	})
	if err != nil || lines.Len() == 0 {
		return err
	}
	return flush()
}

func (s *saver) report(stage string) {
	s.progress.Stage = stage
	if s.Progress != nil {
		s.Progress(s.progress)
	}
}
