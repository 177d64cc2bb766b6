// Package judge is LLM-as-a-judge: it asks a model which skill a request would
// trigger, whether an output fulfils a criterion, and what a model answers with
// a skill loaded. It speaks the two wire formats of model servers, OpenAI's and
// Anthropic's, with retry, backoff and a rate limit. A built-in judge, a BM25
// index, routes without a model. It owns no tables.
package judge

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// The values of Options.API.
const (
	OpenAI    = "openai"    // chat completions, of OpenAI and of compatible servers
	Anthropic = "anthropic" // messages, of Anthropic and of compatible servers
	Builtin   = "builtin"   // no model: a BM25 index over the descriptions, which can only route
)

// The defaults of Options.
const (
	defaultConcurrency = 8
	defaultTimeout     = 60 * time.Second
	defaultMaxTokens   = 4096
	defaultMaxInput    = 32_000
	maxBody            = 4 << 20
)

// Options configure the model and the limits of its calls.
type Options struct {
	API   string // OpenAI, Anthropic or Builtin, which needs nothing else
	URL   string // base URL: ".../v1" for OpenAI, with or without it for Anthropic
	Model string
	Key   string // empty for servers that need none

	// Secrets are hidden beside the key in what is stored.
	Secrets []string
	// HTTP makes the requests; nil makes a client that may reach private
	// addresses, since the operator sets the URL, and has Timeout.
	HTTP *outbound.Client
	// Peer counts the requests of the client that New makes.
	Peer *metrics.Peer
	// Concurrency limits concurrent requests over all callers; 0 means 8.
	Concurrency int
	// Timeout limits one request; 0 means 60 seconds. A call makes up to four
	// attempts, and up to four more if the answer is not usable.
	Timeout time.Duration
	// MaxTokens limits an answer; 0 means 4,096.
	MaxTokens int
	// MaxInput limits the estimated tokens of a grading prompt; longer material
	// is truncated. 0 means 32,000.
	MaxInput int
}

// A Judge gives verdicts. It is safe for concurrent use.
type Judge struct {
	about    Description
	maxInput int
	model    *model // nil for the built-in judge
	recorded Recorded
}

// A Description identifies a judge: verdicts are comparable only between equal
// ones.
type Description struct {
	api.EvalJudge
	// RouteOnly reports that Grade, Answer and Complete always fail.
	RouteOnly bool `json:"-"`
}

// New returns a judge. It makes no request: a wrong key shows at the first call. Its error is
// Malformed and names the setting that is missing or wrong.
func New(o Options) (*Judge, error) {
	var wire wire
	switch o.API {
	case Builtin:
		about := Description{api.EvalJudge{API: Builtin, Model: BuiltinModel, PromptVersion: BuiltinModel}, true}
		return &Judge{about: about}, nil
	case OpenAI:
		wire = chat{}
	case Anthropic:
		wire = messages{}
	default:
		return nil, fault.New(fault.Malformed, "--judge-api must be %s, %s or %s", OpenAI, Anthropic, Builtin)
	}
	base, err := o.check()
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(o.Timeout, defaultTimeout)
	client := o.HTTP
	if client == nil {
		client, err = outbound.New(outbound.Options{AllowPrivate: true, Timeout: timeout, HeaderTimeout: timeout, Peer: o.Peer})
		if err != nil {
			return nil, err
		}
	}
	m := &model{
		wire:     wire,
		endpoint: wire.endpoint(base),
		name:     o.Model,
		key:      strings.TrimSpace(o.Key),
		secrets:  text.NewSecrets(append(slices.Clone(o.Secrets), o.Key)...),
		// A redirect would repeat the key to another host.
		http:       client.With(outbound.Limits{Timeout: timeout, MaxBody: maxBody, MaxRedirects: -1}),
		maxTokens:  cmp.Or(o.MaxTokens, defaultMaxTokens),
		negotiated: &negotiated{features: features{temperature: true}},
		limiter:    newLimiter(cmp.Or(o.Concurrency, defaultConcurrency)),
	}
	return &Judge{
		about:    Description{EvalJudge: api.EvalJudge{API: o.API, Model: o.Model, PromptVersion: PromptVersions}},
		maxInput: cmp.Or(o.MaxInput, defaultMaxInput),
		model:    m,
	}, nil
}

// check validates the options of a model and returns its base URL.
func (o Options) check() (*url.URL, error) {
	if o.URL == "" {
		return nil, fault.New(fault.Malformed,
			"--judge-url is missing: --judge-api %s needs the base URL of the model's API", o.API)
	}
	base, err := outbound.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("--judge-url: %w", err)
	}
	if o.Model == "" {
		return nil, fault.New(fault.Malformed,
			"--judge-model is missing: --judge-api %s needs the name of the model", o.API)
	}
	if strings.ContainsFunc(strings.TrimSpace(o.Key), func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, fault.New(fault.Malformed, "--judge-key must be one line of ASCII")
	}
	if o.Concurrency < 0 || o.Timeout < 0 || o.MaxTokens < 0 || o.MaxInput < 0 {
		return nil, fault.New(fault.Malformed, "the judge's limits must not be negative")
	}
	return base, nil
}

// Describe identifies the judge.
func (j *Judge) Describe() Description { return j.about }

// Redact removes the judge's key and the other secrets from a text that is to be stored or logged.
func (j *Judge) Redact(s string) string {
	if j.model == nil {
		return s
	}
	return j.model.redact(s)
}

// newRecord begins the record of a call with the configured model; the name in the reply replaces
// it.
func (j *Judge) newRecord(promptVersion, schemaVersion string) Record {
	return Record{API: j.about.API, Model: j.about.Model, PromptVersion: promptVersion, SchemaVersion: schemaVersion}
}

// errRouteOnly is the built-in judge's error for everything but routing.
func errRouteOnly(what string) error {
	return &Error{
		Code: Unavailable,
		Message: "the builtin judge cannot " + what + ", only route trigger queries: " +
			"set --judge-api to openai or anthropic, --judge-url and --judge-model",
	}
}
