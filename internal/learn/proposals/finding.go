package proposals

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
)

// Contributors is the ProposedBy of proposals that come from contributors'
// signals. Clients list and apply only these.
const Contributors = "contributor_aggregate"

// evidence is the JSON that a proposal from signals is based on. Only shown cells of k-anonymous
// figures go into it, so it may be published as it is.
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

func (e evidence) bucketNames() (names []string) {
	for _, b := range e.Buckets {
		names = append(names, b.Bucket)
	}
	return names
}

type period struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

// newDraft turns a finding into a proposal, which has no words yet. Its words are added by offer,
// if the skill's are known.
func newDraft(orgID string, f signals.Finding) Draft {
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
	}
	return d
}

// offer is what signals propose for the current words: a description that names the
// buckets in which the skill was missed. What is wrong with a body only a person can
// say. Without a value the change says only what it would be made for. The model isn't asked: the
// proposal is a starting point that a person edits.
func offer(w Words, t Type, buckets []string) (current, proposed *string, c Change) {
	current = t.value(w.parsed)
	c = Change{EntryID: w.EntryID, BaseVersion: w.Version, SourceID: w.SourceID, BaseDigest: Digest(w.SkillMD), Edits: []Edit{}}
	if t != Description {
		return current, nil, c
	}
	extended := extendDescription(*current, buckets)
	if extended == nil {
		return current, nil, c
	}
	made, err := w.change(TargetDescription, *extended, "")
	if err != nil {
		return current, nil, c // an unusual frontmatter: a person must change it
	}
	return current, extended, made
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

// maxDescription is the longest description that a skill may have, in characters. It is the limit
// of the skill format.
const maxDescription = 1024

// extendDescription adds the three most frequent buckets in which the skill
// was missed, e.g. "Reads PDF files. Use it also for search, migration."; nil
// if there is none with a name that it does not have yet, or no room. Three are enough to be useful
// and keep the sentence readable; the class "other" names nothing.
func extendDescription(description string, buckets []string) *string {
	names := slices.DeleteFunc(slices.Clone(buckets), func(name string) bool {
		return name == "other" || strings.Contains(strings.ToLower(description), name)
	})
	if len(names) == 0 {
		return nil
	}
	extended := strings.TrimRight(description, " \n")
	if extended != "" && !strings.HasSuffix(extended, ".") {
		extended += "."
	}
	extended = strings.TrimSpace(extended + " Use it also for " + strings.Join(names[:min(len(names), 3)], ", ") + ".")
	if utf8.RuneCountInString(extended) > maxDescription {
		return nil
	}
	return &extended
}
