package gates

import (
	"context"
	"errors"
	"fmt"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// bytesPerToken estimates tokens of English text, as validation does. An exact count would
// depend on the model that reads the skill.
const bytesPerToken = 4

// Content opens what a gate tries. The caller closes the package. For the gate of a pull
// request or folder that is a snapshot.
func (s *Service) Content(ctx context.Context, g Gate) (*skillpkg.Package, error) {
	skill, err := s.Runs.Subjects().Find(ctx, g.OrgID, g.subject())
	if err != nil {
		return nil, err
	}
	return skill.Open(ctx)
}

// staticFloors checks the demands that need no trials. They are checked before trials that cost
// money are started.
func (s *Service) staticFloors(ctx context.Context, g Gate) (all []api.GateFloor, err error) {
	want := g.Policy.Floors
	if want.Validation == nil && want.SkillTokens == nil {
		return nil, nil
	}
	pkg, err := s.Content(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pkg.Close()) }()
	if want.Validation != nil {
		report, err := lint.Check(ctx, pkg)
		if err != nil {
			return nil, err
		}
		status := report.Status()
		all = append(all, api.GateFloor{
			Name: "validation", Want: *want.Validation, Got: status,
			Passed: status == lint.StatusPass || status == *want.Validation,
		})
	}
	// A package without a SKILL.md is refused by the validation, not by its length.
	if want.SkillTokens != nil && pkg.RequireSkill() == nil {
		text, err := pkg.ReadFile(pkg.SkillPath)
		if err != nil {
			return nil, err
		}
		tokens := float64(len(text) / bytesPerToken)
		all = append(all, api.GateFloor{
			Name: "skill_md_tokens", Want: fmt.Sprintf("at most %d", *want.SkillTokens), Got: fmt.Sprintf("%.0f", tokens),
			Value: &tokens, Passed: tokens <= float64(*want.SkillTokens),
		})
	}
	return all, nil
}
