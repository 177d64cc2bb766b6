package publication

// The files of a commit are validated before they are published. The code host gets
// the findings in its own format.

import (
	"cmp"
	"context"
	"fmt"
	"path"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// A Finding is a problem in a file of the repository.
type Finding struct {
	Path     string `json:"path"` // relative to the repository
	Line     int    `json:"line"`
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}

// CheckFolder lints the skill in a folder of the repository. refusal says why it may not be
// published, and is "" if it may.
func CheckFolder(ctx context.Context, folder string, pkg *skillpkg.Package) (all []Finding, refusal string, err error) {
	if err := pkg.RequireSkill(); err != nil {
		if folder == "." {
			folder = "the root"
		}
		return nil, "", fault.New(fault.Malformed, "No SKILL.md in %s of the repository", folder).Because(err)
	}
	report, err := lint.Check(ctx, pkg)
	if err != nil {
		return nil, "", err
	}
	if report.Status() == lint.StatusFail {
		refusal = firstError(report)
	}
	return FindingsOf(folder, report), refusal, nil
}

// firstError describes the first error and counts the others, e.g. "SKILL.md: name is
// missing (and 2 more errors)".
func firstError(report lint.Report) string {
	errors := report.Counts().Error
	for _, f := range report.Findings {
		if f.Severity == "error" {
			message := f.Message
			if f.Path != "" {
				message = f.Path + ": " + message
			}
			if errors > 1 {
				message += fmt.Sprintf(" (and %d more errors)", errors-1)
			}
			return message
		}
	}
	return "The skill did not pass validation"
}

// FindingsOf converts a report's findings. Their paths are relative to the repository, as code
// hosts expect.
func FindingsOf(folder string, report lint.Report) []Finding {
	all := make([]Finding, len(report.Findings))
	for i, f := range report.Findings {
		all[i] = Finding{
			Path: path.Join(folder, cmp.Or(f.Path, "SKILL.md")), Line: f.Line, Severity: string(f.Severity), Code: f.Code,
			Message: f.Message,
		}
	}
	return all
}

// Annotations converts findings into annotations of a check run.
func Annotations(all []Finding) []host.Annotation {
	// Every other severity is a notice.
	levels := map[string]host.Level{"error": host.LevelFailure, "warning": host.LevelWarning}
	var annotations []host.Annotation
	for _, f := range all {
		annotations = append(annotations, host.Annotation{
			Path: f.Path, Line: f.Line, Level: cmp.Or(levels[f.Severity], host.LevelNotice), Title: f.Code, Message: f.Message,
		})
	}
	return annotations
}
