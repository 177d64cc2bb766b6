package overview

import (
	"context"
	"slices"
	"sync"
	"time"
)

// trendTTL is how old the trend of an organisation with many skills may be: it sums
// up a month of all of them, which takes as long as the rest of Home.
const trendTTL = time.Minute

// trendsKept is the number of organisations whose trend is cached.
const trendsKept = 1000

// trendCache has the days of organisations with many skills.
type trendCache struct {
	mu   sync.Mutex
	kept map[string]trend // by organisation
}

type trend struct {
	days []Day
	at   time.Time
}

// Trend is OrgDays for organisations with many skills: what it returns may be a minute
// old.
func (s *Service) Trend(ctx context.Context, orgID string, days int) ([]Day, error) {
	s.trends.mu.Lock()
	known := s.trends.kept[orgID]
	s.trends.mu.Unlock()
	if len(known.days) == days && time.Since(known.at) < trendTTL {
		return slices.Clone(known.days), nil
	}
	read, err := s.OrgDays(ctx, orgID, days)
	if err != nil {
		return nil, err
	}
	s.trends.mu.Lock()
	defer s.trends.mu.Unlock()
	if s.trends.kept == nil || len(s.trends.kept) >= trendsKept {
		s.trends.kept = map[string]trend{}
	}
	s.trends.kept[orgID] = trend{slices.Clone(read), time.Now()}
	return read, nil
}
