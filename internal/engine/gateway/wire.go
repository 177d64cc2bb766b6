package gateway

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// A wire is a wire format: what differs between the APIs of model servers. All methods get hostile
// input, and their implementations have no state.
type wire interface {
	// trim removes from a base URL what paths begin with, or end with.
	trim(base *url.URL) *url.URL
	// route returns the path below the base URL for one that a program posts to,
	// with the model's name where the path has one. ok is false for all others.
	route(uri, id string) (r route, ok bool)
	// headers are those of a program that are passed on.
	headers() []string
	authorize(h http.Header, key string)
	// adjust changes the fields of a request: it is for the one model, the answer
	// must report its usage, and the server must not act for the program.
	adjust(fields map[string]json.RawMessage, id string) error
	// maxOutput is how many tokens the answer to a request may have at most.
	maxOutput(fields map[string]json.RawMessage) int64
	// usage reads the tokens that a part of an answer reports: the whole one, or
	// the data of an event. final reports whether they are the last ones.
	usage(data []byte) (t pricing.Tokens, final bool)
	// said adds what a part of an answer says to a draft.
	said(data []byte, d *draft)
	// conversation is the field of a request that has the messages so far, and
	// results reads the last results of tool calls in it.
	conversation() string
	results(conversation json.RawMessage, known func(id string) bool) []sentResult
	// failure is the body of an error.
	failure(f failure) any
	// models is the list of the one model that there is.
	models(id string) any
}

// A route is where a request goes.
type route struct {
	path, query string
	metered     bool // the answer has usage, and costs
}

// A failure is an error of the gateway itself.
type failure struct {
	status  int
	kind    string // of Anthropic's errors
	message string
}

type object = map[string]any

func quote(s string) json.RawMessage {
	quoted, _ := json.Marshal(s) // a string always marshals
	return quoted
}

// assumedOutput is how many tokens an answer may have if the request does not limit
// them: more than today's models write. A budget holds this much for each such request.
const assumedOutput = 128_000

// limitedOutput returns how many tokens several answers may have together.
func limitedOutput(tokens, answers int64) int64 {
	return min(cmp.Or(tokens, assumedOutput)*max(1, answers), maxReported)
}

// number reads a limit of a request. It is 0 for none.
func number(raw json.RawMessage) (n int64) {
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > maxReported {
		return 0
	}
	return n
}

// trimSuffix returns the URL without the suffixes of its path, so that operators may set it with or
// without them.
func trimSuffix(u *url.URL, suffixes ...string) *url.URL {
	trimmed := *u
	trimmed.RawPath, trimmed.RawQuery, trimmed.Fragment = "", "", ""
	trimmed.Path = strings.TrimRight(u.Path, "/")
	for _, s := range suffixes {
		trimmed.Path = strings.TrimSuffix(trimmed.Path, s)
	}
	return &trimmed
}

// clientTools returns the tools that the program runs itself. Tools that the server runs (search,
// fetch, MCP) are removed: they would reach other hosts on behalf of a program without a network.
func clientTools(raw json.RawMessage, isClient func(kind string) bool) (json.RawMessage, error) {
	var tools []json.RawMessage
	if err := json.Unmarshal(raw, &tools); err != nil {
		return nil, err
	}
	kept := []json.RawMessage{}
	for _, tool := range tools {
		var t struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(tool, &t); err != nil {
			return nil, err
		}
		if isClient(t.Type) {
			kept = append(kept, tool)
		}
	}
	if len(kept) == len(tools) {
		return raw, nil
	}
	return json.Marshal(kept)
}

// messages is the wire format of Anthropic's Messages API.
type messages struct{}

func (messages) trim(base *url.URL) *url.URL { return trimSuffix(base, "/messages", "/v1") }

func (messages) route(uri, _ string) (route, bool) {
	path, query, _ := strings.Cut(uri, "?")
	metered := path == "/v1/messages"
	return route{path, query, metered}, (metered || path == "/v1/messages/count_tokens") &&
		(query == "" || query == "beta=true") // as Claude Code asks
}

func (messages) headers() []string { return []string{"Anthropic-Version", "Anthropic-Beta"} }

func (messages) authorize(h http.Header, key string) {
	if h.Get("Anthropic-Version") == "" {
		h.Set("Anthropic-Version", "2023-06-01")
	}
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

// adjust pins the model, and removes what the server would run: MCP servers, containers and server
// tools. Built-in tools that the client runs have dated types, e.g. "bash_20250124".
func (messages) adjust(fields map[string]json.RawMessage, id string) (err error) {
	fields["model"] = quote(id)
	delete(fields, "mcp_servers")
	delete(fields, "container")
	if raw, ok := fields["tools"]; ok {
		fields["tools"], err = clientTools(raw, func(kind string) bool {
			return kind == "" || kind == "custom" || strings.HasPrefix(kind, "bash_") ||
				strings.HasPrefix(kind, "text_editor_") || strings.HasPrefix(kind, "memory_")
		})
	}
	return err
}

func (messages) maxOutput(fields map[string]json.RawMessage) int64 {
	return limitedOutput(number(fields["max_tokens"]), 1)
}

func (messages) usage(data []byte) (pricing.Tokens, bool) {
	type usage struct {
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
		Cache      struct {
			Hour int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
	}
	var in struct {
		Type    string `json:"type"`
		Usage   usage  `json:"usage"`
		Message struct {
			Usage usage `json:"usage"`
		} `json:"message"`
	}
	if json.Unmarshal(data, &in) != nil {
		return pricing.Tokens{}, false
	}
	u := in.Usage
	// message_start has the input, message_delta the final output; both are cumulative.
	if in.Type == "message_start" {
		u = in.Message.Usage
	}
	return pricing.Tokens{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, CacheWriteHour: u.Cache.Hour,
	}, in.Type == "message" || in.Type == "message_delta"
}

func (messages) failure(f failure) any {
	return object{"type": "error", "error": object{"type": f.kind, "message": f.message}}
}

func (messages) models(id string) any {
	return object{
		"data":     []object{{"type": "model", "id": id, "display_name": id, "created_at": "1970-01-01T00:00:00Z"}},
		"has_more": false, "first_id": id, "last_id": id,
	}
}

// chat is the wire format of OpenAI's chat completions.
type chat struct{}

func (chat) trim(base *url.URL) *url.URL { return trimSuffix(base, "/chat/completions") }

func (chat) route(uri, _ string) (route, bool) {
	return route{path: "/chat/completions", metered: true}, uri == "/v1/chat/completions"
}

func (chat) headers() []string { return nil }

func (chat) authorize(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

// adjust asks a stream for its usage, which is otherwise not reported. Functions and custom tools
// are run by the client.
func (chat) adjust(fields map[string]json.RawMessage, id string) (err error) {
	fields["model"] = quote(id)
	delete(fields, "web_search_options")
	var stream bool
	if json.Unmarshal(fields["stream"], &stream) == nil && stream {
		fields["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	}
	if raw, ok := fields["tools"]; ok {
		fields["tools"], err = clientTools(raw, func(kind string) bool { return kind == "function" || kind == "custom" })
	}
	return err
}

func (chat) maxOutput(fields map[string]json.RawMessage) int64 {
	return limitedOutput(max(number(fields["max_tokens"]), number(fields["max_completion_tokens"])), number(fields["n"]))
}

func (chat) usage(data []byte) (pricing.Tokens, bool) {
	var in struct {
		Usage *struct {
			Input   int64 `json:"prompt_tokens"`
			Output  int64 `json:"completion_tokens"`
			Details struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if json.Unmarshal(data, &in) != nil || in.Usage == nil {
		return pricing.Tokens{}, false
	}
	cached := min(in.Usage.Details.Cached, in.Usage.Input)
	return pricing.Tokens{Input: in.Usage.Input - cached, Output: in.Usage.Output, CacheRead: cached}, true
}

func (chat) failure(f failure) any {
	code := "whetstone_gateway"
	if f.status == http.StatusTooManyRequests {
		code = "insufficient_quota" // clients do not retry it
	}
	return object{"error": object{"message": f.message, "type": code, "param": nil, "code": code}}
}

func (chat) models(id string) any {
	return object{"object": "list", "data": []object{{"id": id, "object": "model", "created": 0, "owned_by": "whetstone"}}}
}

// responses is the wire format of OpenAI's Responses API.
type responses struct{ chat }

func (responses) trim(base *url.URL) *url.URL { return trimSuffix(base, "/responses") }

func (responses) route(uri, _ string) (route, bool) {
	return route{path: "/responses", metered: true}, uri == "/v1/responses"
}

// adjust also drops every reference to state that the server keeps: it could be that of another
// conversation under the same key.
func (responses) adjust(fields map[string]json.RawMessage, id string) (err error) {
	fields["model"] = quote(id)
	delete(fields, "background") // it would go on without being metered
	delete(fields, "prompt")     // a template that the server keeps
	delete(fields, "previous_response_id")
	fields["store"] = json.RawMessage("false")
	if raw, ok := fields["tools"]; ok {
		fields["tools"], err = clientTools(raw, func(kind string) bool {
			return kind == "function" || kind == "custom" || kind == "local_shell" || kind == "apply_patch" || kind == "namespace"
		})
	}
	return err
}

func (responses) maxOutput(fields map[string]json.RawMessage) int64 {
	return limitedOutput(number(fields["max_output_tokens"]), 1)
}

func (responses) usage(data []byte) (pricing.Tokens, bool) {
	type usage struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached  int64 `json:"cached_tokens"`
			Written int64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
	}
	var in struct {
		Usage    *usage `json:"usage"`
		Response struct {
			Usage *usage `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(data, &in) != nil {
		return pricing.Tokens{}, false
	}
	u := in.Usage
	if u == nil {
		u = in.Response.Usage
	}
	if u == nil {
		return pricing.Tokens{}, false
	}
	// input_tokens includes what was read from the cache and written to it.
	cached := min(u.Details.Cached, u.Input)
	written := min(u.Details.Written, u.Input-cached)
	return pricing.Tokens{Input: u.Input - cached - written, Output: u.Output, CacheRead: cached, CacheWrite: written}, true
}
