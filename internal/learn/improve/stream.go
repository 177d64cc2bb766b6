package improve

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
)

// statusData is the data of a status event, with the field names of runs.
type statusData struct {
	Status     runs.Status   `json:"status"`
	Progress   runs.Progress `json:"progress"`
	Iterations int           `json:"iterations"`
	EndedAt    *httpapi.Time `json:"finished_at"`
}

// Improve runs have no event log: every event is the whole state, so the last
// one is enough. The id of an event says only whether it is the end, by which a
// client that reconnects is known to have seen it.
const (
	stillRunning int64 = iota
	isOver
)

// Events streams the state of an improve run of the organisation as server-sent
// events, each time it changes, until the run is over. A client that has seen
// the end gets 204. It polls the database: the worker that advances the run is usually another
// process.
func (s *Service) Events(ctx context.Context, orgID, runID, lastEventID string) (httpapi.Stream, error) {
	if _, err := runByID(ctx, s.DB, orgID, runID); err != nil {
		return nil, err
	}
	seen, err := sse.ParseEventID(lastEventID)
	if err != nil {
		return nil, err
	}
	if seen == isOver {
		return sse.NoMoreEvents, nil
	}
	// Only changes are sent. The streamer sends keep-alives by itself.
	var sent json.RawMessage
	streamer := sse.Streamer{Closing: s.Runs.Closing, Log: s.Log}
	return streamer.Stream(runID, func(ctx context.Context) (events []sse.Event, over bool, err error) {
		r, err := s.Get(ctx, orgID, runID)
		if err != nil {
			return nil, false, err
		}
		e := sse.Event{ID: stillRunning, Name: runs.StatusEvent}
		if r.Status.Over() {
			e.ID = isOver
		}
		e.Data, err = json.Marshal(statusData{
			r.Status, runs.Progress{Done: r.Done, Total: r.Total}, len(r.Iterations), httpapi.NullTime(r.FinishedAt),
		})
		if err == nil && !bytes.Equal(e.Data, sent) {
			events, sent = []sse.Event{e}, e.Data
		}
		return events, r.Status.Over(), err
	}), nil
}
