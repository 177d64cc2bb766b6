package quota

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service counts what organisations store, and knows how much that may be. A
// nil Service counts and refuses nothing.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Limits Limits
	// Counts say how everything is counted anew.
	Counts []Count
}

// A Count says how the bytes of one kind are counted anew.
type Count struct {
	Kind Kind
	// SQL gives two columns, org_id and bytes, and a row for each organisation
	// that has some.
	SQL string
}

// Usage is what an organisation stores.
type Usage struct {
	Used  int64
	Limit *int64 // nil: none
}

// Usage tells what an organisation stores.
func (s *Service) Usage(ctx context.Context, orgID string) (Usage, error) {
	return s.usage(ctx, s.DB, orgID)
}

// Used tells what each organisation stores that has something.
func (s *Service) Used(ctx context.Context) (map[string]int64, error) { return usedByAll(ctx, s.DB) }

func (s *Service) usage(ctx context.Context, q store.Querier, orgID string) (u Usage, err error) {
	plan, used, err := planAndUsed(ctx, q, orgID)
	u.Used = used
	if limit, ok := s.Limits[plan]; ok {
		u.Limit = &limit
	}
	return u, err
}

// Room refuses bytes that would be refused by Add, before they are stored. The
// error is of kind fault.TooLarge.
func (s *Service) Room(ctx context.Context, orgID string, n int64) error {
	if s == nil {
		return nil
	}
	return s.check(ctx, s.DB, orgID, n)
}

func (s *Service) check(ctx context.Context, q store.Querier, orgID string, n int64) error {
	u, err := s.usage(ctx, q, orgID)
	if err != nil || u.Limit == nil || u.Used+n <= *u.Limit {
		return err
	}
	return fault.New(fault.TooLarge, "The organisation stores %s, and its plan allows %s: there is no room for this."+
		" Delete entries, sources or suites that are not needed, or ask the operator for a higher plan or --quota",
		Bytes(u.Used).Short(), Bytes(*u.Limit).Short())
}

// Add counts the bytes that a transaction stores, or frees if n is negative.
// It refuses what goes over the limit: the error is of kind fault.TooLarge. The
// count stays locked until the transaction ends, so two that store the same
// kind cannot both pass, and it should be the last thing that the transaction
// does. Of two that store different kinds, one may go over the limit.
func (s *Service) Add(ctx context.Context, tx *store.Tx, orgID string, kind Kind, n int64) (err error) {
	defer fault.Wrap(&err, "quota")
	if n == 0 {
		return nil
	}
	if err := addBytes(ctx, tx, orgID, kind, n); err != nil || n < 0 || s == nil {
		return err
	}
	return s.check(ctx, tx, orgID, 0)
}

// recount is the job that counts anew what processes of an older version have
// changed, which count nothing.
type recount struct{}

// Kind names the job.
func (recount) Kind() string { return "quota.recount" }

// Register makes the queue run the job of quotas.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ recount) error { return s.Recount(ctx) })
	s.Jobs.Every(24*time.Hour, recount{})
}

// Recount puts counts right that are wrong.
func (s *Service) Recount(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "recount stored bytes")
	for _, c := range s.Counts {
		wrong, err := countWrong(ctx, s.DB, c)
		if err != nil {
			return err
		}
		if wrong == 0 {
			continue // nobody has to wait
		}
		if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return setBytes(ctx, tx, c) }); err != nil {
			return err
		}
	}
	return nil
}

// Check says whether the counts are right.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]exam.Finding, error) {
	rules := make([]exam.Rule, len(s.Counts))
	for i, c := range s.Counts {
		rules[i] = exam.Rule{
			Broken: wrongBytes(c), Args: []any{c.Kind},
			Wrong: "organisations whose stored bytes of kind " + string(c.Kind) + " were counted wrong",
			Do:    "let the service run for a day: it counts them anew", Mild: true,
		}
	}
	return exam.Check(ctx, q, "quota", rules)
}
