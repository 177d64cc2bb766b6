package grades

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// maxAttempts is how often a session is judged whose verdict is not usable.
const maxAttempts = 3

// maxQuotation is how many bytes of a quotation are stored.
const maxQuotation = 600

// judgeSession lets the judge grade a session. It reports whether that is done: the
// session is graded, or cannot be. Without a verdict the session stays ungraded,
// whatever the reason; it is never a fail.
func (b *bench) judgeSession(ctx context.Context, w waiting, name string, g Grader, of sessions.Session) (done bool, err error) {
	if b.Transcripts == nil || b.Judge.Describe().RouteOnly || len(g.Expectations) == 0 {
		return true, nil
	}
	if b.down {
		return false, b.postpone(ctx, []waiting{w}, store.Now().Add(outage))
	}
	material, kept, err := b.Transcripts.Transcript(ctx, b.orgID, w.sessionHash)
	switch {
	case err != nil && ctx.Err() == nil: // the others shall not wait for this one
		b.Log.WarnContext(ctx, "a session cannot be read", "session", w.sessionHash, "error", err)
		return b.tryAgain(ctx, w)
	case err != nil || !kept:
		return err == nil, err
	}
	ask := judge.GradeRequest{
		Task: fmt.Sprintf("A session of an agent that used the skill %s. The material is the transcript of the session: "+
			"headings say who spoke, and what was said is indented below them.", name),
		Criteria: g.Expectations, Material: material,
	}
	prices, err := b.prices(ctx)
	if err != nil {
		return false, err
	}
	claimed, err := b.reserve(ctx, w, g, estimate(prices, b.Judge.Describe().Model, ask))
	switch {
	case errors.Is(err, errSpent):
		tomorrow := store.Now().Truncate(24*time.Hour).AddDate(0, 0, 1)
		return false, b.postpone(ctx, []waiting{w}, tomorrow)
	case err != nil || claimed == nil:
		return false, err // another process has it
	}
	got, err := b.Judge.Grade(ctx, ask)
	used := got.Record
	if failed, ok := errors.AsType[*judge.Error](err); ok {
		used = failed.Record
	}
	if settled := b.settle(ctx, *claimed, prices, used); settled != nil {
		return false, settled
	}
	if err != nil {
		return b.noVerdict(ctx, w, err)
	}
	return true, b.recordVerdict(ctx, w, name, g, of, got)
}

// noVerdict decides when a session without a verdict is judged again, if ever.
func (b *bench) noVerdict(ctx context.Context, w waiting, cause error) (done bool, err error) {
	switch code := judge.CodeOf(cause); {
	case code == "":
		return false, cause // e.g. the process ends
	case code == judge.Unavailable, code == judge.Timeout, judge.MustStop(cause):
		b.Log.WarnContext(ctx, "the judge cannot grade sessions", "error", cause)
		b.down = true
		return false, b.postpone(ctx, []waiting{w}, store.Now().Add(outage))
	}
	if err := b.unusable(ctx, w); err != nil {
		return false, err
	}
	return b.tryAgain(ctx, w)
}

// unusable takes a session without a usable verdict out of the pass rate. Falling back to
// its outcomes would let text that confuses the judge turn a fail into a pass.
func (b *bench) unusable(ctx context.Context, w waiting) error {
	return b.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := skills.LockUser(ctx, tx, w.userID); err != nil {
			return err
		}
		if exists, err := b.Sessions.Exists(ctx, tx, w.sessionHash); err != nil || !exists {
			return err
		}
		if err := insertUnusable(ctx, tx, w, store.Now()); err != nil {
			return err
		}
		id := gradeID(w.orgID, "", basis.Outcome, w.sessionHash, w.skillID)
		before, err := evidenceOf(ctx, tx, id)
		if err != nil || before == nil {
			return err
		}
		return b.withdraw(ctx, tx, w.orgID, w.userID, id)
	})
}

// tryAgain puts a session back into the queue, unless it was tried often enough.
func (b *bench) tryAgain(ctx context.Context, w waiting) (done bool, err error) {
	if w.attempts++; w.attempts >= maxAttempts {
		return true, nil
	}
	return false, b.postpone(ctx, []waiting{w}, store.Now().Add(retry))
}

func (b *bench) recordVerdict(
	ctx context.Context, w waiting, name string, g Grader, of sessions.Session, got judge.Grading,
) error {
	rec := got.Record
	rec.Raw = "" // it quotes the session
	made := grade{
		id:    gradeID(w.orgID, "", basis.Judge, w.sessionHash, w.skillID),
		orgID: w.orgID, userID: w.userID, sessionHash: w.sessionHash, skillID: w.skillID, skillName: name,
		basis: basis.Judge, passRate: int64(math.Round(got.Score * billion)), judge: &rec,
		sessionAt: of.LastAt,
	}
	made.passed = reaches(made.passRate, g.Threshold)
	for i, r := range got.Results {
		made.evidence = append(made.evidence, evidence{g.Expectations[i], r.Passed, text.Truncate(r.Evidence, maxQuotation)})
	}
	made.failures = made.reasons()
	return b.DB.InTx(ctx, func(tx *store.Tx) (err error) {
		if made.at, err = lockedNow(ctx, tx, made.userID, made.id); err != nil {
			return err
		}
		// The session or its content may have been deleted meanwhile, and nothing may
		// outlive them.
		if exists, err := b.Sessions.Exists(ctx, tx, w.sessionHash); err != nil || !exists {
			return err
		}
		kept, err := b.Transcripts.Hold(ctx, tx, w.orgID, w.sessionHash)
		if err != nil {
			return err
		}
		if !kept {
			for i := range made.evidence {
				made.evidence[i].quotation = ""
			}
		}
		if err := deleteUnusable(ctx, tx, w); err != nil {
			return err
		}
		return b.record(ctx, tx, made)
	})
}

// errSpent means that the grader's budget of today is used up.
var errSpent = errors.New("the budget of the grader is spent")

// A claim is what a session, or a prompt for labels, takes from a grader's budget.
type claim struct {
	grader, skillID string
	day             int64
	used            usage
}

// usage is what a grader has used of its budget.
type usage struct {
	judged int64 // sessions
	labels int64 // prompts for labels
	calls  int64 // requests to the model
	micros int64 // their cost in millionths of a dollar, as far as it is known
}

// newClaim returns a claim of the grader of a skill on today's budget.
func newClaim(g Grader, skillID string, used usage) claim {
	c := claim{skillID: skillID, day: store.Now().Unix() / (24 * 60 * 60), used: used}
	if !g.Inherited {
		c.grader = skillID
	}
	return c
}

// allows reports whether a grader may use so much in a day: of money on all of its
// skills, of the rest on each.
func (g Grader) allows(used usage) bool {
	if n := g.SamplePerDay; n != nil && (used.judged > int64(*n) || used.labels > int64(*n)) {
		return false
	}
	return used.labels <= maxLabelPrompts && (g.MaxCostUSD == nil || used.micros <= *micros(g.MaxCostUSD))
}

// callsPerGrading is how many requests the judge makes for a session at most,
// without retries.
const callsPerGrading = 2

// reserve takes a session off the queue for a while, and what judging it may cost
// out of the budget, so that neither a crash nor another process exceeds it. It
// returns nil if another process has the session.
func (b *bench) reserve(ctx context.Context, w waiting, g Grader, expected int64) (*claim, error) {
	c := newClaim(g, w.skillID, usage{judged: 1, calls: callsPerGrading, micros: expected})
	taken := false
	err := b.DB.InTx(ctx, func(tx *store.Tx) (err error) {
		if taken, err = claimQueued(ctx, tx, w, store.Now(), store.Now().Add(runTime)); err != nil || !taken {
			return err
		}
		return b.spend(ctx, tx, g, c)
	})
	if err != nil || !taken {
		return nil, err
	}
	return &c, nil
}

// spend takes a claim out of the budget. The error is errSpent if it is too much.
func (b *bench) spend(ctx context.Context, tx *store.Tx, g Grader, c claim) error {
	used, err := addUsage(ctx, tx, b.orgID, c)
	if err == nil && !g.allows(used) {
		return errSpent
	}
	return err
}

// settle corrects the budget by what the judge has used.
func (b *bench) settle(ctx context.Context, c claim, prices pricing.Table, made judge.Record) error {
	c.used = usage{
		calls:  int64(made.Attempts) - c.used.calls,
		micros: cost(prices, made.Model, made.InputTokens, made.OutputTokens) - c.used.micros,
	}
	return b.DB.InTx(ctx, func(tx *store.Tx) error {
		_, err := addUsage(ctx, tx, b.orgID, c)
		return err
	})
}

// prices returns what models cost for the organisation.
func (b *bench) prices(ctx context.Context) (pricing.Table, error) {
	own, err := b.Costs.OwnPrices(ctx, b.orgID)
	return b.Costs.Prices.Before(own), err
}

// cost returns what tokens cost in millionths of a dollar; 0 if no price is known,
// so that only the sample limits a model of one's own.
func cost(prices pricing.Table, model string, input, output int64) int64 {
	price, ok := prices.Lookup(model, store.Now())
	if !ok {
		return 0
	}
	micros, ok := price.Micros(pricing.Tokens{Input: input, Output: output})
	if !ok {
		return math.MaxInt32
	}
	return micros
}

// estimate returns what a grading costs at most, without retries: the material once,
// the criteria twice.
func estimate(prices pricing.Table, model string, ask judge.GradeRequest) int64 {
	const bytesPerToken, prompts, perCriterion = 3, 1200, 200
	size := min(len(ask.Material), 32_000*bytesPerToken)
	for _, c := range ask.Criteria {
		size += 2 * len(c)
	}
	n := int64(len(ask.Criteria))
	return cost(prices, model, int64(size/bytesPerToken)+prompts+n*perCriterion, n*perCriterion)
}
