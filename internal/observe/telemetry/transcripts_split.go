package telemetry

import (
	"encoding/json"
	"maps"
	"strings"
)

// transcriptsKey is the array of a push that holds the text of sessions.
const transcriptsKey = "transcripts"

// maxTranscriptBytes is how much of it a push may have: redacting it takes seconds.
const maxTranscriptBytes = 8 << 20

// Why transcripts are not stored, and what to do.
const (
	contentOff = "The organisation keeps no content of sessions, so the transcripts were dropped. An owner can switch it on: " +
		"`whetstone settings content on`, or Settings, Content on the dashboard"
	transcriptsTooLarge = "The transcripts were dropped: a push may have 8 MiB of them. Send them in several pushes"
	tooManyTexts        = "Some transcripts were dropped: a session has at most 20,000 texts"
)

// splitTranscripts takes the transcripts out of the canonical records of a push, and returns
// them and the body without them. Keys are compared as encoding/json does, so that
// no spelling of them leaves any behind. Without transcripts, which are then nil, the
// body stays as it is.
func splitTranscripts(body []byte, canonical map[string]json.RawMessage) (rest []byte, transcripts json.RawMessage, err error) {
	for key, value := range canonical {
		if strings.EqualFold(key, transcriptsKey) {
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

// countTranscripts returns how many records there are.
func countTranscripts(transcripts json.RawMessage) int {
	var all []json.RawMessage
	_ = json.Unmarshal(transcripts, &all) // what is no array has none
	return len(all)
}
