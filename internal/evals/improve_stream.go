package evals

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// improveState is what a reader who watches an improve run is told of it, by
// the names that runs use.
type improveState struct {
	Status     Status        `json:"status"`
	Progress   progress      `json:"progress"`
	Iterations int           `json:"iterations"`
	EndedAt    *httpapi.Time `json:"finished_at"`
}

// Their ids tell whether a reader that comes back has seen the end.
const (
	goesOn int64 = iota
	isOver
)

// ImproveEvents streams how far an improve run of the organisation has come,
// each time all there is to say, until it is over. A reader that has seen the
// end is told with 204 not to come back.
func (s *Service) ImproveEvents(ctx context.Context, orgID, runID, lastEventID string) (httpapi.Stream, error) {
	if _, err := improveRunHead(ctx, s.DB, orgID, runID, ""); err != nil {
		return nil, err
	}
	seen, err := eventID(lastEventID)
	if err != nil {
		return nil, err
	}
	if seen == isOver {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, nil
	}
	return s.stream(runID, func(ctx context.Context, out *eventStream) error { return s.followImprove(ctx, out, orgID, runID) }), nil
}

// followImprove sends what has changed until the run is over or the reader has
// gone.
func (s *Service) followImprove(ctx context.Context, out *eventStream, orgID, runID string) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var told json.RawMessage
	for {
		r, err := s.ImproveRun(ctx, orgID, runID)
		if fault.Is(err, fault.NotFound) {
			return nil // deleted
		}
		if err != nil {
			return err
		}
		news, err := r.event()
		if err != nil {
			return err
		}
		var unseen []event
		if !bytes.Equal(news.Data, told) {
			unseen, told = []event{news}, news.Data
		}
		if err := out.send(unseen); err != nil || r.Status.over() {
			return err
		}
		if more, err := s.lookAgain(ctx, ticker); err != nil || !more {
			return err
		}
	}
}

// event is what there is to say of the run.
func (r ImproveRun) event() (event, error) {
	e := event{ID: goesOn, Name: "status"}
	if r.Status.over() {
		e.ID = isOver
	}
	var err error
	e.Data, err = json.Marshal(improveState{r.Status, progress{r.Done, r.Total}, len(r.Iterations), httpapi.NullTime(r.FinishedAt)})
	return e, err
}
