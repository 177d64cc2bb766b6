package proposals

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/signals"
	"github.com/whetstone-dev/whetstone/internal/stats"
)

// Contributors is the ProposedBy of proposals that come from contributors'
// signals. Clients list and apply only these.
const Contributors = "contributor_aggregate"

// evidence is the JSON that a proposal from signals is based on.
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

// newDraft turns a finding into a proposal. The description is the skill's
// current one, "" if it is not in the registry.
func newDraft(orgID string, f signals.Finding, description string) Draft {
	e := evidence{
		Signals: f.Signals, SkillSignals: f.Total, Contributors: f.Contributors, Buckets: []evidenceBucket{},
	}
	buckets := slices.SortedFunc(maps.Keys(f.Buckets), func(a, b string) int { // largest first
		return cmp.Or(cmp.Compare(f.Buckets[b], f.Buckets[a]), strings.Compare(a, b))
	})
	for _, name := range buckets {
		e.Buckets = append(e.Buckets, evidenceBucket{name, f.Buckets[name]})
	}
	if f.FirstWeek != "" {
		e.Period = period{&f.FirstWeek, &f.LastWeek}
	}
	// The lower end of the Wilson interval, so that few signals are little confidence.
	confidence, _ := stats.Wilson(float64(f.Signals)/float64(f.Total), int(f.Total))
	d := Draft{
		OrgID: orgID, SkillName: f.SkillName, Finding: f.Name, Type: Description, Reason: reasonFor(f),
		Confidence: &confidence, Evidence: e, ProposedBy: Contributors,
	}
	if f.Name == signals.LowGrade {
		// The skill was used and did badly: that is the fault of its instructions,
		// and signals do not say which.
		d.Type = Body
		return d
	}
	if description != "" {
		d.CurrentValue = &description
		d.ProposedValue = extendDescription(description, buckets)
	}
	return d
}

func reasonFor(f signals.Finding) string {
	noticed := map[string]string{
		signals.MissedTrigger: "did not trigger when it was wanted",
		signals.MissedSession: "was missed in the session",
		signals.LowGrade:      "did its work with the grade C or F",
	}[f.Name]
	reason := fmt.Sprintf("%d of %d signals say that the skill %s", f.Signals, f.Total, noticed)
	if f.FirstWeek != "" {
		reason += fmt.Sprintf(", from %s to %s", f.FirstWeek, f.LastWeek)
	}
	return reason + "."
}

// extendDescription adds the three most frequent buckets in which the skill
// was missed, e.g. "Reads PDF files. Use it also for search, migration."; nil
// if there is none with a name.
func extendDescription(description string, buckets []string) *string {
	names := slices.DeleteFunc(buckets, func(name string) bool { return name == "other" })
	if len(names) == 0 {
		return nil
	}
	extended := strings.TrimRight(description, " \n")
	if !strings.HasSuffix(extended, ".") {
		extended += "."
	}
	extended += " Use it also for " + strings.Join(names[:min(len(names), 3)], ", ") + "."
	return &extended
}
