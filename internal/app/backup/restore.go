package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/fsync"
	"github.com/whetstone-dev/whetstone/internal/base/spool"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"golang.org/x/sync/errgroup"
)

// A restorer makes one restore.
type restorer struct {
	Place
	reader   *reader
	root     *os.Root        // of the repositories; nil if they are elsewhere
	dirs     map[string]bool // below root, with new entries
	tables   map[string]store.Table
	counted  Manifest // what was read so far
	leftOut  []string // files of repositories that were not restored
	progress Progress
	puts     *errgroup.Group
	// jobs are enqueued last: the backup's schema may have no table for all of them.
	jobs *spool.Spool
}

// Restore fills an empty place from a backup. The database is filled in one
// transaction, which commits after the whole file was read and all checksums and the
// signature were verified. Until then a marker blob keeps the service from starting. Blobs and
// files of repositories are written at once, since they may be too large to stage.
func Restore(ctx context.Context, p Place, r io.Reader) (_ Restored, err error) {
	defer fault.Wrap(&err, "restore")
	b, err := newReader(r)
	if err != nil {
		return Restored{}, err
	}
	defer b.close()
	if err := p.checkSigner(b.header); err != nil {
		return Restored{}, err
	}
	if newest := store.Newest(); b.header.Schema > newest {
		return Restored{}, fault.New(fault.Conflict, "the backup has the schema %d and this program knows %d: "+
			"restore it with Whetstone %s or newer", b.header.Schema, newest, b.header.Version)
	}
	if err := p.checkEmpty(ctx, b.header.Schema); err != nil {
		return Restored{}, err
	}
	s := &restorer{
		Place: p, reader: b, dirs: map[string]bool{}, jobs: spool.New(0),
		counted: Manifest{Header: b.header, Tables: map[string]int64{}},
	}
	defer s.jobs.Close()
	if p.Repositories != "" {
		if err := os.MkdirAll(p.Repositories, 0o700); err != nil {
			return Restored{}, err
		}
		if s.root, err = os.OpenRoot(p.Repositories); err != nil {
			return Restored{}, err
		}
		defer s.root.Close()
	}
	// The first write: from here on, a crash leaves a place that the service refuses to start
	// on.
	if err := putBytes(ctx, p.Blobs, marker, []byte("A restore runs, or did not come to its end.\n")); err != nil {
		return Restored{}, err
	}
	m, err := s.run(ctx)
	if err != nil {
		return Restored{}, &Unfinished{err}
	}
	return Restored{m, s.leftOut}, nil
}

// Restored is the result of a restore.
type Restored struct {
	Manifest
	// LeftOut are files of repositories that were not restored: hooks and settings
	// of git that were added by hand. A restore brings in no code that git runs.
	LeftOut []string `json:"left_out,omitempty"`
}

// Unfinished is the error of a restore that had started: the database is still
// empty, but there may be blobs and repositories, and there is the marker.
type Unfinished struct{ cause error }

func (u *Unfinished) Error() string { return u.cause.Error() }

// Unwrap returns what went wrong.
func (u *Unfinished) Unwrap() error { return u.cause }

// run migrates to the backup's schema, loads the rows as they were, then migrates like an
// upgrade, and enqueues the jobs.
func (s *restorer) run(ctx context.Context) (m Manifest, err error) {
	if err := s.DB.MigrateTo(ctx, s.reader.header.Schema); err != nil {
		return m, err
	}
	// The verification is part of the transaction: a forged backup leaves no row.
	err = s.DB.LoadOnce(ctx, func(tx *store.Tx) error {
		m, err = s.fill(ctx, tx)
		return err
	})
	if err != nil {
		return Manifest{}, err
	}
	if err := s.DB.Migrate(ctx); err != nil {
		return m, err
	}
	if err := s.DB.LoadOnce(ctx, func(tx *store.Tx) error {
		_, err := eachJob(s.jobs.Reader(), func(j jobs.Saved) error { return s.Jobs.Restore(ctx, tx, j) })
		return err
	}); err != nil {
		return m, err
	}
	return m, s.Blobs.Delete(ctx, marker)
}

// fill reads the whole file and verifies it.
func (s *restorer) fill(ctx context.Context, tx *store.Tx) (Manifest, error) {
	tables, err := tx.Tables(ctx)
	if err != nil {
		return Manifest{}, err
	}
	s.tables = map[string]store.Table{}
	for _, t := range tables {
		if !slices.Contains(jobs.OwnTables(), t.Name) {
			s.tables[t.Name] = t
			s.counted.Tables[t.Name] = 0
		}
	}
	var putting context.Context
	// SetLimit makes the reading wait for slow puts, which bounds the memory.
	s.puts, putting = errgroup.WithContext(ctx)
	s.puts.SetLimit(prefetch)
	manifest, err := s.readAll(putting, tx)
	// If the context was cancelled, a failed put is the cause.
	if putErr := s.puts.Wait(); putErr != nil {
		return Manifest{}, putErr
	}
	if err != nil {
		return Manifest{}, err
	}
	if err := errors.Join(s.checkCounts(manifest), s.verifySignature(s.reader)); err != nil {
		return manifest, err
	}
	for dir := range s.dirs { // so that the directory entries of files survive a crash, too
		if err := fsync.RootDir(s.root, dir); err != nil {
			return manifest, err
		}
	}
	return manifest, nil
}

// readAll restores members until the manifest, which is the last.
func (s *restorer) readAll(ctx context.Context, tx *store.Tx) (Manifest, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Manifest{}, err
		}
		m, err := s.reader.next()
		if err != nil {
			return Manifest{}, err
		}
		if m.name == manifestName {
			return s.reader.readManifest(m)
		}
		if err := s.restore(ctx, tx, m); err != nil {
			return Manifest{}, err
		}
	}
}

// restore stores a member. Its name is not trusted: the bucket refuses invalid
// keys, and os.Root refuses paths that lead out of the folder.
func (s *restorer) restore(ctx context.Context, tx *store.Tx, m member) error {
	if key, ok := strings.CutPrefix(m.name, blobsDir); ok {
		return s.restoreBlob(ctx, key, m)
	}
	if name, ok := strings.CutPrefix(m.name, reposDir); ok {
		return s.restoreFile(name, m)
	}
	content, err := s.reader.readBytes(m)
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(m.name, databaseDir):
		return s.restoreRows(ctx, tx, content)
	case strings.HasPrefix(m.name, jobsDir):
		return s.restoreJobs(content)
	}
	return damaged(fmt.Errorf("it holds %q", m.name))
}

// restoreRows loads a chunk. Columns must agree exactly: the schema is the one that the rows
// were dumped from.
func (s *restorer) restoreRows(ctx context.Context, tx *store.Tx, chunk []byte) error {
	head, rows, err := readChunk(chunk)
	if err != nil {
		return damaged(err)
	}
	t, ok := s.tables[head.Table]
	if !ok || !slices.Equal(t.Columns, head.Columns) {
		return damaged(fmt.Errorf("the table %q is not one of its schema", head.Table))
	}
	if err := tx.Load(ctx, t, rows); err != nil {
		return err
	}
	s.counted.Tables[t.Name] += int64(len(rows))
	s.progress.Rows += int64(len(rows))
	s.report("database")
	return nil
}

// restoreJobs keeps a chunk of jobs for enqueue.
func (s *restorer) restoreJobs(lines []byte) error {
	n, err := eachJob(bytes.NewReader(lines), func(jobs.Saved) error { return nil })
	if err != nil {
		return damaged(err)
	}
	s.counted.Jobs += n
	_, err = s.jobs.Write(lines)
	return err
}

// eachJob calls fn with the jobs that r has, and returns how many they are.
func eachJob(r io.Reader, fn func(jobs.Saved) error) (n int64, err error) {
	decode := json.NewDecoder(r)
	for decode.More() {
		var j jobs.Saved
		if err := decode.Decode(&j); err != nil {
			return n, err
		}
		if err := fn(j); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// restoreBlob stores a blob; small ones are stored concurrently.
func (s *restorer) restoreBlob(ctx context.Context, key string, m member) error {
	if key == marker {
		return damaged(errors.New("it was made of an unfinished restore"))
	}
	s.counted.Blobs.Files++
	s.counted.Blobs.Bytes += m.size
	s.progress.Blobs++
	s.progress.Bytes += m.size
	s.report("blobs")
	if m.size > smallBlob {
		return s.Blobs.Put(ctx, key, m.content, m.size)
	}
	content, err := io.ReadAll(m.content)
	if err != nil {
		return err
	}
	s.puts.Go(func() error { return putBytes(ctx, s.Blobs, key, content) })
	return nil
}

func putBytes(ctx context.Context, b blob.Bucket, key string, content []byte) error {
	return b.Put(ctx, key, bytes.NewReader(content), int64(len(content)))
}

// restoreFile writes a file of a repository. With another code host there is no folder for
// them, and they are read and dropped.
func (s *restorer) restoreFile(name string, m member) error {
	s.counted.Repositories.Files++
	s.counted.Repositories.Bytes += m.size
	s.progress.Bytes += m.size
	s.report("repositories")
	if inside, err := path.Match("*/*.git", repositoryOf(name)); err != nil || !inside || !fs.ValidPath(name) {
		return damaged(fmt.Errorf("%q is no path in a repository", name))
	}
	switch {
	case s.root == nil:
		_, err := io.Copy(io.Discard, m.content)
		return err
	case repositoryData.MatchString(name[len(repositoryOf(name))+1:]):
		return s.writeFile(name, m.content)
	}
	// The file is skipped, and listed unless the service writes it itself.
	content, err := io.ReadAll(io.LimitReader(m.content, smallBlob))
	if err != nil {
		return err
	}
	if len(s.leftOut) < maxLeftOut && !git.IsOurs(name, content) {
		s.leftOut = append(s.leftOut, name)
	}
	_, err = io.Copy(io.Discard, m.content)
	return err
}

// repositoryData matches the files of a repository that hold what was pushed. All
// others control what git does (hooks, settings, alternates), so that a forged
// backup could run code through them.
var repositoryData = regexp.MustCompile(
	`^(HEAD|packed-refs|shallow|(refs|logs)/.+|objects/([0-9a-f]{2}|pack)/[0-9A-Za-z._-]+)$`)

// maxLeftOut bounds the list LeftOut.
const maxLeftOut = 100

// checkCounts compares what was read with the manifest. Jobs are counted as read,
// since unique jobs may have been merged.
func (s *restorer) checkCounts(m Manifest) error {
	c := s.counted
	if m.Jobs != c.Jobs || m.Blobs != c.Blobs || m.Repositories != c.Repositories || !maps.Equal(m.Tables, c.Tables) {
		return damaged(errors.New("its counts do not match its manifest"))
	}
	return nil
}

func (s *restorer) report(stage string) {
	s.progress.Stage = stage
	if s.Progress != nil {
		s.Progress(s.progress)
	}
}

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
