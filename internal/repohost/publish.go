package repohost

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/lint"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const (
	// holdTime is for how long a worker has a connection for itself. It is
	// prolonged with every attempt; should one take longer, two workers do the
	// same twice, which does no harm.
	holdTime = 30 * time.Second
	// turn is how long a worker goes on before others get theirs.
	turn      = time.Minute
	waitEvery = 200 * time.Millisecond
)

// work publishes what waits for a connection, one after the other in the order
// it came.
func (s *Service) work(ctx context.Context, connectionID string) (err error) {
	defer fault.Wrap(&err, "publish for connection %s", connectionID)
	held, err := hold(ctx, s.DB, connectionID, store.Now().Add(holdTime))
	if err != nil {
		return err
	}
	if !held {
		return s.waitForHold(ctx, connectionID)
	}
	defer s.release(ctx, connectionID)
	for end := time.Now().Add(turn); time.Now().Before(end); {
		a, err := nextAttempt(ctx, s.DB, connectionID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := prolong(ctx, s.DB, connectionID, store.Micros(store.Now().Add(holdTime))); err != nil {
			return err
		}
		if err := s.next(ctx, a); err != nil {
			return err
		}
	}
	return jobs.Snooze(time.Millisecond)
}

// waitForHold comes again later, unless the connection is gone.
func (s *Service) waitForHold(ctx context.Context, connectionID string) error {
	if _, err := connectionByID(ctx, s.DB, connectionID); fault.Is(err, fault.NotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return jobs.Snooze(waitEvery)
}

func (s *Service) release(ctx context.Context, connectionID string) {
	if err := prolong(context.WithoutCancel(ctx), s.DB, connectionID, 0); err != nil {
		s.Log.Warn("a connection stays reserved for a while", "connection", connectionID, "error", err)
	}
}

// next publishes what waited longest. When the code host fails it returns the
// error that makes the job come again, until that has been tried often enough.
func (s *Service) next(ctx context.Context, a Attempt) error {
	c, err := connectionByID(ctx, s.DB, a.ConnectionID)
	if fault.Is(err, fault.NotFound) {
		return nil // it was deleted, and the attempt with it
	}
	if err != nil {
		return err
	}
	again := a.Tries < len(s.waits())
	a, err = s.try(ctx, c, a, again)
	if err == nil || !again || ctx.Err() != nil {
		return err
	}
	if err := noteTry(ctx, s.DB, a, shown(err)); err != nil {
		return err
	}
	return retryLater(err, s.pause(a.Tries))
}

// try publishes one attempt and records what came of it. An error that may be
// over later is returned, and the attempt goes on waiting, if it may be tried
// again.
func (s *Service) try(ctx context.Context, c Connection, a Attempt, again bool) (Attempt, error) {
	a.AttemptedAt = store.Now()
	a.Tries++
	if err := s.publish(ctx, c, &a); err != nil {
		if ctx.Err() != nil || again && passing(err) {
			return a, err
		}
		s.Log.Info("a commit was not published", "connection", c.ID, "commit", a.Commit, "error", err)
		a.fail(err)
	}
	return a, s.record(ctx, c, &a)
}

// fail ends an attempt. What is wrong with the commit is refused; what the
// code host may give us later, or to another installation, failed.
func (a *Attempt) fail(err error) {
	a.Status, a.Message = Refused, shown(err)
	if passing(err) || fault.Is(err, fault.Denied) {
		a.Status = Failed
	}
}

// record writes the end of an attempt with what follows from it: the
// write-back, and the end of its delivery.
func (s *Service) record(ctx context.Context, c Connection, a *Attempt) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		mode, err := modeOf(ctx, tx, c.OrgID)
		if err != nil {
			return err
		}
		a.WriteBack = Disabled
		if mode != ModeOff && c.WriteBackEnabled {
			a.WriteBack = Pending
			if err := s.Jobs.Enqueue(ctx, tx, writeBack{AttemptID: a.ID}, jobs.Unique(a.ID), jobs.Attempts(maxRuns)); err != nil {
				return err
			}
		}
		if err := updateAttempt(ctx, tx, *a); err != nil {
			return err
		}
		if a.DeliveryID == nil {
			return nil
		}
		return settleDelivery(ctx, tx, *a.DeliveryID)
	})
}

// publish makes a version of an attempt's commit, or finds that there is
// nothing to do. Its error says why it could not.
func (s *Service) publish(ctx context.Context, c Connection, a *Attempt) error {
	entry, err := s.Registry.Own(ctx, c.OrgID, c.EntryID)
	if err != nil {
		return err
	}
	repo, err := s.repo(ctx, c)
	if fault.Is(err, fault.Conflict) { // suspended or unbound meanwhile
		a.Status, a.Message = Failed, shown(err)
		return nil
	}
	if err != nil {
		return err
	}
	commit, err := s.Host.Resolve(ctx, repo, a.Commit)
	if fault.Is(err, fault.NotFound) {
		a.Status, a.Message = Skipped, "The commit is not in the repository, or the installation no longer sees it"
		return nil
	}
	if err != nil {
		return err
	}
	s.announce(ctx, c, repo, *a)
	pkg, err := s.Host.Tree(ctx, repo, commit.SHA, c.SkillPath)
	if err != nil {
		return a.refuse(c, err)
	}
	defer func() { _ = pkg.Close() }() // it was only read
	if entry.Type == registry.TypeSkill {
		if ok, err := s.check(ctx, c, pkg, a); err != nil || !ok {
			return err
		}
	}
	return s.handOver(ctx, c, a, commit, repo, pkg)
}

// refuse keeps what a rule says about a commit that could not be packed.
func (a *Attempt) refuse(c Connection, err error) error {
	if report, ok := lint.Refused(err); ok {
		a.Findings = findings(c, report)
	}
	return err
}

// handOver hands the files of a commit to the registry.
func (s *Service) handOver(ctx context.Context, c Connection, a *Attempt, commit host.Commit, repo host.Repo, pkg *skillpkg.Package) error {
	p := registry.RepoPublication{
		OrgID: c.OrgID, UserID: c.CreatedBy, EntryID: c.EntryID, Version: a.ref().version(commit.SHA),
		ChangeSummary: subject(commit.Message), Source: registry.FromRepohost, SourceRef: a.SourceRef(), SourceRepo: c.RepoFullName,
		Package: pkg, AnyVersion: a.Cause == BySync && a.RefKind == branch,
	}
	if a.Cause == BySync {
		p.Source = registry.FromRepohostDirect
	}
	if a.RefKind == branch {
		// Deliveries come in any order: an old commit does not become current.
		head, err := s.Host.Resolve(ctx, repo, a.ref().full())
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		p.Latest = head.SHA == commit.SHA
	}
	v, made, err := s.Registry.PublishRepo(ctx, p)
	if err != nil {
		return err
	}
	a.Version, a.PublishedAt = &v.Version, &v.PushedAt
	a.Status, a.Message = Done, fmt.Sprintf("Published version %s from %s", v.Version, short(a.SourceRef()))
	if !made {
		a.Status, a.Message = Unchanged, fmt.Sprintf("Version %s has this content already", v.Version)
	}
	return nil
}

// short is a commit's id as people write it, or a tag.
func short(ref string) string {
	if host.IsSHA(ref) {
		return ref[:7]
	}
	return ref
}

// subject is the first line of a commit's message.
func subject(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return strings.ToValidUTF8(strings.ReplaceAll(line, "\x00", ""), "\ufffd")
}

// check reports whether a skill is in order, and keeps what was found.
func (s *Service) check(ctx context.Context, c Connection, pkg *skillpkg.Package, a *Attempt) (bool, error) {
	if err := pkg.RequireSkill(); err != nil {
		return false, fault.New(fault.Malformed, "No SKILL.md in %s of the repository", folderName(c.SkillPath)).Because(err)
	}
	report, err := lint.Check(ctx, pkg)
	if err != nil {
		return false, err
	}
	a.Findings = findings(c, report)
	if report.Status() != lint.StatusFail {
		return true, nil
	}
	a.Status, a.Message = Refused, refusal(report)
	return false, nil
}

func folderName(folder string) string {
	if folder == "." {
		return "the root"
	}
	return folder
}

// refusal names the first error of a report, and how many there are.
func refusal(report lint.Report) string {
	errors := report.Counts().Error
	for _, f := range report.Findings {
		if f.Severity == "error" {
			text := f.Message
			if f.Path != "" {
				text = f.Path + ": " + text
			}
			if errors > 1 {
				text += fmt.Sprintf(" (and %d more errors)", errors-1)
			}
			return text
		}
	}
	return "The skill did not pass validation"
}

// findings are a report's, with paths as the repository knows them.
func findings(c Connection, report lint.Report) []Finding {
	all := make([]Finding, len(report.Findings))
	for i, f := range report.Findings {
		file := f.Path
		if file == "" {
			file = "SKILL.md"
		}
		all[i] = Finding{
			Path: path.Join(c.SkillPath, file), Line: f.Line, Severity: string(f.Severity), Code: f.Code, Message: f.Message,
		}
	}
	return all
}
