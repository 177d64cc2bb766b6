package judge

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
)

// A Schema is the form of an answer. It keeps to what every server takes:
// objects with all keys required and no others, no ranges, no patterns. It is
// the same for every call, since servers compile and keep schemas.
type Schema struct {
	Name    string
	Version string
	JSON    json.RawMessage
}

// call is one request in no wire format.
type call struct {
	model     string
	system    string
	user      string
	schema    *Schema // nil asks for text
	maxTokens int
	able      abilities
}

// reply is an answer in no wire format.
type reply struct {
	model   string
	text    string
	problem problem // why there is no text to use, or ""
	cutOff  bool    // the answer was longer than it may be
	input   int64
	output  int64
}

// A wire is one of the formats that model servers speak.
type wire interface {
	endpoint(base *url.URL) *url.URL
	header(h http.Header, key string)
	// ladder lists the ways to ask for a form, the best first; the last one is
	// only to ask for it in the prompt.
	ladder() []string
	// tokenNames lists the names of the limit of an answer, the first one to
	// try first.
	tokenNames() []string
	body(c call) any
	read(body []byte) reply
}

// The rungs of the ladders.
const (
	jsonSchema = "json_schema"
	jsonObject = "json_object"
	tool       = "tool"
	none       = "none"
)

// abilities are what an endpoint has not refused yet. They only shrink.
type abilities struct {
	rung        int  // of the ladder
	tokenName   int  // of the names
	temperature bool // takes one
}

func (a abilities) structured(w wire) string { return w.ladder()[a.rung] }

// memory is what was learnt about an endpoint.
type memory struct {
	mu   sync.Mutex
	able abilities
}

func newMemory() *memory { return &memory{able: abilities{temperature: true}} }

func (m *memory) get() abilities {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.able
}

// learn takes away what a refused call had and the refusal names. It reports
// whether there is now another request to make. When several calls are refused
// at once, the ability is lost once.
func (m *memory) learn(w wire, c call, r refusal) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	had, names := c.able, w.tokenNames()
	switch {
	case m.able != had:
	case had.temperature && r.names("temperature"):
		m.able.temperature = false
	case c.schema != nil && had.rung < len(w.ladder())-1 && r.names(formWords...):
		m.able.rung++
	// A limit is also named when it is too large, so the name is not enough.
	case had.tokenName < len(names)-1 && r.names(names[had.tokenName]) && r.isUnsupported():
		m.able.tokenName++
	default:
		return false
	}
	return true
}
