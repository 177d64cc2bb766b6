package quality

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// sourceCommands are the commands of cloud sources: skills that are uploaded or synced
// to be validated and tested, without being published.
type sourceCommands struct {
	List   sourceList   `cmd:"" help:"List the cloud sources."`
	Show   sourceShow   `cmd:"" help:"Show the validation findings of a cloud source and the suggested test cases."`
	Upload sourceUpload `cmd:"" help:"Upload the skill in a folder."`
	Sync   sourceSync   `cmd:"" help:"Read the repository of a cloud source."`
	Review sourceReview `cmd:"" help:"Accept or reject a suggested test case."`
	Drafts sourceDrafts `cmd:"" help:"Add the accepted test cases that are drafts to a suite."`
}

// sourceList has the filter of the list.
type sourceList struct {
	server.Flags `embed:""`
	Type         string `env:"-" enum:",upload,repohost" default:"" placeholder:"TYPE" help:"Only upload or repohost sources."`
}

// Run lists the cloud sources of the organisation.
func (c *sourceList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		sources, err := s.Sources(ctx, c.Type)
		if err != nil {
			return err
		}
		return term.List[api.ListedSource]{
			None: "No cloud sources.",
			Head: "ID\tLABEL\tTYPE\tCREATED",
			Row: func(source api.ListedSource) []any {
				return []any{source.ID, term.Plain(source.Label), source.SourceType, term.Day(&source.CreatedAt)}
			},
		}.Print(p, sources)
	})
}

// sourceShow selects a source.
type sourceShow struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"source" help:"Label, repository or id of the cloud source."`
}

// Run shows a source: its newest snapshot, the findings of its validation, and the
// suggested test cases.
func (c *sourceShow) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SourceID(ctx, c.ID)
		if err != nil {
			return err
		}
		detail, err := s.Source(ctx, id)
		if err != nil {
			return err
		}
		return p.Print(detail, func(w io.Writer) { printSource(w, detail) })
	})
}

// printSource prints a source for people. Commands name a source by its label, so
// that comes first.
func printSource(w io.Writer, d api.SourceDetail) {
	fmt.Fprintf(w, "Source\t%s\n", term.Plain(d.Label))
	if d.RepoFullName != "" {
		fmt.Fprintf(w, "Repository\t%s, %s, %s\n", term.Plain(d.RepoFullName), term.Plain(d.DefaultBranch),
			term.Plain(d.SkillPath))
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
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", s.ID, term.Percent(&s.Confidence), s.ObservedCount, s.Provenance,
			term.Cell(s.Query))
	}
}

// printSnapshot prints a snapshot with the findings of its validation; info is left
// out. Info is for --json: most of it needs no action.
func printSnapshot(w io.Writer, s api.Snapshot, reports []api.ValidationReport) {
	fmt.Fprintf(w, "Snapshot\t%s, %s, SHA-256 %s\n", term.Count(s.FileCount, "file"), term.Size(s.TotalBytes), s.ContentHash)
	for _, r := range reports {
		fmt.Fprintf(w, "Validation\t%s: %s, %s\n", r.Status, term.Count(r.Counts.Error, "error"),
			term.Count(r.Counts.Warning, "warning"))
		for _, f := range r.Findings {
			if f.Severity == "info" {
				continue
			}
			location := ""
			switch {
			case f.Path != "" && f.Line > 0:
				location = fmt.Sprintf("%s:%d: ", f.Path, f.Line)
			case f.Path != "":
				location = f.Path + ": "
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Severity, f.Code, term.Plain(location+f.Message))
		}
	}
}

// sourceUpload has the fields of an upload.
type sourceUpload struct {
	server.Flags `embed:""`
	Dir          string `arg:"" optional:"" default:"." help:"Folder of the skill; the current one when empty."`
	Source       string `env:"-" placeholder:"SOURCE" help:"Cloud source to add a snapshot to (label or id); a new one when empty."`
	Label        string `env:"-" help:"Label of a new source; the name of the folder when empty."`
	SkillID      string `env:"-" name:"skill-id" placeholder:"UUID" help:"Skill whose measurements belong to a new source; the one that SKILL.md names, if it is known, when empty."`
}

// Run packs a folder as push does and uploads it as a snapshot, of an existing source
// or of a new one.
func (c *sourceUpload) Run(ctx context.Context, p *term.Program) error {
	packed, err := server.PackFolder(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer packed.Close()
	u := client.SourceUpload{SourceID: c.Source, SkillID: c.SkillID, Archive: packed.Archive}
	if c.Source == "" {
		path, err := filepath.Abs(c.Dir)
		if err != nil {
			return err
		}
		// The absolute path, since "." has no name.
		u.Label = cmp.Or(c.Label, filepath.Base(path))
	}
	return c.WithSession(p, func(s *server.Session) error {
		if u.SourceID, err = s.SourceID(ctx, u.SourceID); err != nil {
			return err
		}
		// An existing source has its skill already.
		if u.SourceID == "" && u.SkillID == "" {
			if u.SkillID, err = skillOf(ctx, s, packed); err != nil {
				return err
			}
		}
		taken, err := s.UploadSource(ctx, u)
		if err != nil {
			return err
		}
		return p.Print(taken, func(w io.Writer) {
			fmt.Fprintf(w, "Source\t%s\n", taken.ID)
			printSnapshot(w, taken.Snapshot, taken.Reports)
		})
	})
}

// skillOf returns the id of the skill that a folder's SKILL.md names, or "" if the
// server does not know it. A SKILL.md that cannot be read names none: the validation of
// the snapshot reports what is wrong with it.
func skillOf(ctx context.Context, s *server.Session, packed server.PackedFolder) (string, error) {
	name := ""
	if manifest, err := packed.Package.Skill(); err == nil {
		name = manifest.Name
	}
	if name == "" {
		return "", nil
	}
	known, err := s.Skill(ctx, name, 0)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound {
		return "", nil
	}
	return known.Skill.SkillID, err
}

// sourceSync selects a source.
type sourceSync struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"source" help:"Label, repository or id of the cloud source."`
}

// Run has the server read the repository of a source and validate what it finds.
func (c *sourceSync) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SourceID(ctx, c.ID)
		if err != nil {
			return err
		}
		taken, err := s.SyncSource(ctx, id)
		if err != nil {
			return err
		}
		return p.Print(taken, func(w io.Writer) { printSnapshot(w, taken.Snapshot, taken.Reports) })
	})
}

// sourceReview has the decision on a suggestion. Exactly one of the four flags must
// be given, which the parser checks.
type sourceReview struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"source" help:"Label, repository or id of the cloud source."`
	Suggestion   string `arg:"" help:"Id of the suggestion."`
	Accept       bool   `env:"-" xor:"verdict" required:"" help:"Accept it as a draft."`
	Reject       bool   `env:"-" xor:"verdict" required:"" help:"Reject it."`
	Suite        string `env:"-" xor:"verdict" required:"" placeholder:"SUITE" help:"Accept it and append it to this suite (name or id)."`
	Clear        bool   `env:"-" xor:"verdict" required:"" help:"Undo the decision."`
}

// Run records the decision on a suggested test case, or with --clear undoes it.
func (c *sourceReview) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SourceID(ctx, c.ID)
		if err != nil {
			return err
		}
		if c.Clear {
			if err := s.ClearReview(ctx, id, c.Suggestion); err != nil {
				return err
			}
			return p.Print(struct{}{}, func(w io.Writer) { fmt.Fprintln(w, "Pending again.") })
		}
		c.ID = id
		review, err := c.decide(ctx, s)
		if err != nil {
			return err
		}
		return p.Print(review, func(w io.Writer) {
			fmt.Fprintf(w, "%s: %s\n", review.ReviewStatus, term.Cell(review.Query))
		})
	})
}

// decide records the decision. It sends the suggestion back as the caller saw it: a
// suggestion that is no longer pending is not found.
func (c *sourceReview) decide(ctx context.Context, s *server.Session) (api.Review, error) {
	detail, err := s.Source(ctx, c.ID)
	if err != nil {
		return api.Review{}, err
	}
	i := slices.IndexFunc(detail.Suggestions, func(one api.Suggestion) bool { return one.ID == c.Suggestion })
	if i < 0 {
		return api.Review{}, fault.New(fault.NotFound,
			"No suggestion %s is pending; `whetstone source show` lists them", c.Suggestion)
	}
	// The server compares it: a job may have derived it anew since.
	suggestion := detail.Suggestions[i]
	if c.Suite != "" {
		suite, err := s.SuiteID(ctx, c.Suite)
		if err != nil {
			return api.Review{}, err
		}
		_, review, err := s.ApplySuggestion(ctx, c.ID, suggestion, suite)
		return review, err
	}
	status := "rejected"
	if c.Accept {
		status = "accepted"
	}
	return s.ReviewSuggestion(ctx, c.ID, suggestion, status)
}

// sourceDrafts says where the drafts go.
type sourceDrafts struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"source" help:"Label, repository or id of the cloud source."`
	Suite        string `env:"-" xor:"suite" placeholder:"SUITE" help:"Suite to add them to (name or id); the newest of the source when empty, or else a new one."`
	NewSuite     string `env:"-" xor:"suite" placeholder:"NAME" help:"Create a suite with this name for them."`
}

// Run adds all drafts of a source to a suite. A second run adds nothing.
func (c *sourceDrafts) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		id, err := s.SourceID(ctx, c.ID)
		if err != nil {
			return err
		}
		var in api.NewDraftCases
		if c.Suite != "" {
			if in.SuiteID, err = s.SuiteID(ctx, c.Suite); err != nil {
				return err
			}
		}
		if c.NewSuite != "" {
			in.NewSuite = &api.NamedSuite{Name: c.NewSuite}
		}
		applied, err := s.ApplyDrafts(ctx, id, in)
		if err != nil {
			return err
		}
		return p.Print(applied, func(w io.Writer) {
			fmt.Fprintf(w, "Added %s to suite %s, which had %d already.\n", term.Count(applied.Added, "case"), applied.SuiteID, applied.Already)
		})
	})
}
