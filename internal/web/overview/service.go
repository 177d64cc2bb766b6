package overview

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// secondsPerDay converts between times and the days of skill_days, which are
// counted since the epoch in UTC.
const secondsPerDay = 24 * 60 * 60

func dateOf(day int64) string { return time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly) }

// Days returns the last days of each skill, oldest first, including days without
// activity. It does not check the organisation: the ids must come from a list of
// the caller's skills.
func (s *Service) Days(ctx context.Context, skillIDs []string, days int) (map[string][]Day, error) {
	from := time.Now().Unix()/secondsPerDay - int64(days) + 1
	rows, err := daysOfSkills(ctx, s.DB, skillIDs, from)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]Day, len(skillIDs))
	for _, id := range skillIDs {
		all[id] = make([]Day, days)
		for i := range all[id] {
			all[id][i].Date = dateOf(from + int64(i))
		}
	}
	for _, r := range rows {
		if at := r.day - from; at < int64(days) { // a client's clock may run ahead
			r.Date = dateOf(r.day)
			all[r.skillID][at] = r.Day
		}
	}
	return all, nil
}

// SkillNames returns the names of an organisation's skills by id. Ids of other
// organisations are missing from the result.
func (s *Service) SkillNames(ctx context.Context, orgID string, skillIDs []string) (map[string]string, error) {
	found, err := skillNames(ctx, s.DB, orgID, skillIDs)
	names := make(map[string]string, len(found))
	for _, n := range found {
		names[n.id] = n.name
	}
	return names, err
}

// Firing lists the firing alerts of an organisation, oldest first.
func (s *Service) Firing(ctx context.Context, orgID string) ([]Firing, error) {
	return firingOfOrg(ctx, s.DB, orgID)
}

// Waiting lists the sources of an organisation with pending suggestions, those
// with the most first.
func (s *Service) Waiting(ctx context.Context, orgID string) ([]Waiting, error) {
	return waitingOfOrg(ctx, s.DB, orgID)
}

// Failing lists the connections of an organisation whose last publish failed,
// newest first.
func (s *Service) Failing(ctx context.Context, orgID string) ([]Failing, error) {
	return failingOfOrg(ctx, s.DB, orgID)
}

// Existing returns which of the ids still exist in the organisation as a skill,
// entry, alert, source, suite, run, improve run, proposal or connection, so that a
// page does not link to something deleted. It is one query.
func (s *Service) Existing(ctx context.Context, orgID string, ids []string) (map[string]bool, error) {
	found, err := existingIDs(ctx, s.DB, orgID, ids)
	exists := map[string]bool{}
	for _, id := range found {
		exists[id] = true
	}
	return exists, err
}

// Changes lists the newest changes in an organisation since a time, newest first.
// Consecutive new skills share a row: an import reports many at once. All of them are
// read, so that their number is true.
func (s *Service) Changes(ctx context.Context, orgID string, since time.Time, limit int) ([]Change, error) {
	var all []Change
	for _, read := range []changeQuery{publishesSince, rollbacksSince, alertsSince, skillsSince} {
		found, err := read(ctx, s.DB, orgID, since, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(b.At.UnixMicro(), a.At.UnixMicro()) })
	var merged []Change
	for _, c := range all {
		if last := len(merged) - 1; last >= 0 && c.Kind == "new" && merged[last].Kind == "new" {
			merged[last].Others++
			continue
		}
		merged = append(merged, c)
	}
	return merged[:min(len(merged), limit)], nil
}

// Entry returns the registry's entry of a skill of the organisation; without
// one the error is of kind fault.NotFound.
func (s *Service) Entry(ctx context.Context, orgID, skillID string) (Entry, error) {
	return entryOfSkill(ctx, s.DB, orgID, skillID)
}

// Prompts returns what people asked when the sessions activated a skill, by the ids of the
// sessions, where the senders share it.
func (s *Service) Prompts(ctx context.Context, orgID string, all []sessions.Session) (map[string]string, error) {
	var of []skills.Session
	for _, one := range all {
		for _, k := range one.Skills {
			if k.Activated {
				of = append(of, skills.Session{SkillID: k.SkillID, Hash: one.ID})
			}
		}
	}
	refs, err := skills.PromptsOfSessions(ctx, s.DB, of)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	texts, err := telemetry.PromptTexts(ctx, s.DB, orgID, slices.Collect(maps.Values(refs)))
	prompts := map[string]string{}
	for session, ref := range refs {
		prompts[session] = texts[ref]
	}
	return prompts, err
}

// Missed returns the prompts that a skill missed or failed at, newest first, at
// most limit.
func (s *Service) Missed(ctx context.Context, orgID, skillID string, limit int) ([]telemetry.ConsideredPrompt, error) {
	return telemetry.MissedPrompts(ctx, s.DB, orgID, skillID, limit)
}
