// Package telemetry ingests what agents report about their sessions, by the push
// of command-line clients or by OTLP, and turns it into observations of skills.
// Ingestion is idempotent: a push is deduplicated by its push_id, a record by
// its id, and an activation by the tool call that several signals report. The
// raw body is stored first, with personal data redacted from OTLP; an invalid
// record is rejected alone. The package owns the tables telemetry_pushes,
// telemetry_records, telemetry_states and telemetry_prompts.
package telemetry

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A batch is the normalized content of one body.
type batch struct {
	observations []skills.Observation
	// reports and clues become observations only when they are compared with the
	// stored state.
	reports   []activationReport
	clues     []maskedClue
	gradings  []skills.Grading
	requests  []costs.Request
	marks     []costs.Mark
	loads     []plugins.Load
	sightings []sessions.Sighting
	events    []sessions.Event
	prompts   []prompt
	records   []record
	accepted  int
	// unattributed counts records of skills whose names their producer hides.
	unattributed int
	rejected     []rejection
	texts        []content.Text // what was said
}

// A prompt is what a user asked an agent. Only its uploader may read it; see
// shareable for the exception.
type prompt struct {
	id           string
	kind         string
	text         string
	at           time.Time
	normalizedAt time.Time // version of the report: the newest wins
}

// A record is anything else that was reported, stored unchanged.
type record struct {
	id           string // hash of the natural key, see skills.ID
	kind         string
	body         json.RawMessage // an object
	normalizedAt time.Time
}

// bodyOf encodes the body of a record that we derive.
func bodyOf[V any](fields map[string]V) json.RawMessage {
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings, times, numbers from 0 to 1 and JSON always marshal
	}
	return body
}

// A rejection names an invalid record and the reason.
type rejection = api.Rejection

// merge adds one more report of a prompt: fields of the newer report win, and
// those that it leaves empty come from the older one.
func (p prompt) merge(report prompt) prompt {
	newer, older := report, p
	if newer.normalizedAt.Before(older.normalizedAt) {
		newer, older = older, newer
	}
	newer.kind = cmp.Or(newer.kind, older.kind)
	newer.text = cmp.Or(newer.text, older.text)
	return newer
}

// mergeRecords merges all reports of one record, in order of arrival.
func mergeRecords(reports []record) record {
	merged := reports[0]
	for _, report := range reports[1:] {
		merged = merged.merge(report)
	}
	return merged
}

// merge adds one more report of a record, field by field as with prompts.
func (r record) merge(report record) record {
	newer, older := report, r
	if newer.normalizedAt.Before(older.normalizedAt) {
		newer, older = older, newer
	}
	body := older.fields()
	for key, value := range newer.fields() {
		if _, known := body[key]; !known || string(value) != "null" {
			body[key] = value
		}
	}
	newer.body = bodyOf(body)
	return newer
}

func (r record) fields() map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(r.body, &fields); err != nil {
		panic(err) // it was decoded before
	}
	return fields
}

// text is the body as valid UTF-8, which PostgreSQL requires.
func (r record) text() string { return strings.ToValidUTF8(string(r.body), "\ufffd") }
