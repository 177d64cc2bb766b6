package content

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Erase deletes all content of a user's sessions. It must run in the transaction
// that deletes the sessions.
func (s *Service) Erase(ctx context.Context, tx *store.Tx, userID string) error {
	return s.delete(ctx, tx, `user_id = $1`, userID)
}

// Forget deletes the content of sessions. Sessions without content are no error.
func (s *Service) Forget(ctx context.Context, tx *store.Tx, sessions []string) error {
	in, list := tx.Dialect().In("$1", sessions)
	return s.delete(ctx, tx, `id`+in, list)
}

// delete deletes the content of the sessions that match a condition on $1.
func (s *Service) delete(ctx context.Context, tx *store.Tx, condition string, arg any) error {
	freed, err := deleteSessions(ctx, tx, condition, arg)
	if err != nil {
		return err
	}
	return s.release(ctx, tx, freed)
}

// release gives bytes back to the quotas of organisations.
func (s *Service) release(ctx context.Context, tx *store.Tx, freed map[string]int64) error {
	for _, orgID := range sortedKeys(freed) { // a fixed lock order avoids deadlocks
		if err := s.Quota.Add(ctx, tx, orgID, quota.Evidence, -freed[orgID]); err != nil {
			return err
		}
	}
	return nil
}

// retain is the job that enforces the retention. Hourly, so that a text outlives its
// retention by an hour at most.
type retain struct{}

// Kind names the job.
func (retain) Kind() string { return "evidence.retain" }

// Register makes the queue run the job of content.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ retain) error { return s.expire(ctx, store.Now().Add(-s.Retention)) })
	s.Jobs.Every(time.Hour, retain{})
}

// expireChunk is how many texts one transaction deletes.
const expireChunk = 500

// expire deletes the texts that were received before a time.
func (s *Service) expire(ctx context.Context, before time.Time) (err error) {
	defer fault.Wrap(&err, "expire content")
	// One entry per organisation and run, however many chunks it takes.
	recorded := map[string]bool{} // organisations with an audit entry
	for more := true; more; {
		var freed map[string]int64
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			old, err := textsBefore(ctx, tx, before, expireChunk)
			if more = len(old) == expireChunk; err != nil || len(old) == 0 {
				return err
			}
			if freed, err = deleteTexts(ctx, tx, old); err != nil {
				return err
			}
			for _, orgID := range sortedKeys(freed) {
				if recorded[orgID] {
					continue
				}
				err := audit.Record(ctx, tx, audit.Entry{
					OrgID: orgID, Action: "evidence.content.expire", Target: audit.Target{Kind: "organisation", ID: orgID},
					Detail: audit.Detail{"received_before": before},
				})
				if err != nil {
					return err
				}
			}
			return s.release(ctx, tx, freed)
		})
		if err != nil {
			return err
		}
		for orgID := range freed {
			// Only after the commit: a rolled back chunk has recorded nothing.
			recorded[orgID] = true
		}
	}
	if s.Quotations == nil {
		return nil
	}
	return s.Quotations.DropQuotations(ctx, s.DB, "", before)
}

// resealChunk is how many texts one transaction encrypts anew.
const resealChunk = 500

// Reseal encrypts with the keyring's first key every text that another key
// encrypted, in chunks, and returns their number. A text that the keyring cannot
// decrypt is an error. It may be stopped and started again: what is done is not done
// twice.
func (s *Service) Reseal(ctx context.Context) (count int, err error) {
	defer fault.Wrap(&err, "reseal content")
	for more := true; more; {
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			old, err := lockTextsOfOtherKeys(ctx, tx, s.Seal.KeyIDs()[0], resealChunk)
			if more = len(old) == resealChunk; err != nil || len(old) == 0 {
				return err
			}
			for i := range old {
				if old[i].sealed, _, err = s.Seal.Renew(old[i].sealed, old[i].place()); err != nil {
					return err
				}
				old[i].keyID = s.Seal.KeyIDs()[0]
			}
			count += len(old)
			return updateSealed(ctx, tx, old)
		})
		if err != nil {
			return count, err
		}
	}
	return count, nil
}
