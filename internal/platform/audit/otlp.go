package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Collector gets every entry as an OTLP log record, at least once. The operator
// chose it: it may have a private address.
type Collector struct {
	URL     string // of logs, e.g. "http://127.0.0.1:4318/v1/logs"
	Headers map[string]string
	HTTP    *outbound.Client
	Version string // of this service
}

const (
	shipInterval = 10 * time.Second
	shipBatch    = 500
	shipBatches  = 20 // in one run of the job
	// shipOverlap is how long after its time an entry can be committed and is still
	// sent: how long a transaction takes, and how far clocks of replicas differ.
	shipOverlap = 15 * time.Minute
)

// ship is the scheduled job that sends entries to the collector.
type ship struct{}

// Kind names the job.
func (ship) Kind() string { return "audit.ship" }

// Register makes the queue send entries to the collector, if there is one.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ ship) error { return s.Ship(ctx) })
	if s.Collector != nil {
		s.Jobs.Every(shipInterval, ship{})
	}
}

// Ship sends the entries that were not sent yet, oldest first.
func (s *Service) Ship(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "send the audit log")
	if s.Collector == nil {
		return nil // a replica with other settings has made the job
	}
	for range shipBatches {
		batch, err := unsent(ctx, s.DB, shipOverlap, shipBatch)
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := s.Collector.send(ctx, batch); err != nil {
			return err
		}
		err = s.DB.InTx(ctx, func(tx *store.Tx) error { return markSent(ctx, tx, batch, shipOverlap) })
		if err != nil || len(batch) < shipBatch {
			return err
		}
	}
	return nil
}

func (c *Collector) send(ctx context.Context, batch []Entry) error {
	body, err := json.Marshal(c.request(batch))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Whetstone")
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector of audit-otlp-endpoint answered HTTP %d", resp.StatusCode)
	}
	return nil
}

// The JSON form of an ExportLogsServiceRequest. 64-bit numbers are strings in it.
type (
	logsRequest struct {
		ResourceLogs []resourceLogs `json:"resourceLogs"`
	}
	resourceLogs struct {
		Resource  resource    `json:"resource"`
		ScopeLogs []scopeLogs `json:"scopeLogs"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeLogs struct {
		Scope      scope       `json:"scope"`
		LogRecords []logRecord `json:"logRecords"`
	}
	scope struct {
		Name string `json:"name"`
	}
	logRecord struct {
		TimeUnixNano         string      `json:"timeUnixNano"`
		ObservedTimeUnixNano string      `json:"observedTimeUnixNano"`
		SeverityNumber       int         `json:"severityNumber"`
		SeverityText         string      `json:"severityText"`
		EventName            string      `json:"eventName"`
		Body                 anyValue    `json:"body"`
		Attributes           []attribute `json:"attributes"`
	}
	attribute struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	anyValue struct {
		StringValue string `json:"stringValue"`
	}
)

const severityInfo = 9

func (c *Collector) request(batch []Entry) logsRequest {
	now, records := nanos(store.Now()), make([]logRecord, len(batch))
	for i, e := range batch {
		records[i] = logRecord{
			TimeUnixNano: nanos(e.At), ObservedTimeUnixNano: now, SeverityNumber: severityInfo, SeverityText: "INFO",
			EventName: "whetstone.audit", Body: anyValue{e.Action}, Attributes: e.attributes(),
		}
	}
	return logsRequest{[]resourceLogs{{
		Resource:  resource{[]attribute{{"service.name", anyValue{"whetstone"}}, {"service.version", anyValue{c.Version}}}},
		ScopeLogs: []scopeLogs{{scope{"whetstone.audit"}, records}},
	}}}
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// attributes leaves out what is not known.
func (e Entry) attributes() (all []attribute) {
	detail, err := e.Detail.encode()
	if err != nil {
		detail = "" // it was decoded from JSON
	}
	for _, a := range [][2]string{
		{"audit.id", e.ID},
		{"audit.organisation.id", e.OrgID},
		{"audit.action", e.Action},
		{"audit.actor.kind", string(e.Actor)},
		{"user.id", orEmpty(e.UserID)},
		{"user.email", e.ActorName},
		{"audit.key.id", orEmpty(e.KeyID)},
		{"audit.target.kind", e.Target.Kind},
		{"audit.target.id", e.Target.ID},
		{"audit.target.name", e.Target.Name},
		{"audit.via", string(e.Via)},
		{"audit.request.id", orEmpty(e.RequestID)},
		{"audit.detail", detail},
	} {
		if a[1] != "" {
			all = append(all, attribute{a[0], anyValue{a[1]}})
		}
	}
	return all
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
