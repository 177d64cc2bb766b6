package privacy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Start begins an archive of the caller's organisation. While one is being made, it
// returns that one. The lock on the organisation makes sure that there is only one.
func (s *Service) Start(ctx context.Context, c access.Caller) (e Export, err error) {
	if err := checkWhole(c); err != nil {
		return e, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		name, err := lockOrg(ctx, tx, c.OrgID)
		if err != nil {
			return err
		}
		e, err = newestExport(ctx, tx, c.OrgID)
		if err == nil && !e.over() || err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		e = Export{ID: store.NewID(), OrgID: c.OrgID, CreatedBy: c.UserID, State: Queued, CreatedAt: store.Now()}
		if err := insertExport(ctx, tx, e); err != nil {
			return err
		}
		if err := s.Jobs.Enqueue(ctx, tx, makeArchive{e.OrgID, e.ID}, jobs.Attempts(attempts), jobs.For(e.OrgID)); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "privacy.export.start", Target: audit.Target{Kind: "organisation", ID: c.OrgID, Name: name},
		})
	})
	return e, err
}

// Newest returns the newest export of the caller's organisation.
func (s *Service) Newest(ctx context.Context, c access.Caller) (Export, error) {
	if err := checkWhole(c); err != nil {
		return Export{}, err
	}
	e, err := newestExport(ctx, s.DB, c.OrgID)
	// The sweep runs hourly, so the archive may still be there.
	if err == nil && e.State == Done && !e.ExpiresAt.After(time.Now()) {
		e.State = Expired
	}
	return e, err
}

// Link returns an address from which the archive can be downloaded without a key, and
// when it stops to work.
func (s *Service) Link(ctx context.Context, e Export) (url string, until time.Time, err error) {
	// A link must not outlive the archive.
	lifetime := min(linkLifetime, time.Until(*e.ExpiresAt))
	if lifetime < time.Second {
		return "", until, fault.New(fault.NotFound, "This archive has expired")
	}
	url, err = s.Blobs.SignedURL(ctx, e.key(), blob.SignOptions{
		Expires: lifetime, Filename: "whetstone-export-" + e.CreatedAt.Format("2006-01-02") + ".zip",
		ContentType: "application/zip",
	})
	return url, time.Now().Add(lifetime), err
}

// reportInterval is how often the progress of an export is written. That is often
// enough for a person who waits.
const reportInterval = 2 * time.Second

// make writes the archive of an export and stores it. An export that is over, or whose
// organisation is gone, is left alone.
func (s *Service) make(ctx context.Context, orgID, id string) error {
	e, err := exportByID(ctx, s.DB, orgID, id)
	if fault.Is(err, fault.NotFound) || err == nil && e.over() {
		return nil
	}
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "whetstone-export-*")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil { // it goes with the process
		return err
	}
	hash := sha256.New()
	var reported time.Time
	e.State = Running
	err = s.WriteArchive(ctx, orgID, io.MultiWriter(file, hash), func(rows, blobs int64) error {
		e.Rows, e.Blobs = rows, blobs
		// A write for every row would take longer than the archive.
		if time.Since(reported) < reportInterval {
			return nil
		}
		reported = time.Now()
		_, err := updateExport(ctx, s.DB, e)
		return err
	})
	if err != nil {
		return err
	}
	if e.Size, err = file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	// Stored before the row says so: a crash leaves a blob for the sweep.
	if err := s.Blobs.Put(ctx, e.key(), io.NewSectionReader(file, 0, e.Size), e.Size); err != nil {
		return err
	}
	now := store.Now()
	end := now.Add(Lifetime)
	e.State, e.SHA256, e.FinishedAt, e.ExpiresAt = Done, hex.EncodeToString(hash.Sum(nil)), &now, &end
	there, err := updateExport(ctx, s.DB, e)
	if err != nil {
		return err
	}
	if !there { // the organisation was deleted meanwhile
		// Delete an archive whose row is gone. Another worker may have finished the same
		// export.
		if _, err := exportByID(ctx, s.DB, e.OrgID, e.ID); !fault.Is(err, fault.NotFound) {
			return err
		}
		return s.Blobs.Delete(ctx, e.key())
	}
	return s.dropSuperseded(ctx, orgID)
}

// Why exports fail, for those who wait for them. The log has the rest.
const (
	makeError  = "internal: the archive could not be made; the log of the service says why"
	staleError = "internal: the archive was not made within a day"
)

// giveUp ends an export whose job has used its last attempt, and returns the error of
// that attempt. One that is interrupted because the service stops is tried again.
// Without it an export would be "running" for ever.
func (s *Service) giveUp(ctx context.Context, of makeArchive, cause error) error {
	number, last := jobs.Attempt(ctx)
	if cause == nil || number < last || errors.Is(ctx.Err(), context.Canceled) {
		return cause
	}
	// The job's own context may be over: its timeout may be the cause.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	e, err := exportByID(ctx, s.DB, of.OrgID, of.ExportID)
	if err != nil {
		return errors.Join(cause, err)
	}
	now, reason := store.Now(), makeError
	if f, ok := errors.AsType[*fault.Error](cause); ok && f.Kind != fault.Internal {
		reason = f.Message
	}
	e.State, e.Error, e.FinishedAt = Failed, &reason, &now
	_, err = updateExport(ctx, s.DB, e)
	return errors.Join(cause, err)
}

// dropSuperseded deletes the archives before the newest one. An organisation has one
// archive at most: they are large, and older ones are of no use.
func (s *Service) dropSuperseded(ctx context.Context, orgID string) error {
	old, err := supersededExports(ctx, s.DB, orgID)
	for _, e := range old {
		if err := s.Blobs.Delete(ctx, e.key()); err != nil {
			return err
		}
		if err := deleteExport(ctx, s.DB, e); err != nil {
			return err
		}
	}
	return err
}

// sweep deletes archives that have expired. Blobs go before the rows that name them,
// so that none is left without one.
func (s *Service) sweep(ctx context.Context) error {
	expired, err := expiredExports(ctx, s.DB, store.Now())
	if err != nil {
		return err
	}
	for _, e := range expired {
		if err := s.Blobs.Delete(ctx, e.key()); err != nil {
			return err
		}
		if err := setExpired(ctx, s.DB, e); err != nil {
			return err
		}
	}
	if err := deleteExportsBefore(ctx, s.DB, store.Now().Add(-kept)); err != nil {
		return err
	}
	if err := failStale(ctx, s.DB, store.Now().Add(-stale)); err != nil {
		return err
	}
	// Those without a row.
	_, err = blob.Sweep{Bucket: s.Blobs, Prefix: prefix, MinAge: Lifetime + time.Hour}.Run(ctx)
	return err
}
