package gates

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// addChanges says of each suite who changed it since the last gate of another version of the
// entry, and adds the suites that were deleted since. Gates of pull requests and folders do
// not count: whoever may ask for one could otherwise make changes disappear from the next
// answer.
func (s *Service) addChanges(ctx context.Context, g Gate, all []trialRun, found []api.GateSuite) ([]api.GateSuite, error) {
	last, err := lastConditions(ctx, s.DB, g)
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for _, r := range all {
		if r.step == screen && r.arm == newArm {
			now[r.suiteID] = r.conditions
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		// This gate didn't run the suite. What took it away may be any later change.
		to := int64(math.MaxInt64)
		if conditions, ok := now[id]; ok {
			to = suiteVersion(conditions)
		}
		changes, err := s.changesOf(ctx, g, id, suiteVersion(last[id]), to)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(found, func(f api.GateSuite) bool { return f.SuiteID == id })
		switch {
		case i >= 0:
			found[i].Changes = changes
		case len(changes) > 0 && now[id] == "":
			found = append(found, api.GateSuite{
				SuiteID: id, RunIDs: []string{}, Better: []string{}, Worse: []string{}, Broken: []string{},
				Confirmed: []api.GateConfirmed{}, Results: []api.GateCase{}, Changes: changes,
			})
		}
	}
	return found, nil
}

// changesOf lists the edits of a suite after one version up to another. Slices are never nil:
// the API promises arrays.
func (s *Service) changesOf(ctx context.Context, g Gate, suiteID string, after, to int64) ([]api.GateSuiteChange, error) {
	edits, err := s.Suites.Edits(ctx, s.DB, g.OrgID, suiteID, after, to)
	changes := make([]api.GateSuiteChange, len(edits))
	for i, e := range edits {
		changes[i] = api.GateSuiteChange{
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
