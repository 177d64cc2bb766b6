package repohost

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// A Report is the content of a commit's status and check run.
type Report struct {
	GateID      string // "" if no gate decided about the commit
	State       host.State
	Conclusion  host.Conclusion // "" while the gate is running
	Title       string
	Description string // of the status; "" to use Title
	Summary     string // Markdown
	URL         string
	Annotations []host.Annotation
}

// OnReport is a hook of the write-back: it knows the verdicts of gates.
type OnReport interface {
	// ReportOf returns the report of the gate that a version of the connection's entry
	// went through; false if there was none.
	ReportOf(ctx context.Context, c Connection, version string) (Report, bool, error)
}

// reportOf returns the current report for an attempt's commit: the gate's, if there was
// one.
func (s *Service) reportOf(ctx context.Context, c Connection, a publication.Attempt) (Report, error) {
	if s.OnReport != nil && a.Version != nil {
		report, gated, err := s.OnReport.ReportOf(ctx, c, *a.Version)
		if err != nil || gated {
			return report, err
		}
	}
	report := Report{
		State: stateOf(a), Conclusion: host.ConclusionSuccess, Title: a.Message, Summary: a.Message, URL: s.entryURL(c),
	}
	if a.Status.Bad() {
		report.Conclusion, report.Title, report.Description = host.ConclusionFailure, "Not published", a.Message
	}
	if len(a.Findings) > 0 {
		report.Summary += fmt.Sprintf("\n\n%d findings are shown beside the files.", len(a.Findings))
	}
	return report, nil
}

// VersionDecided updates the commits of a version after a decision about it, with a
// sentence that says what was decided. The caller has locked the entry.
func (s *Service) VersionDecided(ctx context.Context, tx *store.Tx, orgID, entryID, version, message string) error {
	all, err := publication.AllOfVersion(ctx, tx, orgID, entryID, version)
	if err != nil || len(all) == 0 {
		return err
	}
	mode, err := modeOf(ctx, tx, orgID)
	if err != nil {
		return err
	}
	var c Connection
	for _, a := range all {
		if a.ConnectionID != c.ID { // all commits of a version usually belong to one connection
			if c, err = connectionByID(ctx, tx, a.ConnectionID); err != nil {
				return err
			}
		}
		// Without write-back the message is still shown on our pages.
		if mode == ModeOff || !c.WriteBackEnabled {
			if err := publication.SetMessage(ctx, tx, a, message); err != nil {
				return err
			}
			continue
		}
		if err := publication.AskWriteBack(ctx, tx, a, message); err != nil {
			return err
		}
		if err := s.enqueueWriteBack(ctx, tx, a.ID, c.OrgID); err != nil {
			return err
		}
	}
	return nil
}
