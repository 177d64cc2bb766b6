package web

import (
	"context"
	"slices"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/unattended"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/web/format"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// skillImprove is the section about making the skill better.
type skillImprove struct {
	Policy  unattended.Policy
	Spent   float64
	Gate    gates.Mode    // of the entry; "" if the skill is not in the registry
	Monthly string        // what was typed
	Suites  []labelledURL // by which the skill can be improved; the value is a URL
}

// A labelledURL is an option of a form, or a link.
type labelledURL struct{ Value, Label string }

// Modes are those of the form, with what they do.
func (skillImprove) Modes() []labelledURL {
	return []labelledURL{
		{string(unattended.Off), "off"},
		{string(unattended.Propose), "propose: a person decides"},
		{string(unattended.Publish), "publish: what is proved becomes a version, if its gate lets it pass"},
	}
}

// addImprove adds what is known about improving the skill, and returns the gate's
// policy, which is zero for a skill without an entry.
func (s *Service) addImprove(ctx context.Context, c access.Caller, view *skillPage) (policy gates.Policy, err error) {
	part := &view.Improve
	if part.Policy, part.Spent, err = s.Unattended.PolicyOf(ctx, c.OrgID, view.ID); err != nil {
		return policy, err
	}
	part.Monthly = strconv.FormatFloat(part.Policy.MonthlyUSD, 'f', -1, 64)
	if view.Entry == nil {
		return policy, nil
	}
	policy, _, err = s.Gates.PolicyOf(ctx, c.OrgID, view.Entry.ID)
	part.Gate = policy.Mode
	return policy, err
}

// improveShownSuites bounds how many suites are read for the links to their improve runs.
const improveShownSuites = 5

// addSuites adds the suites that the policy names, or, if it names none, those of the skill's
// sources that can be run, where their cases can improve a description.
func (s *Service) addSuites(
	ctx context.Context, orgID string, i *skillImprove, all []overview.RelatedSuite, policy gates.Policy, entryID string,
) error {
	for _, related := range all {
		named := slices.Contains(policy.Suites, related.ID) || len(policy.Suites) == 0 && related.Runnable
		if !named || len(i.Suites) == improveShownSuites {
			continue
		}
		suite, err := s.Suites.Get(ctx, orgID, related.ID)
		if err != nil {
			return err
		}
		if improve.Check(suite, edit.Description) == nil {
			url := format.Path("suites", suite.ID, "improve") + "?subject=entry:" + entryID
			i.Suites = append(i.Suites, labelledURL{url, suite.Name})
		}
	}
	return nil
}
