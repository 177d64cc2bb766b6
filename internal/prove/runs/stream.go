package runs

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
)

func (s *Service) streamer() sse.Streamer { return sse.Streamer{Closing: s.Closing, Log: s.Log} }

// Events streams the events of a run of the organisation as server-sent
// events, from the first one or from the one after lastEventID, until the run
// is over. A client that has seen them all gets 204.
func (s *Service) Events(ctx context.Context, orgID, runID, lastEventID string) (httpapi.Stream, error) {
	r, err := s.Get(ctx, orgID, runID)
	if err != nil {
		return nil, err
	}
	after, err := sse.ParseEventID(lastEventID)
	if err != nil {
		return nil, err
	}
	unseen, err := sse.After(ctx, s.DB, r.ID, after, 1)
	if err != nil {
		return nil, err
	}
	if len(unseen) == 0 && r.Status.Over() {
		return sse.NoMoreEvents, nil
	}
	return s.streamer().Stream(r.ID, func(ctx context.Context) (events []sse.Event, over bool, err error) {
		// The status is read first: the events before the end are written before
		// or with it, so none is missed.
		status, err := runStatus(ctx, s.DB, r.OrgID, r.ID)
		if err != nil {
			return nil, false, err
		}
		if events, err = sse.After(ctx, s.DB, r.ID, after, sse.Page); err != nil {
			return nil, false, err
		}
		if len(events) > 0 {
			after = events[len(events)-1].ID
		}
		return events, status.Over(), nil
	}), nil
}
