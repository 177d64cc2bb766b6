// Package judge asks a model, or a small index of its own, for the verdicts
// that no program can compute: which skill a request would trigger, whether an
// output fulfils a criterion, what a model says with a skill loaded. It speaks
// the two wire formats that model servers share. It owns no tables.
package judge

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/outbound"
)

// The values of Options.API.
const (
	OpenAI    = "openai"    // chat completions, of OpenAI and of compatible servers
	Anthropic = "anthropic" // messages, of Anthropic and of compatible servers
	Builtin   = "builtin"   // no model: an index over the descriptions, which can only route
)

// The defaults of Options.
const (
	defaultConcurrency = 8
	defaultTimeout     = 60 * time.Second
	defaultMaxTokens   = 4096
	defaultMaxInput    = 32_000
	maxBody            = 4 << 20
)

// Options say which model judges and how much it may take.
type Options struct {
	API   string // OpenAI, Anthropic or Builtin, which needs nothing else
	URL   string // base URL: ".../v1" for OpenAI, with or without it for Anthropic
	Model string
	Key   string // empty for servers that want none

	// HTTP makes the requests; nil makes a client that may reach private
	// addresses, since the operator sets the URL, and waits for Timeout.
	HTTP *outbound.Client
	// Concurrency is how many requests are under way at once over all callers;
	// 0 means 8.
	Concurrency int
	// Timeout bounds one request; 0 means 60 seconds. A call makes up to four,
	// and up to four more if the answer is not usable.
	Timeout time.Duration
	// MaxTokens bounds an answer; 0 means 4,096.
	MaxTokens int
	// MaxInput is how many tokens a grading prompt may have by our estimate;
	// material over it is cut. 0 means 32,000.
	MaxInput int
	// Prices give calls a cost, if set.
	Prices Prices
}

// A Judge gives verdicts. It is safe for use by several goroutines at once.
type Judge struct {
	about    Description
	maxInput int
	model    *model // nil for the built-in judge
}

// A Description says who judges.
type Description struct {
	API           string `json:"api"`
	Model         string `json:"model"`
	PromptVersion string `json:"prompt_version"`
	// RouteOnly says that Grade, Answer and Complete are errors.
	RouteOnly bool `json:"-"`
}

// New returns the judge that the settings describe. Its error is Malformed
// and names the setting that is missing or wrong.
func New(o Options) (*Judge, error) {
	if o.API == Builtin {
		return &Judge{about: Description{API: Builtin, Model: BuiltinModel, PromptVersion: BuiltinModel, RouteOnly: true}}, nil
	}
	speaks, err := wireOf(o.API)
	if err != nil {
		return nil, err
	}
	base, err := o.check()
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(o.Timeout, defaultTimeout)
	client := o.HTTP
	if client == nil {
		client, err = outbound.New(outbound.Options{AllowPrivate: true, Timeout: timeout, HeaderTimeout: timeout})
		if err != nil {
			return nil, err
		}
	}
	m := &model{
		wire:      speaks,
		endpoint:  speaks.endpoint(base),
		name:      o.Model,
		key:       strings.TrimSpace(o.Key),
		http:      client.With(outbound.Limits{Timeout: timeout, MaxBody: maxBody, MaxRedirects: -1}),
		maxTokens: cmp.Or(o.MaxTokens, defaultMaxTokens),
		prices:    o.Prices,
		memory:    newMemory(),
		lane:      newLane(cmp.Or(o.Concurrency, defaultConcurrency)),
	}
	return &Judge{
		about:    Description{API: o.API, Model: o.Model, PromptVersion: PromptVersions},
		maxInput: cmp.Or(o.MaxInput, defaultMaxInput),
		model:    m,
	}, nil
}

func wireOf(api string) (wire, error) {
	switch api {
	case OpenAI:
		return chat{}, nil
	case Anthropic:
		return messages{}, nil
	default:
		return nil, fault.New(fault.Malformed, "--judge-api must be %s, %s or %s", OpenAI, Anthropic, Builtin)
	}
}

// check returns the base URL if a model can be asked with these options.
func (o Options) check() (*url.URL, error) {
	if o.URL == "" {
		return nil, fault.New(fault.Malformed, "--judge-url is missing: --judge-api %s needs the base URL of the model's API", o.API)
	}
	base, err := outbound.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("--judge-url: %w", err)
	}
	if o.Model == "" {
		return nil, fault.New(fault.Malformed, "--judge-model is missing: --judge-api %s needs the name of the model", o.API)
	}
	if strings.ContainsFunc(strings.TrimSpace(o.Key), func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, fault.New(fault.Malformed, "--judge-key must be one line of ASCII")
	}
	if o.Concurrency < 0 || o.Timeout < 0 || o.MaxTokens < 0 || o.MaxInput < 0 || !o.Prices.valid() {
		return nil, fault.New(fault.Malformed, "the judge's limits and prices must not be negative")
	}
	return base, nil
}

// Describe says who judges.
func (j *Judge) Describe() Description { return j.about }

// Totals is what all calls so far have used, failed ones included.
func (j *Judge) Totals() Totals {
	if j.model == nil {
		return Totals{}
	}
	return j.model.totals()
}

// newRecord begins the record of a call.
func (j *Judge) newRecord(promptVersion, schemaVersion string) Record {
	return Record{API: j.about.API, Model: j.about.Model, PromptVersion: promptVersion, SchemaVersion: schemaVersion}
}

// errRouteOnly is the built-in judge's answer to all but routing.
func errRouteOnly(what string) error {
	return &Error{
		Code: Unavailable,
		Message: "the builtin judge cannot " + what + ", only route trigger queries: set --judge-api to openai or anthropic, " +
			"--judge-url and --judge-model",
	}
}

// Prices are what a million tokens cost, in any one currency.
type Prices struct {
	Input  float64
	Output float64
}

func (p Prices) valid() bool {
	ok := func(f float64) bool { return f >= 0 && !math.IsInf(f, 1) }
	return ok(p.Input) && ok(p.Output)
}

func (p Prices) of(u Usage) float64 {
	return (float64(u.InputTokens)*p.Input + float64(u.OutputTokens)*p.Output) / 1e6
}
