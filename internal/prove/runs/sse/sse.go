// Package sse keeps the events of a run, and streams them as server-sent events. It
// owns the table eval_run_events.
package sse

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

const (
	// pollEvery is how often a stream polls for new events. It polls, since any
	// replica may write them.
	pollEvery = 250 * time.Millisecond
	// keepAlive is how long a stream is silent before a comment is sent:
	// proxies close idle connections.
	keepAlive = 15 * time.Second
	// Page is how many events are read at once.
	Page = 500
	// writeTimeout is how long a client may take to receive what it was sent. A
	// stalled one would keep its goroutine and its connection.
	writeTimeout = 30 * time.Second
)

// An Event is one entry of a run's event log.
type Event struct {
	ID   int64
	Name string
	Data json.RawMessage
}

// New returns an event whose data is a struct of numbers and texts.
func New(name string, data any) Event {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // see above
	}
	return Event{Name: name, Data: raw}
}

// A Streamer answers with streams until Closing is closed, which may be nil.
type Streamer struct {
	Closing <-chan struct{}
	Log     *slog.Logger
}

// ParseEventID reads the header Last-Event-ID; none is 0.
func ParseEventID(header string) (int64, error) {
	if header == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(header, 10, 64)
	if err != nil || id < 0 {
		return 0, fault.Invalid("Last-Event-ID", "Last-Event-ID must be the id of an event")
	}
	return id, nil
}

// NoMoreEvents answers with 204, which makes an EventSource stop reconnecting.
func NoMoreEvents(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// Stream answers with server-sent events. The function poll returns the events
// since its last call and whether the run is over; a NotFound means that the
// run was deleted, which ends the stream, too.
func (s Streamer) Stream(runID string, poll func(context.Context) (events []Event, over bool, err error)) httpapi.Stream {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
		out := &eventWriter{w: w, control: http.NewResponseController(w)}
		err := out.comment("ok")
		if err == nil {
			err = s.follow(req.Context(), out, poll)
		}
		if err != nil && req.Context().Err() == nil {
			s.Log.WarnContext(req.Context(), "a stream of events ended early", "run", runID, "error", err)
		}
	}
}

// follow sends events until the run is over, the client is gone or the service
// shuts down.
func (s Streamer) follow(
	ctx context.Context, out *eventWriter, poll func(context.Context) ([]Event, bool, error),
) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		events, over, err := poll(ctx)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := out.send(events); err != nil {
			return err
		}
		if len(events) == Page {
			continue // there may be more
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Closing:
			return nil
		case <-ticker.C:
		}
	}
}

// An eventWriter writes server-sent events.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sentAt  time.Time
}

// send writes events, or a comment now and then, which keeps an idle connection alive.
func (e *eventWriter) send(events []Event) error {
	if len(events) == 0 {
		if time.Since(e.sentAt) < keepAlive {
			return nil
		}
		return e.comment("still there")
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every server has deadlines
	for _, event := range events {
		// JSON has no line breaks, so one line of data is enough.
		if _, err := fmt.Fprintf(e.w, "id: %d\nevent: %s\ndata: %s\n\n", event.ID, event.Name, event.Data); err != nil {
			return err
		}
	}
	e.sentAt = time.Now()
	return e.control.Flush()
}

func (e *eventWriter) comment(text string) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := fmt.Fprintf(e.w, ": %s\n\n", text); err != nil {
		return err
	}
	e.sentAt = time.Now()
	return e.control.Flush()
}
