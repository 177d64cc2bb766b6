package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

// maxSkills is how many skills of the registry a report reads. A report is computed
// in memory; no listing of an agent has nearly as many.
const maxSkills = 10_000

const secondsPerDay = 24 * 60 * 60

// Of returns the report of an organisation. It makes the same number of queries however
// many skills there are.
func (s *Service) Of(ctx context.Context, orgID string, o Options) (r Report, err error) {
	defer fault.Wrap(&err, "catalogue report")
	if err := o.check(); err != nil {
		return r, err
	}
	if o.Window == 0 {
		o.Window = o.Agent.Window()
	}
	r = Report{Options: o, Generated: store.Now()}
	// Midnight in UTC, Days-1 days ago: rollups are by day.
	since := r.Generated.Truncate(secondsPerDay*time.Second).AddDate(0, 0, 1-o.Days)
	texts, err := s.readSkills(ctx, orgID, &r)
	if err != nil {
		return r, err
	}
	if err := s.readCounts(ctx, orgID, &r, since); err != nil {
		return r, err
	}
	standing, err := s.Costs.Standing(ctx, orgID, o.Days)
	if err != nil {
		return r, err
	}
	if standing.Sessions > 0 {
		r.Sessions, r.Model = &standing.Sessions, standing.Model
	}
	// The order matters: each step uses what the ones before it filled in.
	r.list(texts)
	r.judge(since)
	r.price(standing)
	r.switchOff(texts)
	found, err := comparisons.Findings(ctx, s.DB, orgID, nil)
	if err != nil {
		return r, err
	}
	r.retire(found, standing)
	if err := s.readTests(ctx, orgID, &r, since); err != nil {
		return r, err
	}
	return r, s.measure(ctx, orgID, &r, since)
}

// The page checks by it, too, since its parameters have no schema.
func (o Options) check() error {
	switch {
	case o.Agent != listing.ClaudeCode && o.Agent != listing.Codex:
		return fault.Invalid("agent", "agent must be one of: claude-code, codex")
	case o.Window != 0 && (o.Window < MinWindow || o.Window > MaxWindow):
		return fault.Invalid("context_window", "context_window must be between %d and %d tokens", MinWindow, MaxWindow)
	case o.Days < 1 || o.Days > MaxDays:
		return fault.Invalid("days", "days must be between 1 and %d", MaxDays)
	}
	return nil
}

// readSkills fills in the skills of the registry, and returns their texts.
func (s *Service) readSkills(ctx context.Context, orgID string, r *Report) (texts []listing.Skill, err error) {
	// One more tells whether some were left out.
	err = eachEntry(ctx, s.DB, orgID, maxSkills+1, func(e entry) error {
		if len(r.Skills) == maxSkills {
			r.Totals.LeftOut = true
			return nil
		}
		r.Skills = append(r.Skills, Skill{
			EntryID: e.id, SkillID: e.skillID, Name: e.name, Version: e.version, InRegistry: true, CreatedAt: e.createdAt,
			OwnPolicy: e.ownPolicy, bytes: e.bytes,
		})
		texts = append(texts, e.text(r.Agent))
		return nil
	})
	return texts, err
}

// text is what the agent reads of the skill to list it.
func (e entry) text(agent listing.Agent) listing.Skill {
	k := listing.Skill{Name: e.name, Description: e.description}
	// Most skills have neither field, and need not be parsed.
	own := [][]byte{[]byte("when_to_use"), []byte("disable-model-invocation")}
	if agent != listing.ClaudeCode || !slices.ContainsFunc(own, func(key []byte) bool { return bytes.Contains(e.head, key) }) {
		return k
	}
	parsed, err := skillpkg.ParseSkill([]byte(strings.ToValidUTF8(string(e.head), "")))
	if err != nil { // it is longer than what was read, or broken
		return k
	}
	for _, f := range parsed.Fields {
		value, _ := f.Value.(string)
		switch f.Key {
		case "when_to_use":
			k.WhenToUse = value
		case "disable-model-invocation":
			if value == "true" {
				k.Visibility = listing.UserInvocableOnly
			}
		}
	}
	return k
}

// readCounts fills in what agents reported, and adds the skills that are not in the
// registry. A skill that agents know as plugin:name counts for the entry of that name:
// the registry is installed as plugins, too.
func (s *Service) readCounts(ctx context.Context, orgID string, r *Report, since time.Time) error {
	all, err := countsOfOrg(ctx, s.DB, orgID, since.Unix()/secondsPerDay)
	if err != nil {
		return err
	}
	byID, byName := map[string]int{}, map[string]int{}
	for i, k := range r.Skills {
		byName[k.Name] = i
		if k.SkillID != "" {
			byID[k.SkillID] = i
		}
	}
	sums := make([]counts, len(r.Skills))
	for _, c := range all {
		r.Reported = r.Reported || c.checks > 0 || c.seen > 0
		i, known := byID[c.skillID]
		if !known {
			// Without the plugin's name, e.g. "pdf" for "tools:pdf".
			i, known = byName[c.name[strings.LastIndexByte(c.name, ':')+1:]]
		}
		if !known {
			if !c.listed {
				continue
			}
			i = len(r.Skills)
			r.Skills = append(r.Skills, Skill{SkillID: c.skillID, Name: c.name, CreatedAt: c.createdAt})
			sums = append(sums, counts{})
		}
		sum := &sums[i]
		sum.offered += c.offered
		sum.used += c.used
		sum.triggers += c.triggers
		sum.confidence += c.confidence
		sum.confidences += c.confidences
	}
	for i := range r.Skills {
		k, sum := &r.Skills[i], sums[i]
		k.Uses = sum.triggers
		if r.Reported {
			k.UsedSessions = &sum.used
		}
		if sum.offered > 0 {
			k.OfferedSessions = &sum.offered
		}
		// Every use was reported with the confidence 1, as calls by name are.
		k.explicit = sum.triggers > 0 && sum.confidences == sum.triggers && sum.confidence == sum.triggers*1_000_000_000
	}
	return nil
}

// list computes the listing of the agent. The skills with texts are the first.
func (r *Report) list(texts []listing.Skill) {
	// Claude Code shortens the descriptions of rarely used skills first.
	for i := range texts {
		texts[i].Uses = r.Skills[i].Uses
	}
	l := listing.Of(r.Agent, texts, r.Window)
	r.Catalogue = Catalogue{l.Unit, l.Limit, l.Needed, l.Used}
	r.Totals.Skills, r.Totals.Others = len(texts), len(r.Skills)-len(texts)
	for i, line := range l.Lines {
		k := &r.Skills[i]
		tokens := listing.TokensOf(line.Shown)
		k.Line, k.Tokens = line, &tokens
		r.Totals.Tokens += tokens
		if line.Form != listing.Hidden {
			r.Totals.CutText += len([]rune(line.Text)) - line.Kept
		}
		switch line.Form {
		case listing.Full:
			r.Totals.Full++
		case listing.Truncated:
			r.Totals.Truncated++
		case listing.Bare:
			r.Totals.NameOnly++
		case listing.Omitted:
			r.Totals.Omitted++
		case listing.Hidden:
			r.Totals.Hidden++
		}
	}
}

// When a skill is used rarely: it was offered in so many sessions at least, and used in
// less than one of rareShare. explicitUses is how many uses show that a skill is only
// called by name.
const (
	rareOffers   = 100
	rareShare    = 100
	explicitUses = 3
)

// judge decides which skills are not used, and what to do with each. Nothing is
// proposed for a skill that is younger than the window.
func (r *Report) judge(since time.Time) {
	for i := range r.Skills {
		k := &r.Skills[i]
		k.Use, k.Action = Unknown, listing.On
		old := k.CreatedAt.Before(since)
		switch {
		case k.Uses > 0:
			k.Use = Used
		case r.Reported && (old || k.OfferedSessions != nil):
			k.Use = Unused
			r.Totals.Unused++
		}
		if k.Line.Form == listing.Hidden {
			continue
		}
		switch {
		case k.Use == Unused && old && k.OfferedSessions != nil:
			k.Action, k.Reason = listing.Off, fmt.Sprintf("offered in %d sessions, never used", *k.OfferedSessions)
		case k.Use == Unused && old:
			k.Action, k.Reason = listing.Off, "never used; no agent reports whether it was offered"
		case k.explicit && k.Uses >= explicitUses:
			k.Action, k.Reason = listing.UserInvocableOnly, fmt.Sprintf("used %d times, always by its name", k.Uses)
		case k.OfferedSessions != nil && *k.OfferedSessions >= rareOffers && *k.UsedSessions*rareShare < *k.OfferedSessions:
			k.Action = listing.NameOnly
			k.Reason = fmt.Sprintf("used in %d of %d sessions that it was offered in", *k.UsedSessions, *k.OfferedSessions)
		}
		if r.Agent == listing.Codex && k.Action == listing.NameOnly { // which it cannot do
			k.Action, k.Reason = listing.On, ""
		}
	}
}

// price computes what the listing costs. Offers are exact; without them all sessions
// are assumed, which is an upper bound.
func (r *Report) price(standing costs.Standing) {
	for i := range r.Skills {
		k := &r.Skills[i]
		if k.Tokens == nil {
			continue
		}
		k.DollarsPerSession = standing.PerSession(*k.Tokens)
		var sessions int64
		switch {
		case k.OfferedSessions != nil:
			k.Basis, sessions = Offered, *k.OfferedSessions
		case r.Sessions != nil:
			k.Basis, sessions = AllSessions, *r.Sessions
		default:
			continue
		}
		tokens := *k.Tokens * sessions
		k.TokensInWindow, k.DollarsInWindow = &tokens, standing.PerSession(tokens)
		if k.UsedSessions != nil && *k.UsedSessions > 0 {
			perUse := tokens / *k.UsedSessions
			k.TokensPerUse = &perUse
		}
	}
	r.Totals.PerSession = standing.PerSession(r.Totals.Tokens)
	if r.Sessions != nil {
		r.Totals.InWindow = standing.PerSession(r.Totals.Tokens * *r.Sessions)
	}
}

// daysOfMonth is how many days the money of a month is for.
const daysOfMonth = 30

// retire collects the skills whose current version a comparison found to give nothing, with what
// they cost: the listing, and SKILL.md in the sessions that used the skill, as if these had loaded
// it at their beginning.
func (r *Report) retire(found map[string]comparisons.Finding, standing costs.Standing) {
	r.Retire = []api.RetirableSkill{}
	for _, k := range r.Skills {
		f, ok := found[k.EntryID]
		if !ok || !f.Retire || f.Version != k.Version {
			continue
		}
		one := api.RetirableSkill{
			SkillID: orNull(k.SkillID), EntryID: k.EntryID, Name: k.Name, ComparisonID: f.ComparisonID, Reason: f.Reason,
		}
		if k.TokensInWindow != nil && k.UsedSessions != nil && k.bytes != nil {
			tokens := *k.TokensInWindow + listing.TokensOfBytes(*k.bytes)**k.UsedSessions
			if month := standing.PerSession(tokens); month != nil {
				*month *= daysOfMonth / float64(r.Days)
				one.CostUSDMonth = month
			}
		}
		r.Retire = append(r.Retire, one)
	}
	slices.SortStableFunc(r.Retire, func(a, b api.RetirableSkill) int {
		return cmp.Compare(dollarsOf(b), dollarsOf(a))
	})
}

// dollarsOf sorts an unknown cost last.
func dollarsOf(k api.RetirableSkill) float64 {
	if k.CostUSDMonth == nil {
		return -1
	}
	return *k.CostUSDMonth
}

// switchOff collects the skills with an action, and computes the listing without
// them. Skills that the registry lacks have no text, but can be switched off all the
// same.
func (r *Report) switchOff(texts []listing.Skill) {
	sw := SwitchOff{Overrides: map[string]listing.Visibility{}, Forms: map[listing.Form]int{}}
	after := slices.Clone(texts)
	for i, k := range r.Skills {
		if k.Action == listing.On {
			continue
		}
		sw.Skills = append(sw.Skills, k)
		if i < len(after) {
			after[i].Visibility = k.Action
		}
		if strings.Contains(k.Name, ":") {
			sw.Plugins = append(sw.Plugins, k.Name)
		} else {
			sw.Overrides[k.Name] = k.Action
		}
		if k.InRegistry && k.Action != listing.NameOnly {
			sw.Implicit = append(sw.Implicit, k.Name)
		}
	}
	slices.SortStableFunc(sw.Skills, func(a, b Skill) int { return cmp.Compare(tokensOf(b), tokensOf(a)) })
	l := listing.Of(r.Agent, after, r.Window)
	sw.After = Catalogue{l.Unit, l.Limit, l.Needed, l.Used}
	for _, line := range l.Lines {
		sw.Forms[line.Form]++
		sw.Tokens += listing.TokensOf(line.Shown)
	}
	r.Switch = sw
}

// tokensOf is 0 for an unknown text, which sorts it last.
func tokensOf(k Skill) int64 {
	if k.Tokens == nil {
		return 0
	}
	return *k.Tokens
}

// Costly returns the used skills whose listing costs most for each use, at most n. A
// skill that is never used has no cost per use, and is in SwitchOff instead.
func (r *Report) Costly(n int) (all []Skill) {
	for _, k := range r.Skills {
		if k.Use == Used && k.TokensPerUse != nil {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b Skill) int { return cmp.Compare(*b.TokensPerUse, *a.TokensPerUse) })
	return all[:min(len(all), n)]
}
