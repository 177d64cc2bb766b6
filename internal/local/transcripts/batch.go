package transcripts

import (
	"encoding/json"

	"github.com/google/uuid"
)

const (
	// maxRecords is how many records a push has at most.
	maxRecords = 500
	// maxBytes is far below the server's limit of 64 MiB, which keeps a push quick.
	maxBytes = 4 << 20
)

// A batch is the records of one push. The zero value is empty.
type batch struct {
	records map[string][]json.RawMessage // by kind
	count   int
	bytes   int
}

// The caller keeps to maxRecords and maxBytes; see run.add.
func (b *batch) add(kind string, raw json.RawMessage) {
	if b.records == nil {
		b.records = map[string][]json.RawMessage{}
	}
	b.records[kind] = append(b.records[kind], raw)
	b.count++
	b.bytes += len(raw)
}

// canonical is the payload of a push. Its arrays are never null.
type canonical struct {
	Sessions    []json.RawMessage `json:"sessions"`
	Prompts     []json.RawMessage `json:"prompts"`
	Invocations []json.RawMessage `json:"skill_invocations"`
	Facts       []json.RawMessage `json:"execution_facts"`
	Requests    []json.RawMessage `json:"model_requests"`
	Offers      []json.RawMessage `json:"skill_offers"`
	ToolCalls   []json.RawMessage `json:"tool_calls"`
	Runs        []json.RawMessage `json:"normalization_runs"`
	Outcomes    []json.RawMessage `json:"outcomes,omitempty"`
	Transcripts []json.RawMessage `json:"transcripts,omitempty"` // only if they are sent
}

// The fields and their names are the canonical schema's; see the API's push.
type envelope struct {
	SchemaVersion     string          `json:"schema_version"`
	ClientVersion     string          `json:"client_version"`
	NormalizerVersion string          `json:"normalizer_version"`
	PushID            string          `json:"push_id"`
	Canonical         json.RawMessage `json:"canonical"`
}

// pushNamespace is the UUIDv5 namespace of push ids. Changing it would make the server take
// every retry for something new.
var pushNamespace = uuid.MustParse("2f6d9a52-8c0e-4b1b-9f0c-5a64d6f2b8e3")

// body encodes a push. Its push_id, the idempotency key, is derived from the
// content and the owner: a retry is a duplicate, the same content of another
// user is not.
func (b *batch) body(owner, version string) ([]byte, error) {
	of := func(kind string) []json.RawMessage { return append([]json.RawMessage{}, b.records[kind]...) }
	content, err := json.Marshal(canonical{
		of(sessionKind), of(promptKind), of(invocationKind), of(factKind), of(requestKind), of(offerKind),
		of(toolCallKind), of(""),
		of(outcomeKind), of(transcriptKind),
	})
	if err != nil {
		return nil, err
	}
	id := uuid.NewSHA1(pushNamespace, append([]byte(owner+"\n"), content...))
	return json.Marshal(envelope{schemaVersion, version, normalizerVersion, id.String(), content})
}
