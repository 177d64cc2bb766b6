// Package telemetry takes in what agents report of their sessions, by the push
// of command-line clients or by OTLP, and turns it into observations of
// skills. The raw body is kept first; one bad record never loses the others.
// It owns the tables telemetry_pushes, telemetry_records, telemetry_states and
// telemetry_prompts.
package telemetry

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

// A batch is what one body says, made uniform.
type batch struct {
	observations []skills.Observation
	gradings     []skills.Grading
	prompts      []prompt
	records      []record
	accepted     int
	// unattributed counts what was said of skills whose names are hidden.
	unattributed int
	rejected     []rejection
}

// A prompt is what a person asked an agent. Only its uploader may read it.
type prompt struct {
	id           string
	kind         string
	text         string
	at           time.Time
	normalizedAt time.Time
}

// A record is anything else that was reported, kept as it came.
type record struct {
	id           string // see skills.ID
	kind         string
	body         json.RawMessage // an object
	normalizedAt time.Time
}

// bodyOf makes the body of a record that nobody sent.
func bodyOf[V any](fields map[string]V) json.RawMessage {
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err) // texts, times, numbers from 0 to 1 and JSON always marshal
	}
	return body
}

// A rejection says which record could not be taken, and why.
type rejection struct {
	Kind    string `json:"kind"`
	Index   int    `json:"index" doc:"Position among the records of its kind"`
	Message string `json:"message"`
}

// merge joins what is known of a prompt with one more report: what the newer
// one says, and from the older what the newer leaves open.
func (p prompt) merge(report prompt) prompt {
	newer, older := report, p
	if newer.normalizedAt.Before(older.normalizedAt) {
		newer, older = older, newer
	}
	newer.kind = cmp.Or(newer.kind, older.kind)
	newer.text = cmp.Or(newer.text, older.text)
	return newer
}

// mergeRecords joins all reports of one record, in the order in which they
// came.
func mergeRecords(reports []record) record {
	merged := reports[0]
	for _, report := range reports[1:] {
		merged = merged.merge(report)
	}
	return merged
}

// merge joins what is known of a record with one more report, as with prompts.
func (r record) merge(report record) record {
	newer, older := report, r
	if newer.normalizedAt.Before(older.normalizedAt) {
		newer, older = older, newer
	}
	body := older.fields()
	for key, value := range newer.fields() {
		if _, had := body[key]; !had || string(value) != "null" {
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

// text is the body for the databases, which keep only good UTF-8.
func (r record) text() string { return strings.ToValidUTF8(string(r.body), "\ufffd") }
