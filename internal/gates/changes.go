package gates

import (
	"context"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/registry/gateapi"
)

// addChanges says of each suite who changed it since the last gate of a version of the
// entry. Gates of pull requests and folders are not such: whoever may ask for one could
// otherwise make changes disappear from the next answer.
func (s *Service) addChanges(ctx context.Context, g Gate, all []trialRun, suites []gateapi.Suite) error {
	for _, r := range all {
		if r.step != screen || r.arm != newArm {
			continue
		}
		for i := range suites {
			if suites[i].SuiteID != r.suiteID {
				continue
			}
			var err error
			if suites[i].Changes, err = s.changesOf(ctx, g, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Service) changesOf(ctx context.Context, g Gate, r trialRun) ([]gateapi.SuiteChange, error) {
	last, err := lastConditions(ctx, s.DB, g, r.suiteID)
	if err != nil || last == "" {
		return nil, err
	}
	edits, err := s.Suites.Edits(ctx, s.DB, g.OrgID, r.suiteID, suiteVersion(last), suiteVersion(r.conditions))
	changes := make([]gateapi.SuiteChange, len(edits))
	for i, e := range edits {
		changes[i] = gateapi.SuiteChange{
			By: e.By, At: httpapi.Time(e.At), Added: append([]string{}, e.Added...), Removed: append([]string{}, e.Removed...),
			Changed: append([]string{}, e.Changed...), Settings: append([]string{}, e.Settings...),
		}
	}
	return changes, err
}

// suiteVersion is the version of the suite in the conditions of a run, e.g. 3 of
// "3:5f0c...".
func suiteVersion(conditions string) int64 {
	version, _, _ := strings.Cut(conditions, ":")
	n, _ := strconv.ParseInt(version, 10, 64) // planRun wrote it
	return n
}
