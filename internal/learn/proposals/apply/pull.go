package apply

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// connection returns the id of the connection that takes pull requests for the
// proposal's entry. Without one it is a Conflict that says which setting is missing. The three
// settings are checked in the order in which a person would set them.
func (s *Service) connection(ctx context.Context, p proposals.Proposal) (string, error) {
	if p.EntryID == "" {
		return "", fault.New(fault.Conflict, "%s is not in the registry, so no repository is connected to it: take the patch",
			p.SkillName)
	}
	mode, err := s.Repohost.Mode(ctx, p.OrgID)
	if err != nil {
		return "", err
	}
	all, _, err := s.Repohost.Connections(ctx, p.OrgID)
	if err != nil {
		return "", err
	}
	of := slices.DeleteFunc(all, func(c repohost.Connection) bool { return c.EntryID != p.EntryID })
	if len(of) == 0 {
		return "", fault.New(fault.Conflict, "No repository is connected to %s: connect one, or publish a version", p.SkillName)
	}
	i := slices.IndexFunc(of, func(c repohost.Connection) bool { return c.WriteBackEnabled })
	if i < 0 {
		return "", fault.New(fault.Conflict,
			"The connection with %s does not allow write-back: set its write_back_enabled", of[0].RepoFullName)
	}
	if mode != repohost.ModePRs {
		return "", fault.New(fault.Conflict,
			"The organisation's write_back_mode is %s: set it to %s to open pull requests", mode, repohost.ModePRs)
	}
	return of[i].ID, nil
}

// open makes the branch and the pull request of a proposal. Both are found again
// after a crash.
func (s *Service) open(ctx context.Context, p proposals.Proposal) error {
	c, err := s.Repohost.ConnectionByID(ctx, s.DB, p.Outcome.ConnectionID)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict, "The repository was disconnected")
	}
	if err != nil {
		return err
	}
	if _, err := s.connection(ctx, p); err != nil {
		return err // somebody changed the settings meanwhile
	}
	repo, err := s.Repohost.RepoOf(ctx, c)
	if err != nil {
		return err
	}
	commit, err := s.commit(ctx, c, repo, p)
	if err != nil {
		return err
	}
	title := titleOf(p)
	pull, err := s.Repohost.Host.OpenPull(ctx, repo, host.NewPull{
		Branch: p.Outcome.Branch, Base: c.DefaultBranch, Title: title, Body: s.describe(p),
	})
	// Bare git has branches only, so a person merges it; stateOnHost then looks at the file.
	unsupported := errors.Is(err, host.ErrUnsupported)
	if err != nil && !unsupported {
		return err
	}
	return s.settle(ctx, p, func(o *proposals.Outcome) {
		o.Commit, o.State, o.Message = commit, proposals.Open, ""
		if unsupported {
			o.Message = fmt.Sprintf("The code host has no pull requests: merge the branch %s into %s", o.Branch, c.DefaultBranch)
			return
		}
		o.Number, o.URL, o.State = int(pull.Number), pull.URL, stateOfPull(pull)
	})
}

// commit makes the branch, unless it is there. The file must be as the proposal was
// made for it. A branch that exists is taken as it is: a person may have pushed another commit to
// it.
func (s *Service) commit(ctx context.Context, c repohost.Connection, repo host.Repo, p proposals.Proposal) (string, error) {
	there, err := s.Repohost.Host.Resolve(ctx, repo, "refs/heads/"+p.Outcome.Branch)
	if !fault.Is(err, fault.NotFound) {
		return there.SHA, err
	}
	head, content, err := s.read(ctx, c, repo)
	if err != nil {
		return "", err
	}
	if proposals.Digest(content) != p.BaseDigest {
		return "", fault.New(fault.Conflict, "SKILL.md on the branch %s of %s does not match the text of the proposal",
			c.DefaultBranch, c.RepoFullName)
	}
	return s.Repohost.Host.CommitFile(ctx, repo, host.FileCommit{
		Branch: p.Outcome.Branch, Onto: c.DefaultBranch, Base: head, Path: path.Join(c.SkillPath, "SKILL.md"), Content: p.SkillMD,
		Message: fmt.Sprintf("%s\n\n%s\n\nProposal: %s", titleOf(p), p.Reason, s.urlOf(p)),
	})
}

// read returns the head of the connection's branch, and its SKILL.md.
func (s *Service) read(ctx context.Context, c repohost.Connection, repo host.Repo) (head, content string, err error) {
	found, err := s.Repohost.Host.Resolve(ctx, repo, "refs/heads/"+c.DefaultBranch)
	if err != nil {
		return "", "", err
	}
	pkg, err := s.Repohost.Host.Tree(ctx, repo, found.SHA, c.SkillPath)
	if err != nil {
		return "", "", err
	}
	defer pkg.Close()
	raw, err := pkg.ReadFile("SKILL.md")
	return found.SHA, string(raw), err
}

// stateOfPull prefers merged: hosts report merged pull requests as closed, too.
func stateOfPull(p host.Pull) proposals.State {
	switch {
	case p.Merged:
		return proposals.Merged
	case p.Closed:
		return proposals.Closed
	}
	return proposals.Open
}

// followPull asks the code host what became of the pull request or, without one, of
// the branch. After a merge it waits for the version that comes of it. The version comes from the
// connection, which syncs the branch as always.
func (s *Service) followPull(ctx context.Context, p proposals.Proposal) error {
	if p.Outcome.State == proposals.Merged {
		return s.findVersion(ctx, p)
	}
	c, err := s.Repohost.ConnectionByID(ctx, s.DB, p.Outcome.ConnectionID)
	if fault.Is(err, fault.NotFound) {
		return nil // its state can no longer be read
	}
	if err != nil {
		return err
	}
	repo, err := s.Repohost.RepoOf(ctx, c)
	if fault.Is(err, fault.Conflict) {
		return nil // suspended or unbound meanwhile
	}
	if err != nil {
		return err
	}
	state, err := s.stateOnHost(ctx, c, repo, p)
	if err != nil || state == p.Outcome.State {
		return err
	}
	err = s.settle(ctx, p, func(o *proposals.Outcome) { o.State, o.Message = state, "" })
	if err != nil || state != proposals.Merged {
		return err
	}
	return s.findVersion(ctx, p)
}

func (s *Service) stateOnHost(
	ctx context.Context, c repohost.Connection, repo host.Repo, p proposals.Proposal,
) (proposals.State, error) {
	if p.Outcome.Number != 0 {
		pull, err := s.Repohost.Host.Pull(ctx, repo, int64(p.Outcome.Number))
		if fault.Is(err, fault.NotFound) {
			return proposals.Closed, nil
		}
		return stateOfPull(pull), err
	}
	// Without a pull request the content of the base branch decides.
	_, content, err := s.read(ctx, c, repo)
	if err != nil {
		return "", err
	}
	if content == p.SkillMD {
		return proposals.Merged, nil
	}
	_, err = s.Repohost.Host.Resolve(ctx, repo, "refs/heads/"+p.Outcome.Branch)
	if fault.Is(err, fault.NotFound) {
		return proposals.Closed, nil
	}
	return proposals.Open, err
}

// findVersion looks whether the current version has the merged words. It compares the text, since
// the sync may give the version any name.
func (s *Service) findVersion(ctx context.Context, p proposals.Proposal) error {
	texts, err := registry.EntryTexts(ctx, s.DB, p.OrgID, []string{p.EntryID})
	if err != nil || texts[p.EntryID].SkillMD != p.SkillMD {
		return err
	}
	return s.settle(ctx, p, func(o *proposals.Outcome) {
		o.Version, o.VersionID = texts[p.EntryID].Version, texts[p.EntryID].VersionID
	})
}

func titleOf(p proposals.Proposal) string {
	what := map[proposals.Target]string{
		proposals.TargetDescription: "description", proposals.TargetBody: "instructions",
		proposals.TargetBoth: "description and the instructions",
	}[p.Target]
	return fmt.Sprintf("Improve the %s of %s", what, p.SkillName)
}

func (s *Service) urlOf(p proposals.Proposal) string {
	return strings.TrimRight(s.PublicURL, "/") + "/proposals/" + p.ID
}

// describe is the evidence in Markdown. Everything that a model wrote is escaped: a link or an
// image in it would be shown under the name of the organisation.
func (s *Service) describe(p proposals.Proposal) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", outcome.Escape(p.Reason))
	if p.Proof != nil {
		verdict := "Not proved"
		if p.Proved {
			verdict = "Proved"
		}
		fmt.Fprintf(&b, "%s on %d held-out cases: %.0f %% pass, and %.0f %% with the current text;"+
			" %d cases got better, %d worse", verdict, p.Proof.Cases, 100*p.Proof.Winner, 100*p.Proof.Current,
			p.Proof.Better, p.Proof.Worse)
		if p.Proof.P != nil {
			fmt.Fprintf(&b, " (p = %.3g)", *p.Proof.P)
		}
		if i := p.Proof.Interval; i != nil {
			fmt.Fprintf(&b, ", the difference is between %+.0f and %+.0f points", 100*i[0], 100*i[1])
		}
		b.WriteString(".\n\n")
	}
	for _, e := range p.Edits {
		fmt.Fprintf(&b, "- %s: %s", e.Op, outcome.Escape(e.Why))
		if len(e.Cases) > 0 {
			fmt.Fprintf(&b, " (cases: %s)", outcome.Escape(strings.Join(e.Cases, ", ")))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n[The proposal with its evidence](%s)\n", s.urlOf(p))
	return b.String()
}
