package approvals

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// Service takes the answers of people, and knows what they amount to. The entry is locked
// whenever an answer is written, so counting answers needs no other lock.
type Service struct {
	Tally
	DB       *store.DB
	Jobs     *jobs.Queue
	Registry *registry.Service
	Gates    *gates.Service
	Watcher  release.Watcher // may be nil
}

// Tally counts answers. It needs no gates, so that these can be given it.
type Tally struct{ Approvers Approvers }

// They bound what one version can cost, in the database and on its page.
const (
	maxComment  = 4_000 // characters
	maxAnswers  = 500   // of a version, with its comments
	maxReplaced = 20    // earlier decisions of a person that a version keeps
	maxWaiting  = 200
)

// Missing implements gates.Approvals.
func (t Tally) Missing(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error) {
	r, err := t.tally(ctx, q, e, v)
	return r.missing(), err
}

// Promoting answers for a person who promotes a version: for an admin the current policy
// counts, also where it was lowered while the version waited. Owners are bound by the stricter
// of the two policies; see gates.PolicyFor.
type Promoting struct{ Tally }

// Missing implements release.Approvals.
func (p Promoting) Missing(
	ctx context.Context, q store.Querier, e registry.Entry, v registry.Version, byOwner bool,
) (string, error) {
	if byOwner {
		return p.Tally.Missing(ctx, q, e, v)
	}
	policy, err := gates.PolicyIn(ctx, q, e)
	if err != nil {
		return "", err
	}
	r, err := p.tallyBy(ctx, q, e, v, policy)
	return r.missing(), err
}

// tally counts the answers to a version by the policy that it must meet. The answer of a
// person who was removed, or may not approve any more, does not count.
func (t Tally) tally(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (r Review, err error) {
	p, err := gates.PolicyFor(ctx, q, e, v)
	if err != nil {
		return r, err
	}
	return t.tallyBy(ctx, q, e, v, p)
}

// tallyBy is tally by a given policy. It sets Counts of each answer.
func (t Tally) tallyBy(
	ctx context.Context, q store.Querier, e registry.Entry, v registry.Version, p gates.Policy,
) (r Review, err error) {
	r = Review{Entry: e, Version: v, Needed: p.Approvals, SelfApproval: p.SelfApproval, HostReviews: p.HostReviews}
	if r.Answers, err = answersTo(ctx, q, v.ID); err != nil {
		return r, err
	}
	// A rejection counts whoever published the version: one may always stop one's own.
	for i := range r.Answers {
		a := &r.Answers[i]
		if a.Replaced || a.Decision == Comment || a.User.RemovedAt != nil ||
			a.Decision == Approve && !p.SelfApproval && (PublishedBy(v, a.User.ID) || a.Review != nil && a.Review.Own) ||
			a.Review != nil && !p.HostReviews {
			continue
		}
		who := access.Caller{OrgID: e.OrgID, UserID: a.User.ID, Role: a.User.Role}
		if a.Counts, err = t.Approvers.MayApprove(ctx, q, e.ID, who); err != nil {
			return r, err
		}
		switch {
		case a.Counts && a.Decision == Approve:
			r.Given++
		case a.Counts:
			r.Rejected++
		}
	}
	return r, nil
}

// Review returns what people said about a version of an entry of the organisation.
func (s *Service) Review(ctx context.Context, orgID, entryID, version string) (r Review, err error) {
	defer fault.Wrap(&err, "review of version %s of entry %s", version, entryID)
	e, err := s.Registry.Own(ctx, orgID, entryID)
	if err != nil {
		return r, err
	}
	v, err := s.Registry.VersionNamed(ctx, s.DB, e, version)
	if err != nil {
		return r, err
	}
	return s.review(ctx, s.DB, e, v)
}

// review adds to the tally what the pull request shows and what the gate says.
func (s *Service) review(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (Review, error) {
	r, err := s.tally(ctx, q, e, v)
	if err != nil {
		return r, err
	}
	if seen, err := sightingOf(ctx, q, v.ID); err != nil {
		return r, err
	} else if r.HostReviews && seen.Found.Number != 0 {
		r.Pull = &seen.Found
	}
	if v.State != registry.Candidate {
		return r, nil
	}
	r.Waits, err = s.Gates.Waits(ctx, q, e, v)
	return r, err
}

// MayAnswer reports whether the caller may approve or reject a version, and otherwise
// says why not. Pages ask it, too, to show the buttons only where they work.
func (s *Service) MayAnswer(ctx context.Context, q store.Querier, c access.Caller, r Review, d Decision) error {
	if !auth.Person(c) {
		return fault.New(fault.Denied, "Only people approve: sign in, or use a key of your own with all permissions of your role")
	}
	if ok, err := s.Approvers.MayApprove(ctx, q, r.Entry.ID, c); err != nil {
		return err
	} else if !ok {
		return fault.New(fault.Denied, "You may not approve versions of %s: its owners may, or admins if it has none",
			r.Entry.Name)
	}
	if d == Approve && PublishedBy(r.Version, c.UserID) && !r.SelfApproval {
		return fault.New(fault.Denied, "You published version %s: another person must approve it", r.Version.Version)
	}
	return nil
}

// Answer records the decision of a person about a candidate, in place of an earlier
// one, and makes the candidate current if nothing else is missing. Saying the same thing again
// isn't an error and writes nothing.
func (s *Service) Answer(
	ctx context.Context, c access.Caller, entryID, version string, d Decision, comment string,
) (r Review, err error) {
	defer fault.Wrap(&err, "answer to version %s of entry %s", version, entryID)
	comment = strings.TrimSpace(comment)
	if d != Approve && d != Reject {
		return r, fault.Invalid("decision", "decision must be approve or reject")
	}
	if issues := registry.CheckText("comment", comment, maxComment); len(issues) > 0 {
		return r, fault.Issues(issues...)
	}
	err = s.change(ctx, c, entryID, version, func(tx *store.Tx, e registry.Entry, v registry.Version) error {
		before, err := s.tally(ctx, tx, e, v)
		if err != nil {
			return err
		}
		if err := s.MayAnswer(ctx, tx, c, before, d); err != nil {
			return err
		}
		// Settle all the same: something else may have stopped it the last time.
		if !before.has(c.UserID, d, comment) {
			a := newAnswer(c, v, d, comment)
			if err := replaceAnswers(ctx, tx, a); err != nil {
				return err
			}
			if err := a.insert(ctx, tx, e, v); err != nil {
				return err
			}
		}
		if d == Approve {
			if err := s.settle(ctx, tx, e, v, comment); err != nil {
				return err
			}
		}
		r, err = s.reviewNow(ctx, tx, e, v)
		return err
	})
	return r, err
}

// has reports whether a person's standing decision is this one, made here. A review on the code
// host isn't: saying it here makes it independent of that.
func (r Review) has(userID string, d Decision, comment string) bool {
	for _, a := range r.Standing() {
		if a.User.ID == userID {
			return a.Decision == d && deref(a.Comment) == comment && a.Review == nil
		}
	}
	return false
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// newAnswer returns an answer of the caller. An empty comment becomes nil.
func newAnswer(c access.Caller, v registry.Version, d Decision, comment string) Answer {
	a := Answer{
		ID: store.NewID(), OrgID: v.OrgID, EntryID: v.EntryID, VersionID: v.ID, Decision: d, CreatedAt: store.Now(),
	}
	a.User.ID = c.UserID
	if comment != "" {
		a.Comment = &comment
	}
	return a
}

// settle makes a candidate current if nothing else is missing.
func (s *Service) settle(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, comment string) error {
	waits, err := s.Gates.Settle(ctx, tx, e, v)
	if err != nil || waits != "" {
		return err
	}
	return s.released(ctx, tx, e, v, "approved", comment)
}

// insert writes an answer, and an entry of the audit log about it. The audit log gets the
// beginning of the comment only.
func (a Answer) insert(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version) error {
	if err := insertAnswer(ctx, tx, a); err != nil {
		return err
	}
	action := map[Decision]string{
		Approve: "approvals.version.approve", Reject: "approvals.version.reject", Comment: "approvals.version.comment",
	}[a.Decision]
	return e.Record(ctx, tx, action, audit.Detail{
		"version": v.Version, "content_hash": v.ContentHash, "comment": text.Ellipsis(deref(a.Comment), 200), "review": a.Review,
	})
}

// AddComment adds to the conversation about a candidate, and decides nothing. Anybody who may
// write in the organisation may comment, also without the right to approve.
func (s *Service) AddComment(ctx context.Context, c access.Caller, entryID, version, comment string) (r Review, err error) {
	defer fault.Wrap(&err, "comment on version %s of entry %s", version, entryID)
	comment = strings.TrimSpace(comment)
	issues := registry.CheckText("comment", comment, maxComment)
	if comment == "" {
		issues = []fault.Issue{fault.At("comment", "comment is required")}
	}
	if len(issues) > 0 {
		return r, fault.Issues(issues...)
	}
	err = s.change(ctx, c, entryID, version, func(tx *store.Tx, e registry.Entry, v registry.Version) error {
		n, err := countAnswers(ctx, tx, v.ID)
		if err != nil {
			return err
		}
		if n >= maxAnswers {
			return fault.New(fault.Conflict, "Version %s has %d comments, the maximum", v.Version, n)
		}
		if err := newAnswer(c, v, Comment, comment).insert(ctx, tx, e, v); err != nil {
			return err
		}
		r, err = s.review(ctx, tx, e, v)
		return err
	})
	return r, err
}

// Override makes a candidate current without the approvals that it lacks, or against a
// rejection. It is a conflict while the gate keeps the candidate back. Nothing of it is stored
// in version_approvals: the audit log has who, why, and the count then.
func (s *Service) Override(ctx context.Context, c access.Caller, entryID, version, reason string) (r Review, err error) {
	defer fault.Wrap(&err, "override the approvals of version %s of entry %s", version, entryID)
	if err := release.CheckReason(reason); err != nil {
		return r, err
	}
	err = s.change(ctx, c, entryID, version, func(tx *store.Tx, e registry.Entry, v registry.Version) error {
		if !auth.Person(c) {
			return fault.New(fault.Denied, "Only people override approvals: sign in, or use a key of your own with all permissions of your role")
		}
		before, err := s.tally(ctx, tx, e, v)
		if err != nil {
			return err
		}
		waits, err := s.Gates.SettleUnapproved(ctx, tx, e, v, reason)
		if err != nil {
			return err
		}
		if waits != "" {
			return fault.New(fault.Conflict, "Version %s also waits for something else: %s", v.Version, waits)
		}
		err = e.Record(ctx, tx, "approvals.version.override", audit.Detail{
			"version": v.Version, "content_hash": v.ContentHash, "reason": reason, "approvals": before.Given,
			"rejections": before.Rejected, "needed": before.Needed,
		})
		if err != nil {
			return err
		}
		if err := s.released(ctx, tx, e, v, "promoted", reason); err != nil {
			return err
		}
		r, err = s.reviewNow(ctx, tx, e, v)
		return err
	})
	return r, err
}

// released tells the watcher that people made a version current.
func (s *Service) released(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, decision, reason string,
) error {
	if s.Watcher == nil {
		return nil
	}
	return s.Watcher.VersionDecided(ctx, tx, e, v, decision, reason)
}

// reviewNow is review of a version that may have become current. The entry and version in hand
// are from before, and would show the old state.
func (s *Service) reviewNow(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version) (r Review, err error) {
	if e, err = s.Registry.Lock(ctx, tx, e.OrgID, e.ID); err != nil {
		return r, err
	}
	if v, err = s.Registry.VersionByID(ctx, tx, e, v.ID); err != nil {
		return r, err
	}
	return s.review(ctx, tx, e, v)
}

// change calls fn with a candidate and its entry, which is locked: of two approvals at
// the same time, on whatever replica, the later one counts the earlier.
func (s *Service) change(
	ctx context.Context, c access.Caller, entryID, version string,
	fn func(tx *store.Tx, e registry.Entry, v registry.Version) error,
) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, c.OrgID, entryID)
		if err != nil {
			return err
		}
		v, err := s.Registry.VersionNamed(ctx, tx, e, version)
		if err != nil {
			return err
		}
		if v.State != registry.Candidate {
			return fault.New(fault.Conflict, "Version %s is %s, not a candidate: there is nothing to decide", v.Version, v.State)
		}
		return fn(tx, e, v)
	})
}

// Waiting lists the candidates that the caller may approve and has not decided about,
// newest first. It is empty for keys of programs. Whether the gate still keeps a candidate back
// doesn't matter: people may review meanwhile.
func (s *Service) Waiting(ctx context.Context, c access.Caller) (all []Review, err error) {
	defer fault.Wrap(&err, "what waits for approval")
	if !auth.Person(c) {
		return nil, nil
	}
	found, err := candidatesWithout(ctx, s.DB, c)
	if err != nil {
		return nil, err
	}
	versions := make([]registry.Version, len(found))
	for i, w := range found {
		versions[i] = w.version
	}
	policies, err := gates.PoliciesFor(ctx, s.DB, c.OrgID, versions)
	if err != nil {
		return nil, err
	}
	for _, w := range found {
		p := policies[w.version.ID]
		r := Review{Entry: w.entry, Version: w.version, Needed: p.Approvals, SelfApproval: p.SelfApproval, Given: w.approvals}
		// It waits for its gate alone.
		if r.Needed == 0 {
			continue
		}
		switch err := s.MayAnswer(ctx, s.DB, c, r, Approve); {
		case err == nil:
			all = append(all, r)
		case !fault.Is(err, fault.Denied):
			return nil, err
		}
	}
	return all, nil
}
