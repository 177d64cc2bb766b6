package quota

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service counts the bytes that organisations store, and enforces the limits of
// their plans. A nil Service has no limits.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Limits Limits
	// Counts are the queries that recount everything.
	Counts []Count
}

// A Count is the query that recounts the bytes of one kind.
type Count struct {
	Kind Kind
	// SQL returns two columns, org_id and bytes, with a row for each organisation
	// that stores something.
	SQL string
}

// Usage is how many bytes an organisation stores, and may store.
type Usage struct {
	Used  int64
	Limit *int64 // nil for none
}

// Usage returns the usage of an organisation.
func (s *Service) Usage(ctx context.Context, orgID string) (Usage, error) {
	plan, used, err := planAndUsed(s.DB.Query(ctx, `
		SELECT o.plan, CAST(COALESCE(SUM(b.bytes), 0) AS BIGINT)
		FROM organisations o LEFT JOIN stored_bytes b ON b.org_id = o.id WHERE o.id = $1 GROUP BY o.plan`, orgID))
	return s.usage(plan, used), err
}

func (s *Service) usage(plan access.Plan, used int64) Usage {
	if limit, ok := s.Limits[plan]; ok {
		return Usage{used, &limit}
	}
	return Usage{Used: used}
}

// Room fails with fault.TooLarge if Add would. It is an early check, before bytes
// are stored, and reserves nothing.
func (s *Service) Room(ctx context.Context, orgID string, n int64) error {
	if s == nil {
		return nil
	}
	u, err := s.Usage(ctx, orgID)
	if err != nil {
		return err
	}
	return u.check(n)
}

// check fails with fault.TooLarge if there is no room for more bytes.
func (u Usage) check(more int64) error {
	if u.Limit == nil || u.Used+more <= *u.Limit {
		return nil
	}
	return fault.New(fault.TooLarge, "The organisation stores %s, and its plan allows %s: there is no room for this."+
		" Delete entries, sources or suites that are not needed, or ask the operator for a higher plan or --quota",
		Bytes(u.Used).Short(), Bytes(*u.Limit).Short())
}

// Add counts the bytes that a transaction stores, or frees if n is negative. Over
// the limit it fails with fault.TooLarge. The count of the kind stays locked until
// the transaction ends, so that two concurrent transactions cannot both use the last
// bytes; therefore Add should be the last statement of a transaction. Two that store
// different kinds lock different rows, and may exceed the limit together.
func (s *Service) Add(ctx context.Context, tx *store.Tx, orgID string, kind Kind, n int64) (err error) {
	defer fault.Wrap(&err, "quota")
	if n == 0 {
		return nil
	}
	plan, used, err := planAndUsed(tx.Query(ctx, `
		INSERT INTO stored_bytes (org_id, kind, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (org_id, kind) DO UPDATE SET bytes = stored_bytes.bytes + excluded.bytes
		RETURNING COALESCE((SELECT o.plan FROM organisations o WHERE o.id = $1), ''), bytes + (
			SELECT CAST(COALESCE(SUM(b.bytes), 0) AS BIGINT) FROM stored_bytes b WHERE b.org_id = $1 AND b.kind <> $2)`,
		orgID, kind, n))
	if err != nil || n < 0 || s == nil {
		return err
	}
	return s.usage(plan, used).check(0)
}

// recount is the job that corrects the counts. They can only be wrong after
// processes of a version that did not count have written.
type recount struct{}

// Kind names the job.
func (recount) Kind() string { return "quota.recount" }

// Register registers the job of quotas.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ recount) error { return s.Recount(ctx) })
	s.Jobs.Every(24*time.Hour, recount{})
}

// Recount corrects wrong counts.
func (s *Service) Recount(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "recount stored bytes")
	for _, c := range s.Counts {
		wrong, err := countWrong(ctx, s.DB, c)
		if err != nil {
			return err
		}
		if wrong == 0 {
			continue // takes no locks
		}
		if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return setBytes(ctx, tx, c) }); err != nil {
			return err
		}
	}
	return nil
}

// Check reports wrong counts to the doctor.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	rules := make([]invariants.Rule, len(s.Counts))
	for i, c := range s.Counts {
		rules[i] = invariants.Rule{
			Broken: wrongBytes(c), Args: []any{c.Kind},
			Wrong: "organisations whose stored bytes of kind " + string(c.Kind) + " were counted wrong",
			Do:    "let the service run for a day: it counts them anew", Mild: true,
		}
	}
	return invariants.Check(ctx, q, "quota", rules)
}
