package overview

import (
	"cmp"
	"context"
	"slices"
	"time"
)

const hoursPerDay = 24

// today is the day that is now, in days since the epoch, UTC.
func today() int64 { return time.Now().Unix() / (hoursPerDay * 60 * 60) }

func dateOf(day int64) string {
	return time.Unix(day*hoursPerDay*60*60, 0).UTC().Format(time.DateOnly)
}

// Days returns the last days of each skill, oldest first, every day present.
// The skills must be the caller's: the ids come from a listing of them.
func (s *Service) Days(ctx context.Context, skillIDs []string, days int) (map[string][]Day, error) {
	from := today() - int64(days) + 1
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

// Firing lists what fires in an organisation, longest first.
func (s *Service) Firing(ctx context.Context, orgID string) ([]Firing, error) {
	return firingOfOrg(ctx, s.DB, orgID)
}

// Waiting lists the sources of an organisation with suggestions that wait, most
// first.
func (s *Service) Waiting(ctx context.Context, orgID string) ([]Waiting, error) {
	return waitingOfOrg(ctx, s.DB, orgID)
}

// Failing lists the connections of an organisation whose last publish failed,
// newest first.
func (s *Service) Failing(ctx context.Context, orgID string) ([]Failing, error) {
	return failingOfOrg(ctx, s.DB, orgID)
}

// Standing returns which of these ids are of a thing that the organisation still
// has: a skill, an entry, an alert, a source, a suite, a run, an improve run, a
// proposal or a connection. It is one query.
func (s *Service) Standing(ctx context.Context, orgID string, ids []string) (map[string]bool, error) {
	found, err := standing(ctx, s.DB, orgID, ids)
	stands := map[string]bool{}
	for _, id := range found {
		stands[id] = true
	}
	return stands, err
}

// Changes lists what happened in an organisation since a time, newest first,
// at most so many.
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
	return all[:min(len(all), limit)], nil
}

// Entry returns the registry's entry of a skill of the organisation; without
// one the error is of kind fault.NotFound.
func (s *Service) Entry(ctx context.Context, orgID, skillID string) (Entry, error) {
	return entryOfSkill(ctx, s.DB, orgID, skillID)
}

// Publishes lists when which version of an entry of the organisation became
// current, oldest first.
func (s *Service) Publishes(ctx context.Context, orgID, entryID string) ([]Publish, error) {
	return publishesOfEntry(ctx, s.DB, orgID, entryID)
}
