package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// A Pull is a pull request into the repository of a connection, and what its head
// means for the connection's skill. Several connections of one repository each have a Pull of
// the same number.
type Pull struct {
	ID           string
	OrgID        string
	ConnectionID string
	EntryID      string
	RepoID       int64
	Number       int64
	Title        string
	URL          string
	Head         string // the commit that the status is about; "" before one was read
	Status       Status
	Message      string
	Findings     []publication.Finding
	SourceID     *string // holds the files of the head while it is gated
	GateID       *string
	Again        bool // another gate of the same head was requested
	Tries        int  // at the code host, since it last answered

	// Asked is a version number: a report that ends after another was asked for doesn't
	// overwrite that.
	Asked           int // how often a write-back was asked for
	WriteBack       publication.WriteBackStatus
	WriteBackDetail string
	WriteBackTries  int
	// Reported is head and gate, e.g. "5f0c.../0192..."; another head gets another check-run.
	Reported        string // what the check-run is about
	CheckRunID      *string
	AnnotationsSent int
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// A Status is what is known about the head of a pull request.
type Status string

// The statuses.
const (
	Queued    Status = "queued"
	Gating    Status = "gating"
	Decided   Status = "decided"   // by the gate
	Valid     Status = "valid"     // and the gate is off
	Refused   Status = "refused"   // by the validation
	Unchanged Status = "unchanged" // the folder of the skill is not changed
	Skipped   Status = "skipped"   // a draft, a fork, or another branch
	Failed    Status = "failed"    // the code host did not answer
	Closed    Status = "closed"
)

// PullChanged implements repohost.OnPull: a job asks the code host what the pull
// request is now. What the webhook says is not stored: events arrive late and out of order.
func (s *Service) PullChanged(ctx context.Context, tx *store.Tx, c repohost.Connection, number int64) error {
	id, err := upsertPull(ctx, tx, Pull{
		ID: store.NewID(), OrgID: c.OrgID, ConnectionID: c.ID, EntryID: c.EntryID, RepoID: c.RepoID, Number: number,
	})
	if err != nil {
		return err
	}
	return s.enqueue(ctx, tx, id, c.OrgID)
}

// RerunPulls implements repohost.OnRerun.
func (s *Service) RerunPulls(ctx context.Context, tx *store.Tx, c repohost.Connection, r host.Rerun) (count int, err error) {
	all, err := pullsOfCommit(ctx, tx, c.ID, r.Commit)
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		// The external id of a check begins with ours; see post. Other skills of the commit go
		// on as they are.
		if r.ExternalID != "" && !strings.HasPrefix(r.ExternalID, p.ID) {
			continue
		}
		count++
		if err := setAgain(ctx, tx, p.ID); err != nil {
			return count, err
		}
		if err := s.enqueue(ctx, tx, p.ID, c.OrgID); err != nil {
			return count, err
		}
	}
	return count, nil
}

// DeleteOfConnection implements repohost.OnDisconnect. Nobody could write to the code host after it,
// so checks that are pending stay as they are.
func (s *Service) DeleteOfConnection(ctx context.Context, tx *store.Tx, c repohost.Connection) error {
	held, err := sourcesOfConnection(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	for _, id := range held {
		if err := s.drop(ctx, tx, c.OrgID, id); err != nil {
			return err
		}
	}
	return deletePulls(ctx, tx, c.ID)
}

// DeleteOfEntry implements registry.OnEntryDeleted. The gates go with the entry, too; a
// check-run that waits for one is ended.
func (s *Service) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	open, err := openPullsOfEntry(ctx, tx, entryID)
	if err != nil {
		return err
	}
	for _, p := range open {
		if err := s.abandon(ctx, tx, p); err != nil {
			return err
		}
	}
	return nil
}

// abandon closes a pull request whose entry is deleted.
func (s *Service) abandon(ctx context.Context, tx *store.Tx, p Pull) error {
	if p.SourceID != nil {
		if err := s.drop(ctx, tx, p.OrgID, *p.SourceID); err != nil {
			return err
		}
	}
	if p.Status != Gating {
		p.GateID = nil
	}
	p.Status, p.Message, p.SourceID, p.Again = Closed, entryDeleted, nil, false
	return s.save(ctx, tx, p)
}

const entryDeleted = "The entry was deleted"

// gateChanged follows the gate of a pull request's head. An older gate says
// nothing any more. The refusal of an open gate rolls back its transaction: the head changed
// while it was opened.
func (s *Service) gateChanged(ctx context.Context, tx *store.Tx, g gates.Gate) error {
	p, err := pullByID(ctx, tx, g.Pull.ID, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) && !g.Status.Open() {
		return nil // its connection is gone
	}
	if err != nil {
		return err
	}
	switch {
	case g.Status.Open() && (p.Head != g.Pull.Commit || p.Status == Closed):
		return fault.New(fault.Conflict, "Pull request %d is closed, or has another head than %.7s", p.Number, g.Pull.Commit)
	case g.Status.Open():
		p.GateID, p.Status, p.Message = &g.ID, Gating, "The gate is running"
	case p.GateID == nil || *p.GateID != g.ID:
		return nil
	case p.Status == Gating && g.Status == gates.Decided:
		p.Status, p.Message = Decided, capital(outcome.Title(g.Output()))
	}
	return s.save(ctx, tx, p)
}

// save writes a pull request, and makes the code host say so.
func (s *Service) save(ctx context.Context, tx *store.Tx, p Pull) error {
	if err := updatePull(ctx, tx, p); err != nil {
		return err
	}
	if err := s.Jobs.Enqueue(ctx, tx, report{PullID: p.ID}, jobs.Unique(p.ID), repohost.MaxRuns(),
		jobs.For(p.OrgID)); err != nil {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, p.comment(), jobs.Unique(p.comment().id()), repohost.MaxRuns(), jobs.For(p.OrgID))
}

// comment is the job that writes the comment on the pull request.
func (p Pull) comment() comment { return comment{OrgID: p.OrgID, RepoID: p.RepoID, Number: p.Number} }

// hold calls fn with a pull request that no other worker has, and its connection.
// One that was deleted needs nothing.
func (s *Service) hold(
	ctx context.Context, id string, fn func(held *repohost.Lease, c repohost.Connection, p Pull) error,
) (err error) {
	defer fault.Wrap(&err, "pull request %s", id)
	held, acquired, err := repohost.AcquireLease(ctx, s.DB, repohost.Pulls, id)
	if err != nil {
		return err
	}
	defer held.Release(ctx, s.Log)
	p, err := pullByID(ctx, s.DB, id, "")
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !acquired {
		return jobs.Snooze(repohost.LeasePoll)
	}
	c, err := s.Repohost.ConnectionByID(ctx, s.DB, p.ConnectionID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fn(held, c, p)
}

// advance brings a pull request up to date with the code host.
func (s *Service) advance(ctx context.Context, held *repohost.Lease, c repohost.Connection, p Pull) error {
	cause := s.follow(ctx, c, p, held)
	if cause == nil || ctx.Err() != nil {
		return cause
	}
	p, err := pullByID(ctx, s.DB, p.ID, "")
	if err != nil {
		return err
	}
	p.Tries++
	if again := s.Repohost.RetryLater(cause, p.Tries); again != nil {
		return errors.Join(setTries(ctx, s.DB, p), again)
	}
	p.Status, p.Message, p.Tries = Failed, repohost.UserMessage(cause), 0
	return s.store(ctx, p)
}

// store is save in a transaction of its own.
func (s *Service) store(ctx context.Context, p Pull) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error { return s.save(ctx, tx, p) })
}

// follow reads a pull request, and gates its head if that is new.
func (s *Service) follow(ctx context.Context, c repohost.Connection, p Pull, held *repohost.Lease) error {
	if _, err := s.Registry.Own(ctx, p.OrgID, p.EntryID); fault.Is(err, fault.NotFound) {
		if p.Status == Closed {
			return nil
		}
		return s.DB.InTx(ctx, func(tx *store.Tx) error { return s.abandon(ctx, tx, p) })
	}
	repo, err := s.Repohost.RepoOf(ctx, c)
	if err != nil {
		return err
	}
	now, err := s.Repohost.Host.Pull(ctx, repo, p.Number)
	if errors.Is(err, host.ErrUnsupported) {
		return s.leave(ctx, p, Closed, "The code host has no pull requests", "the code host has no pull requests")
	}
	if fault.Is(err, fault.NotFound) {
		const gone = "The code host does not show it: it was deleted, or the permission to read pull requests is missing"
		return s.leave(ctx, p, Closed, gone, "the code host does not show the pull request")
	}
	if err != nil {
		return err
	}
	p.Title, p.URL, p.Tries = now.Title, now.URL, 0
	mode, err := s.Repohost.ModeFor(ctx, s.DB, c)
	if err != nil {
		return err
	}
	reason := notGated(c, mode, now)
	switch {
	case now.Closed && p.Status == Closed:
		return nil
	case now.Closed:
		return s.leave(ctx, p, Closed, "Closed or merged", "the pull request was closed")
	case reason != "" && p.Status == Skipped && p.Head == now.Head && p.Message == reason:
		return nil
	case reason != "":
		p.Head = now.Head
		return s.leave(ctx, p, Skipped, reason, reason)
	case p.Head == now.Head && slices.Contains([]Status{Gating, Decided, Valid, Refused, Unchanged}, p.Status) && !p.Again:
		return setPullText(ctx, s.DB, p)
	}
	if p.Head != now.Head || p.SourceID == nil {
		fresh := store.NewID()
		if err := s.begin(ctx, &p, now.Head, fresh); err != nil {
			return err
		}
	}
	return s.gate(ctx, c, repo, p, held)
}

// notGated says why a pull request is not gated; "" if it is.
func notGated(c repohost.Connection, mode repohost.Mode, p host.Pull) string {
	switch {
	case mode == repohost.ModeOff:
		return "Nothing is written back"
	case p.Base != c.DefaultBranch:
		return fmt.Sprintf("Only pull requests into %s are gated", c.DefaultBranch)
	case p.Draft:
		return "A draft is gated when it is ready for review"
	case c.PullRequests == repohost.NoPulls:
		return "The connection gates no pull requests"
	case p.Fork && c.PullRequests != repohost.AllPulls:
		return "The connection gates no pull requests of forks"
	}
	return ""
}

// leave ends what is done for a pull request: its gate, and the files that it held.
func (s *Service) leave(ctx context.Context, p Pull, status Status, message, reason string) error {
	return s.change(ctx, p, func(tx *store.Tx, _ registry.Entry) error {
		if err := s.Gates.SupersedePull(ctx, tx, p.EntryID, p.ID, reason); err != nil {
			return err
		}
		if p.SourceID != nil {
			if err := s.drop(ctx, tx, p.OrgID, *p.SourceID); err != nil {
				return err
			}
		}
		p.Status, p.Message, p.SourceID, p.Again = status, message, nil, false
		return s.save(ctx, tx, p)
	})
}

// begin turns to another head. Its source has an id before it exists, so that a
// crash leaves no source that is not in this row.
func (s *Service) begin(ctx context.Context, p *Pull, head, sourceID string) error {
	return s.change(ctx, *p, func(tx *store.Tx, _ registry.Entry) error {
		reason := fmt.Sprintf("commit %.7s was pushed after it", head)
		if err := s.Gates.SupersedePull(ctx, tx, p.EntryID, p.ID, reason); err != nil {
			return err
		}
		if p.SourceID != nil {
			if err := s.drop(ctx, tx, p.OrgID, *p.SourceID); err != nil {
				return err
			}
		}
		p.Head, p.Status, p.Message, p.Findings, p.GateID, p.SourceID = head, Queued, "", nil, nil, &sourceID
		return updatePull(ctx, tx, *p)
	})
}

// change calls fn with the entry of a pull request locked, as everything that
// changes gates does, or closes one whose entry is gone.
func (s *Service) change(ctx context.Context, p Pull, fn func(tx *store.Tx, e registry.Entry) error) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, p.OrgID, p.EntryID)
		if fault.Is(err, fault.NotFound) {
			return s.abandon(ctx, tx, p)
		}
		if err != nil {
			return err
		}
		return fn(tx, e)
	})
}

// gate validates the head of a pull request and starts its gate, once.
func (s *Service) gate(ctx context.Context, c repohost.Connection, repo host.Repo, p Pull, held *repohost.Lease) error {
	if c.SkillPath != "." {
		paths, complete, err := s.Repohost.Host.PullFiles(ctx, repo, p.Number)
		if err != nil {
			return err
		}
		within := func(path string) bool { return strings.HasPrefix(path, c.SkillPath+"/") }
		if complete && !slices.ContainsFunc(paths, within) {
			return s.leave(ctx, p, Unchanged, fmt.Sprintf("It does not change %s", c.SkillPath), "")
		}
	}
	e, err := s.Registry.Own(ctx, p.OrgID, p.EntryID)
	if err != nil {
		return s.refuse(ctx, p, err)
	}
	pkg, err := s.Repohost.Host.Tree(ctx, repo, p.Head, c.SkillPath)
	if err != nil {
		if report, ok := lint.Refused(err); ok {
			p.Findings = publication.FindingsOf(c.SkillPath, report)
		}
		return s.refuse(ctx, p, err)
	}
	defer func() { _ = pkg.Close() }() // it was only read
	if e.Type == registry.TypeSkill {
		found, refusal, err := publication.CheckFolder(ctx, c.SkillPath, pkg)
		if p.Findings = found; err != nil {
			return s.refuse(ctx, p, err)
		}
		if refusal != "" {
			return s.leave(ctx, p, Refused, refusal, refusal)
		}
	}
	policy, _, err := s.Gates.PolicyOf(ctx, p.OrgID, p.EntryID)
	if err != nil {
		return err
	}
	if policy.Mode == gates.Off {
		return s.leave(ctx, p, Valid, "Valid; the gate is off", "the gate is off")
	}
	if renewed, err := held.Renew(ctx); err != nil || !renewed {
		return errors.Join(err, jobs.Snooze(repohost.LeasePoll)) // another worker has it now
	}
	return s.open(ctx, c, p, pkg)
}

// refuse refuses content that cannot become a version; an error of the code host
// is returned, to be retried.
func (s *Service) refuse(ctx context.Context, p Pull, cause error) error {
	if repohost.IsTransient(cause) || fault.Is(cause, fault.Denied) || ctx.Err() != nil {
		return cause
	}
	message := repohost.UserMessage(cause)
	return s.leave(ctx, p, Refused, message, message)
}

// open starts the gate of a head.
func (s *Service) open(ctx context.Context, c repohost.Connection, p Pull, pkg *skillpkg.Package) error {
	caller := access.Caller{OrgID: p.OrgID, UserID: c.CreatedBy}
	label := fmt.Sprintf("%s, pull request %d", c.RepoFullName, p.Number)
	snapshot, err := s.Sources.Hold(ctx, caller, *p.SourceID, sources.NewSource{Label: label, Type: sources.Pull}, pkg)
	if err != nil {
		return s.refuse(ctx, p, err) // e.g. the quota is used up
	}
	return s.change(ctx, p, func(tx *store.Tx, e registry.Entry) error {
		p.Again = false
		if err := updatePull(ctx, tx, p); err != nil {
			return err
		}
		_, opened, err := s.Gates.OpenPull(ctx, tx, e, publication.Prerelease(p.Head), c.CreatedBy, gates.Pull{
			ID: p.ID, Number: p.Number, Commit: p.Head, URL: p.URL, SnapshotID: snapshot.ID,
		})
		if err != nil || opened {
			return err // which told gateChanged
		}
		p.Status, p.Message = Valid, "Valid; the gate is off"
		return s.save(ctx, tx, p)
	})
}
