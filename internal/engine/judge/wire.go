package judge

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
)

// A Schema is the JSON schema of an answer. It uses only what every server
// supports: objects with all keys required and no others, no ranges, no
// patterns. It is the same for every call, since servers compile and cache
// schemas.
type Schema struct {
	Name    string
	Version string
	JSON    json.RawMessage
}

// call is one request, independent of the wire format.
type call struct {
	model     string
	system    string
	user      string
	schema    *Schema // nil asks for text
	maxTokens int
	features  features
}

// reply is a response, independent of the wire format.
type reply struct {
	model     string
	text      string
	problem   problem // why there is no usable text, or ""
	truncated bool    // at the token limit
	usage     Usage   // its tokens
}

// A wire is one of the wire formats that model servers speak.
type wire interface {
	endpoint(base *url.URL) *url.URL
	header(h http.Header, key string)
	// outputModes lists the modes of structured output, the best first. The
	// last one asks for JSON in the prompt only.
	outputModes() []string
	// tokenLimitNames lists the names of the parameter that limits an answer, in
	// the order in which they are tried.
	tokenLimitNames() []string
	body(c call) any
	read(body []byte) reply
}

// The modes of structured output.
const (
	jsonSchema = "json_schema"
	jsonObject = "json_object"
	tool       = "tool"
	none       = "none"
)

// features are the parameters that an endpoint has not refused yet. They are
// only ever downgraded.
type features struct {
	outputMode     int // index in wire.outputModes
	tokenLimitName int // index in wire.tokenLimitNames
	temperature    bool
}

func (f features) structured(w wire) string { return w.outputModes()[f.outputMode] }

// negotiated caches the features of an endpoint for the life of the process, so that the server
// refuses each parameter once and not on every call. It isn't stored: a restart tries the full set
// again, as servers get better.
type negotiated struct {
	mu       sync.Mutex
	features features
}

func (n *negotiated) current() features {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.features
}

// downgrade gives up the feature of a refused call that the error mentions. It
// reports whether there is now another request to make. When several calls are
// refused at once, the feature is downgraded once.
func (n *negotiated) downgrade(w wire, c call, r errorBody) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	had, names := c.features, w.tokenLimitNames()
	switch {
	case n.features != had: // another call was faster
	case had.temperature && r.mentions("temperature"):
		n.features.temperature = false
	case c.schema != nil && had.outputMode < len(w.outputModes())-1 && r.mentions(structuredWords...):
		n.features.outputMode++
	// The name alone is not enough: a limit that is too large is mentioned, too.
	case had.tokenLimitName < len(names)-1 && r.mentions(names[had.tokenLimitName]) && r.mentions(unsupportedWords...):
		n.features.tokenLimitName++
	default:
		return false
	}
	return true
}
