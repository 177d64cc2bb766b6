package evals

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

const (
	// pollEvery is how often a stream looks for events: they may come from any
	// replica.
	pollEvery = 250 * time.Millisecond
	// keepAlive is how long a stream may be silent before proxies end it.
	keepAlive = 15 * time.Second
	eventPage = 500
	// writeTime is how long a reader may take for what it was sent.
	writeTime = 30 * time.Second
)

type runEventsInput struct {
	RunPath
	LastEventID string `header:"Last-Event-ID" doc:"Only events after this one"`
}

func (s *Service) runEvents(ctx context.Context, in runEventsInput) (httpapi.Stream, error) {
	return s.Events(ctx, access.From(ctx).OrgID, in.ID, in.LastEventID)
}

// Events streams the events of a run of the organisation from its beginning,
// or from the one that the reader saw last, until the run is over. A reader
// that has seen them all is told with 204 not to come back.
func (s *Service) Events(ctx context.Context, orgID, runID, lastEventID string) (httpapi.Stream, error) {
	r, err := s.Run(ctx, orgID, runID)
	if err != nil {
		return nil, err
	}
	after, err := eventID(lastEventID)
	if err != nil {
		return nil, err
	}
	events, err := eventsAfter(ctx, s.DB, r.ID, after, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 && r.Status.over() {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, nil
	}
	return s.stream(r.ID, func(ctx context.Context, out *eventStream) error { return s.follow(ctx, out, r.ID, after) }), nil
}

// stream answers with the events of a run that follow sends.
func (s *Service) stream(runID string, follow func(context.Context, *eventStream) error) httpapi.Stream {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no")
		out := &eventStream{w: w, control: http.NewResponseController(w)}
		err := out.comment("ok")
		if err == nil {
			err = follow(req.Context(), out)
		}
		if err != nil && req.Context().Err() == nil {
			s.Log.WarnContext(req.Context(), "a stream of events ended early", "run", runID, "err", err)
		}
	}
}

// eventID reads the id of the last event that a reader saw; none is 0.
func eventID(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, fault.Invalid("Last-Event-ID", "Last-Event-ID must be the id of an event")
	}
	return id, nil
}

// follow sends events until the run is over or the reader has gone.
func (s *Service) follow(ctx context.Context, out *eventStream, runID string, after int64) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		// The status comes first: what it ends is written before it.
		status, err := runStatus(ctx, s.DB, runID)
		if fault.Is(err, fault.NotFound) {
			return nil // deleted
		}
		if err != nil {
			return err
		}
		events, err := eventsAfter(ctx, s.DB, runID, after, eventPage)
		if err != nil {
			return err
		}
		if err := out.send(events); err != nil {
			return err
		}
		if len(events) > 0 {
			after = events[len(events)-1].ID
		}
		if len(events) == eventPage {
			continue
		}
		if status.over() {
			return nil
		}
		if more, err := s.lookAgain(ctx, ticker); err != nil || !more {
			return err
		}
	}
}

// lookAgain waits for the time to look at a run again, and reports whether the
// service goes on until then.
func (s *Service) lookAgain(ctx context.Context, ticker *time.Ticker) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-s.Closing:
		return false, nil
	case <-ticker.C:
		return true, nil
	}
}

// An eventStream writes server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sentAt  time.Time
}

// send writes events, or a sign of life if there was nothing for a while.
func (e *eventStream) send(events []event) error {
	if len(events) == 0 {
		if time.Since(e.sentAt) < keepAlive {
			return nil
		}
		return e.comment("still there")
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTime)) // not every server has deadlines
	for _, event := range events {
		// JSON holds no line breaks, so that one line of data is enough.
		if _, err := fmt.Fprintf(e.w, "id: %d\nevent: %s\ndata: %s\n\n", event.ID, event.Name, event.Data); err != nil {
			return err
		}
	}
	e.sentAt = time.Now()
	return e.control.Flush()
}

func (e *eventStream) comment(text string) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := fmt.Fprintf(e.w, ": %s\n\n", text); err != nil {
		return err
	}
	e.sentAt = time.Now()
	return e.control.Flush()
}
