// Package content takes what was said out of the body of a push, before anything
// of the body is stored. It owns no tables.
package content

import (
	"encoding/json"
	"maps"
	"strings"
)

// Array is the array of a push with what was said in sessions.
const Array = "transcripts"

// MaxBytes is how much of it a push may have: redacting it takes seconds.
const MaxBytes = 8 << 20

// Why transcripts are not stored, and what to do.
const (
	Off = "The organisation keeps no content of sessions, so the transcripts were dropped. An owner can switch it on: " +
		"`whetstone settings content on`, or Settings, Content on the dashboard"
	TooLarge = "The transcripts were dropped: a push may have 8 MiB of them. Send them in several pushes"
	TooMany  = "Some transcripts were dropped: a session has at most 20,000 texts"
)

// Split takes the transcripts out of the canonical records of a push, and returns
// them and the body without them. Keys are compared as encoding/json does, so that
// no spelling of them leaves any behind. Without transcripts, which are then nil, the
// body stays as it is.
func Split(body []byte, canonical map[string]json.RawMessage) (rest []byte, transcripts json.RawMessage, err error) {
	for key, value := range canonical {
		if strings.EqualFold(key, Array) {
			transcripts = value
			delete(canonical, key)
		}
	}
	if transcripts == nil {
		return body, nil, nil
	}
	var envelope map[string]json.RawMessage
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(envelope, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, "canonical") })
	if envelope["canonical"], err = json.Marshal(canonical); err != nil {
		return nil, nil, err
	}
	rest, err = json.Marshal(envelope)
	return rest, transcripts, err
}

// Count returns how many records there are.
func Count(transcripts json.RawMessage) int {
	var all []json.RawMessage
	_ = json.Unmarshal(transcripts, &all) // what is no array has none
	return len(all)
}
