package approvals

// Reviews of pull requests on the code host count as approvals: a candidate that the
// merge of a pull request made is approved by those who approved its head there, if they
// can be attributed to members without doubt. An account of the code host is a member's
// if the member signs in with it, by its number, never by its name or address.

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// HostReviews looks at the pull requests of candidates.
type HostReviews struct {
	DB        *store.DB
	Jobs      *jobs.Queue
	Registry  *registry.Service
	Approvals *Service
	Repohost  *repohost.Service
	// CodeHost is the address of the code host, e.g. "https://github.com". Members who
	// sign in with it, as a provider with this issuer, have an account there.
	CodeHost string
	Log      *slog.Logger
}

// maxReviewed is how many candidates of a connection are looked at, the newest first.
const maxReviewed = 10

// LookAt implements repohost.OnReviews. It only enqueues jobs, in the caller's transaction:
// asking the code host takes long.
func (s *HostReviews) LookAt(ctx context.Context, tx *store.Tx, c repohost.Connection) error {
	p, err := gates.PolicyIn(ctx, tx, registry.Entry{ID: c.EntryID, OrgID: c.OrgID})
	if err != nil || !p.HostReviews || p.Approvals == 0 || s.CodeHost == "" {
		return err
	}
	waiting, err := waitingOf(ctx, tx, c)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		job := look{ConnectionID: c.ID, VersionID: w.versionID, Commit: w.commit}
		if err := s.Jobs.Enqueue(ctx, tx, job, jobs.Unique(w.versionID), repohost.MaxRuns(), jobs.For(c.OrgID)); err != nil {
			return err
		}
	}
	return nil
}

// look is the job that looks at the pull request of a candidate.
type look struct {
	ConnectionID string `json:"connection_id"`
	VersionID    string `json:"version_id"`
	Commit       string `json:"commit"` // that made the version
}

// Kind names the job.
func (look) Kind() string { return "approvals.look-at-reviews" }

// Register makes the queue run the jobs that read reviews.
func (s *HostReviews) Register() {
	jobs.Handle(s.Jobs, s.run, jobs.Timeout(lookTimeout), jobs.NeedsRoom())
}

// run looks at a candidate. A code host that fails is asked again with backoff; when that
// is used up, the reconciliation asks it. Nothing is lost by giving up: the candidate goes on
// waiting, and people may approve it here.
func (s *HostReviews) run(ctx context.Context, job look) (err error) {
	defer fault.Wrap(&err, "reviews of version %s", job.VersionID)
	c, err := s.Repohost.ConnectionByID(ctx, s.DB, job.ConnectionID)
	if fault.Is(err, fault.NotFound) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	taken, cause := s.look(ctx, c, job)
	if cause == nil && !taken {
		return jobs.Snooze(again) // another look has ended since this one began
	}
	if cause == nil || ctx.Err() != nil {
		return cause
	}
	number, _ := jobs.Attempt(ctx)
	if again := s.Repohost.RetryLater(cause, number); again != nil {
		return again
	}
	s.Log.Warn("reviews of a pull request could not be read", "connection", c.ID, "commit", job.Commit, "error", cause)
	return nil
}

// look brings the approvals of a candidate by reviews up to date. It reports false if that
// has to be done again.
func (s *HostReviews) look(ctx context.Context, c repohost.Connection, job look) (taken bool, err error) {
	e, err := s.Registry.Own(ctx, c.OrgID, c.EntryID)
	if err != nil {
		return true, ignoreMissing(err)
	}
	v, err := s.Registry.VersionByID(ctx, s.DB, e, job.VersionID)
	if err != nil || v.State != registry.Candidate {
		return true, ignoreMissing(err)
	}
	p, err := gates.PolicyIn(ctx, s.DB, e)
	if err != nil || !p.HostReviews || p.Approvals == 0 {
		return true, err
	}
	last, err := s.Approvals.Sighting(ctx, v.ID)
	if err != nil {
		return true, err
	}
	r := &reading{HostReviews: s, connection: c, entry: e, version: v, policy: p, commit: job.Commit, last: last}
	seen, found, err := r.read(ctx)
	if err != nil || !found && last.Looks == 0 {
		return true, err
	}
	return s.take(ctx, e, v, seen)
}

// take writes what a look found, if the candidate still waits: minutes may have passed.
func (s *HostReviews) take(
	ctx context.Context, e registry.Entry, v registry.Version, seen Sighting,
) (taken bool, err error) {
	taken = true
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		locked, err := s.Registry.Lock(ctx, tx, e.OrgID, e.ID)
		if err != nil {
			return ignoreMissing(err)
		}
		now, err := s.Registry.VersionByID(ctx, tx, locked, v.ID)
		if err != nil || now.State != registry.Candidate {
			return ignoreMissing(err)
		}
		var waits string
		if waits, taken, err = s.Approvals.TakeReviews(ctx, tx, locked, now, seen); err != nil || waits == "" {
			return err
		}
		return s.Repohost.VersionDecided(ctx, tx, e.OrgID, e.ID, v.Version,
			fmt.Sprintf("Version %s is a candidate: %s", v.Version, waits))
	})
	return taken, err
}

// ignoreMissing is for what was deleted while a look was under way.
func ignoreMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil // deleted meanwhile
	}
	return err
}

// issuers are how a provider at the code host may write its issuer. Operators configure it with
// or without the slash, and identities keep it as configured.
func (s *HostReviews) issuers() []string {
	address := strings.TrimRight(s.CodeHost, "/")
	return []string{address, address + "/"}
}
