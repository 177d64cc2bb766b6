// Package gateway lets programs in a sandbox ask one model and nothing else. A
// session is an HTTP server on a Unix socket that is mounted into the sandbox. It
// knows one upstream, passes only the paths of its wire format, adds the key,
// which is never inside, and refuses requests with status 429 once a budget is
// spent. What the requests of a trial and of a run cost is counted here, where
// the program cannot change it. It owns no tables.
package gateway

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// An API is a wire format of model servers.
type API string

// The wire formats.
const (
	Anthropic API = "anthropic" // Anthropic's messages
	OpenAI    API = "openai"    // OpenAI's chat completions
	Responses API = "responses" // OpenAI's responses
	Google    API = "gemini"    // Google's generateContent
)

// APIs lists the wire formats.
func APIs() []API { return []API{Anthropic, OpenAI, Responses, Google} }

// Limits of a request and its answer. maxMemory bounds the requests in memory of all sessions, so
// that trials in parallel cannot exhaust the server.
const (
	maxRequest     = 32 << 20
	maxAnswer      = 64 << 20
	maxMemory      = 8 * sessionMemory
	requestTimeout = 15 * time.Minute // models may think for minutes before the first byte
)

// A Model is a model server that the operator has configured.
type Model struct {
	Name string // by which runs choose it
	API  API
	URL  string // base URL: ".../v1", or "/v1beta", which may be left out for Anthropic and Google
	Key  string // "" for servers that need none
	// ID is the model in requests; Name if empty.
	ID string
}

// Options configure a gateway.
type Options struct {
	Models []Model
	Prices pricing.Table
	Log    *slog.Logger
	// Secrets are hidden in answers beside the keys of the models.
	Secrets []string
	// Peer, if not nil, counts the requests to models.
	Peer *metrics.Peer
}

// A Gateway knows the models. It is safe for concurrent use.
type Gateway struct {
	upstreams []*upstream
	prices    pricing.Table
	http      *outbound.Client
	secrets   text.Secrets
	memory    *semaphore.Weighted // of the requests of all sessions
	log       *slog.Logger
}

// upstream is a model server with its wire format.
type upstream struct {
	name, id, key string
	api           API
	wire          wire
	base          *url.URL // ends before the paths of the wire format
}

// New returns a gateway. Its error is Malformed and names the setting.
func New(o Options) (*Gateway, error) {
	g := &Gateway{prices: o.Prices, memory: semaphore.NewWeighted(maxMemory), log: o.Log}
	for _, m := range o.Models {
		u, err := m.upstream()
		if err != nil {
			return nil, err
		}
		if g.find(m.Name) != nil {
			return nil, fault.Invalid("model", "model %s is set twice", m.Name)
		}
		g.upstreams = append(g.upstreams, u)
	}
	secrets := slices.Clone(o.Secrets)
	for _, u := range g.upstreams {
		secrets = append(secrets, u.key)
	}
	g.secrets = text.NewSecrets(secrets...)
	// The operator sets the URLs, so they may be private.
	client, err := outbound.New(outbound.Options{
		AllowPrivate: true, Timeout: requestTimeout, HeaderTimeout: requestTimeout, MaxBody: maxAnswer, Peer: o.Peer,
	})
	g.http = client
	return g, err
}

// upstream validates a model. The key goes into a header, so it must be printable ASCII: a line
// break would inject another header.
func (m Model) upstream() (*upstream, error) {
	u := &upstream{name: m.Name, id: m.ID, key: strings.TrimSpace(m.Key), api: m.API}
	if u.id == "" {
		u.id = m.Name
	}
	switch m.API {
	case Anthropic:
		u.wire = messages{}
	case OpenAI:
		u.wire = chat{}
	case Responses:
		u.wire = responses{}
	case Google:
		u.wire = google{}
	default:
		return nil, fault.Invalid("model-api", "model-api of %s must be %s, %s, %s or %s", m.Name, Anthropic, OpenAI,
			Responses, Google)
	}
	base, err := outbound.ParseURL(m.URL)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	if strings.ContainsFunc(u.key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, fault.Invalid("model-key", "model-key of %s must be one line of ASCII", m.Name)
	}
	u.base = u.wire.trim(base)
	return u, nil
}

func (g *Gateway) find(name string) *upstream {
	i := slices.IndexFunc(g.upstreams, func(u *upstream) bool { return u.name == name })
	if i < 0 {
		return nil
	}
	return g.upstreams[i]
}

// Models lists the names of the models that speak one of the wire formats, in the
// order of the settings.
func (g *Gateway) Models(apis ...API) []string {
	names := []string{}
	for _, u := range g.upstreams {
		if slices.Contains(apis, u.api) {
			names = append(names, u.name)
		}
	}
	return names
}

// An Offer is what is known of a configured model.
type Offer struct {
	API API
	// ID is the model in requests.
	ID string
	// Priced reports whether the price of the model is known.
	Priced bool
}

// Offer returns what is known of a model. The error is a NotFound.
func (g *Gateway) Offer(name string) (Offer, error) {
	u := g.find(name)
	if u == nil {
		return Offer{}, fault.New(fault.NotFound, "Model %q is not configured; set --model", name)
	}
	_, priced := g.prices.Lookup(u.id, time.Now())
	return Offer{API: u.api, ID: u.id, Priced: priced}, nil
}

// Redact removes the configured secrets, which a model's server could repeat, from a text that is
// to be stored or that goes into a sandbox.
func (g *Gateway) Redact(s string) string { return g.secrets.Redact(s) }
