package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type sourceCommands struct {
	List   sourceList   `cmd:"" help:"List the cloud sources."`
	Show   sourceShow   `cmd:"" help:"Tell what is wrong with a cloud source, and what to test."`
	Upload sourceUpload `cmd:"" help:"Upload the skill in a folder."`
	Sync   sourceSync   `cmd:"" help:"Read the repository of a cloud source."`
	Review sourceReview `cmd:"" help:"Accept or reject a suggested test case."`
}

type sourceList struct {
	remote `embed:""`
	Type   string `env:"-" enum:",upload,repohost" default:"" placeholder:"TYPE" help:"Only upload or repohost sources."`
}

// Run lists sources.
func (c *sourceList) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		sources, err := s.Sources(ctx, c.Type)
		if err != nil {
			return err
		}
		return p.print(sources, func(w io.Writer) {
			if len(sources) == 0 {
				fmt.Fprintln(w, "No cloud sources.")
				return
			}
			fmt.Fprintln(w, "SOURCE\tLABEL\tTYPE\tCREATED")
			for _, source := range sources {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", source.ID, plain(source.Label), source.SourceType, day(&source.CreatedAt))
			}
		})
	})
}

type sourceShow struct {
	remote `embed:""`
	ID     string `arg:"" help:"Id of the cloud source."`
}

// Run shows a source.
func (c *sourceShow) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		detail, err := s.Source(ctx, c.ID)
		if err != nil {
			return err
		}
		return p.print(detail, func(w io.Writer) { printSource(w, detail) })
	})
}

func printSource(w io.Writer, d client.SourceDetail) {
	fmt.Fprintf(w, "Source\t%s\n", plain(d.Label))
	if d.RepoFullName != "" {
		fmt.Fprintf(w, "Repository\t%s, %s, %s\n", plain(d.RepoFullName), plain(d.DefaultBranch), plain(d.SkillPath))
	}
	if d.CurrentSnapshot == nil {
		fmt.Fprintln(w, "Snapshot\tnone yet")
		return
	}
	printSnapshot(w, *d.CurrentSnapshot, d.Reports)
	fmt.Fprintf(w, "Suggestions\t%d pending, %d reviewed\n", d.SuggestionCount, d.ReviewCount)
	if len(d.Suggestions) == 0 {
		return
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "SUGGESTION\tCONFIDENCE\tSEEN\tWHY\tQUERY")
	for _, s := range d.Suggestions {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", s.ID, percent(&s.Confidence), s.ObservedCount, s.Provenance, shorten(s.Query))
	}
}

func printSnapshot(w io.Writer, s client.Snapshot, reports []client.ValidationReport) {
	fmt.Fprintf(w, "Snapshot\t%s, %s, SHA-256 %s\n", count(s.FileCount, "file"), size(s.TotalBytes), s.ContentHash)
	for _, r := range reports {
		fmt.Fprintf(w, "Validation\t%s: %s, %s\n", r.Status, count(r.Counts.Error, "error"), count(r.Counts.Warning, "warning"))
		for _, f := range r.Findings {
			if f.Severity == "info" {
				continue
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Severity, f.Code, plain(place(f)+f.Message))
		}
	}
}

// place says where a finding is.
func place(f client.Finding) string {
	switch {
	case f.Path == "":
		return ""
	case f.Line == 0:
		return f.Path + ": "
	}
	return fmt.Sprintf("%s:%d: ", f.Path, f.Line)
}

type sourceUpload struct {
	remote  `embed:""`
	Dir     string `arg:"" optional:"" default:"." help:"Folder of the skill; this one when empty."`
	Source  string `env:"-" placeholder:"ID" help:"Cloud source to add a snapshot to; a new one when empty."`
	Label   string `env:"-" help:"Label of a new source; the name of the folder when empty."`
	SkillID string `env:"-" name:"skill-id" placeholder:"UUID" help:"Skill that a new source is measured as."`
}

// Run packs a folder and uploads it.
func (c *sourceUpload) Run(ctx context.Context, p *Program) error {
	folder, err := packFolder(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer folder.close()
	u := client.SourceUpload{SourceID: c.Source, SkillID: c.SkillID, Archive: folder.archive}
	if c.Source == "" {
		path, err := filepath.Abs(c.Dir)
		if err != nil {
			return err
		}
		u.Label = cmp.Or(c.Label, filepath.Base(path))
	}
	return c.with(p, func(s *session) error {
		taken, err := s.UploadSource(ctx, u)
		if err != nil {
			return err
		}
		return p.print(taken, func(w io.Writer) {
			fmt.Fprintf(w, "Source\t%s\n", taken.ID)
			printSnapshot(w, taken.Snapshot, taken.Reports)
		})
	})
}

type sourceSync struct {
	remote `embed:""`
	ID     string `arg:"" help:"Id of the cloud source."`
}

// Run makes a snapshot of a repository.
func (c *sourceSync) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		taken, err := s.SyncSource(ctx, c.ID)
		if err != nil {
			return err
		}
		out := struct {
			Snapshot client.Snapshot           `json:"snapshot"`
			Reports  []client.ValidationReport `json:"validationReports"`
		}{taken.Snapshot, taken.Reports}
		return p.print(out, func(w io.Writer) { printSnapshot(w, taken.Snapshot, taken.Reports) })
	})
}

type sourceReview struct {
	remote     `embed:""`
	ID         string `arg:"" help:"Id of the cloud source."`
	Suggestion string `arg:"" help:"Id of the suggestion."`
	Accept     bool   `env:"-" xor:"verdict" required:"" help:"Accept it as a draft."`
	Reject     bool   `env:"-" xor:"verdict" required:"" help:"Reject it."`
	Suite      string `env:"-" xor:"verdict" required:"" placeholder:"ID" help:"Accept it and append it to this suite."`
	Clear      bool   `env:"-" xor:"verdict" required:"" help:"Take the decision back."`
}

// Run records a decision.
func (c *sourceReview) Run(ctx context.Context, p *Program) error {
	return c.with(p, func(s *session) error {
		if c.Clear {
			if err := s.ClearReview(ctx, c.ID, c.Suggestion); err != nil {
				return err
			}
			return p.print(struct{}{}, func(w io.Writer) { fmt.Fprintln(w, "Pending again.") })
		}
		review, err := c.decide(ctx, s)
		if err != nil {
			return err
		}
		return p.print(review, func(w io.Writer) {
			fmt.Fprintf(w, "%s: %s\n", review.ReviewStatus, shorten(review.Query))
		})
	})
}

func (c *sourceReview) decide(ctx context.Context, s *session) (client.Review, error) {
	detail, err := s.Source(ctx, c.ID)
	if err != nil {
		return client.Review{}, err
	}
	i := slices.IndexFunc(detail.Suggestions, func(one client.Suggestion) bool { return one.ID == c.Suggestion })
	if i < 0 {
		return client.Review{}, fault.New(fault.NotFound, "No suggestion %s is pending; `whetstone source show` lists them", c.Suggestion)
	}
	suggestion := detail.Suggestions[i]
	if c.Suite != "" {
		_, review, err := s.ApplySuggestion(ctx, c.ID, suggestion, c.Suite)
		return review, err
	}
	status := "rejected"
	if c.Accept {
		status = "accepted"
	}
	return s.ReviewSuggestion(ctx, c.ID, suggestion, status)
}
