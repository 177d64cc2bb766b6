// Package api has the types of the wire, each declared once for the server, package client
// and the command line, with the tags that the OpenAPI document is made of.
//
// It imports nothing of the service, so that the service may use it everywhere.
package api

import (
	"encoding/json"
	"errors"
	"time"
)

// Time is a time in JSON: RFC 3339 in UTC with milliseconds. Any offset is
// accepted.
type Time time.Time

const timeFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes the time.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Time(t).UTC().Format(timeFormat) + `"`), nil
}

// UnmarshalJSON reads a time with any offset. As in encoding/json, null is a
// no-op.
func (t *Time) UnmarshalJSON(raw []byte) error {
	var text *string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	if text == nil {
		return nil
	}
	parsed, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		return errors.New("expected an RFC 3339 time")
	}
	*t = Time(parsed.UTC())
	return nil
}

// Equal reports whether both are the same instant.
func (t Time) Equal(u Time) bool { return time.Time(t).Equal(time.Time(u)) }

// String formats the time as JSON does, without the quotes.
func (t Time) String() string { return time.Time(t).UTC().Format(timeFormat) }

// An Issue is one problem of a request.
type Issue struct {
	Path    []string `json:"path" nullable:"false" example:"[\"threshold\"]"`
	Message string   `json:"message" example:"threshold must be between 0 and 1"`
}
