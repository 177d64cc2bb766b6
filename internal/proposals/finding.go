package proposals

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/stats"
)

// A Finding is something that many contributors noticed about a skill.
type Finding struct {
	SkillName    string
	Name         string // missed_trigger, missed_session or low_grade
	Signals      int64  // that say so
	Total        int64  // of the skill
	Contributors int    // of the skill
	Buckets      map[string]int64
	FirstWeek    string // "" if not known
	LastWeek     string
}

// A Finder knows what contributors' signals say.
type Finder interface {
	// Findings lists what enough contributors have noticed.
	Findings(ctx context.Context, orgID string) ([]Finding, error)
}

// Contributors is who proposes what signals say. Clients apply no other's.
const Contributors = "contributor_aggregate"

// The gate that a finding must pass to become a proposal.
const (
	minSignals      = 10
	minContributors = 3
)

func (f Finding) passes() bool { return f.Signals >= minSignals && f.Contributors >= minContributors }

// evidence is what a proposal rests on.
type evidence struct {
	Signals      int64            `json:"signals"`
	SkillSignals int64            `json:"skill_signals"`
	Contributors int              `json:"contributors"`
	Buckets      []evidenceBucket `json:"buckets"`
	Period       period           `json:"period"`
}

type evidenceBucket struct {
	Bucket string `json:"bucket"`
	Count  int64  `json:"count"`
}

type period struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

func (f Finding) evidence() evidence {
	e := evidence{Signals: f.Signals, SkillSignals: f.Total, Contributors: f.Contributors, Buckets: []evidenceBucket{}}
	for _, name := range f.buckets() {
		e.Buckets = append(e.Buckets, evidenceBucket{name, f.Buckets[name]})
	}
	if f.FirstWeek != "" {
		e.Period = period{&f.FirstWeek, &f.LastWeek}
	}
	return e
}

// buckets are the names of the buckets, the fullest first.
func (f Finding) buckets() []string {
	return slices.SortedFunc(maps.Keys(f.Buckets), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.Buckets[b], f.Buckets[a]), strings.Compare(a, b))
	})
}

// draft makes a proposal of the finding; description is what the skill says
// of itself, "" if nobody knows.
func (f Finding) draft(orgID, description string) Draft {
	sure, _ := stats.Wilson(float64(f.Signals)/float64(f.Total), int(f.Total))
	d := Draft{
		OrgID: orgID, SkillName: f.SkillName, Finding: f.Name, Type: Description, Reason: f.reason(),
		Confidence: &sure, Evidence: f.evidence(), ProposedBy: Contributors,
	}
	if f.Name == "low_grade" {
		d.Type = Body
		return d
	}
	if description != "" {
		d.CurrentValue = &description
		d.ProposedValue = f.describe(description)
	}
	return d
}

func (f Finding) reason() string {
	noticed := map[string]string{
		"missed_trigger": "did not come when it was wanted",
		"missed_session": "was missed in the session",
		"low_grade":      "did its work with the grade C or F",
	}[f.Name]
	reason := fmt.Sprintf("%d of %d signals say that the skill %s", f.Signals, f.Total, noticed)
	if f.FirstWeek != "" {
		reason += fmt.Sprintf(", from %s to %s", f.FirstWeek, f.LastWeek)
	}
	return reason + "."
}

// describe adds what the skill was missed for to its description; nil if that
// is not known.
func (f Finding) describe(description string) *string {
	names := slices.DeleteFunc(f.buckets(), func(name string) bool { return name == "other" })
	if len(names) == 0 {
		return nil
	}
	names = names[:min(len(names), 3)]
	text := strings.TrimRight(description, " \n")
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	text += " Use it also for " + strings.Join(names, ", ") + "."
	return &text
}
