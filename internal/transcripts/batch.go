package transcripts

import (
	"encoding/json"

	"github.com/google/uuid"
)

const (
	// maxRecords is what a server takes in one push.
	maxRecords = 500
	// maxBytes keeps a push far below what a server takes, and quick.
	maxBytes = 4 << 20
)

// A batch is the records of one push.
type batch struct {
	records map[string][]json.RawMessage // by kind
	count   int
	bytes   int
}

func (b *batch) add(kind string, raw json.RawMessage) {
	if b.records == nil {
		b.records = map[string][]json.RawMessage{}
	}
	b.records[kind] = append(b.records[kind], raw)
	b.count++
	b.bytes += len(raw)
}

func (b *batch) full() bool { return b.count >= maxRecords || b.bytes >= maxBytes }

// canonical is the heart of a push; all of its arrays are there.
type canonical struct {
	Sessions    []json.RawMessage `json:"sessions"`
	Prompts     []json.RawMessage `json:"prompts"`
	Invocations []json.RawMessage `json:"skill_invocations"`
	Facts       []json.RawMessage `json:"execution_facts"`
	Runs        []json.RawMessage `json:"normalization_runs"`
}

type envelope struct {
	SchemaVersion     string          `json:"schema_version"`
	ClientVersion     string          `json:"client_version"`
	NormalizerVersion string          `json:"normalizer_version"`
	PushID            string          `json:"push_id"`
	Canonical         json.RawMessage `json:"canonical"`
}

// pushNamespace makes the ids of pushes.
var pushNamespace = uuid.MustParse("2f6d9a52-8c0e-4b1b-9f0c-5a64d6f2b8e3")

// body makes a push. Its id comes from the content and its owner, so that a
// push that is made again is known to be the same; another person's is not.
func (b *batch) body(owner, version string) ([]byte, error) {
	of := func(kind string) []json.RawMessage { return append([]json.RawMessage{}, b.records[kind]...) }
	content, err := json.Marshal(canonical{of(sessionKind), of(promptKind), of(invocationKind), of(factKind), of("")})
	if err != nil {
		return nil, err
	}
	id := uuid.NewSHA1(pushNamespace, append([]byte(owner+"\n"), content...))
	return json.Marshal(envelope{schemaVersion, version, normalizerVersion, id.String(), content})
}
