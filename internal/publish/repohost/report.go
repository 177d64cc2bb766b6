package repohost

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/attempt"
)

// A Report is what a commit's status and check-run say.
type Report struct {
	GateID      string // "" if no gate has decided about the commit
	State       host.State
	Conclusion  host.Conclusion // "" while a gate is running
	Title       string
	Description string // of the status; "" for the title
	Summary     string // in Markdown
	URL         string
	Annotations []host.Annotation
}

// Gates says what gates decided about versions.
type Gates interface {
	// ReportOf is what the gate of a version of the connection's entry says; false
	// if the version met none.
	ReportOf(ctx context.Context, c Connection, version string) (Report, bool, error)
	// Rerun starts the gate of a version again; false if there is nothing to decide.
	Rerun(ctx context.Context, c Connection, version string) (bool, error)
}

// reportOf is what the commit of an attempt says now.
func (s *Service) reportOf(ctx context.Context, c Connection, a attempt.Attempt) (Report, error) {
	if s.Gates != nil && a.Version != nil {
		report, gated, err := s.Gates.ReportOf(ctx, c, *a.Version)
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

// VersionDecided makes the commits of a version say what was decided about it,
// which the message tells in a sentence. The entry is locked.
func (s *Service) VersionDecided(ctx context.Context, tx *store.Tx, orgID, entryID, version, message string) error {
	all, err := attempt.AllOfVersion(ctx, tx, orgID, entryID, version)
	if err != nil || len(all) == 0 {
		return err
	}
	mode, err := modeOf(ctx, tx, orgID)
	if err != nil {
		return err
	}
	var c Connection
	for _, a := range all {
		if a.ConnectionID != c.ID { // most versions are of one
			if c, err = connectionByID(ctx, tx, a.ConnectionID); err != nil {
				return err
			}
		}
		if mode == ModeOff || !c.WriteBackEnabled {
			if err := attempt.SetMessage(ctx, tx, a, message); err != nil {
				return err
			}
			continue
		}
		if err := attempt.AskWriteBack(ctx, tx, a, message); err != nil {
			return err
		}
		if err := s.enqueueWriteBack(ctx, tx, a.ID, c.OrgID); err != nil {
			return err
		}
	}
	return nil
}
