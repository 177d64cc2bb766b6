// Package costs holds what the model requests of agents cost: tokens and money by
// organisation, skill, version, day and use. Money that an agent reports wins;
// else it is the tokens at the price of the day. A request of an unknown model
// has tokens and no money, which is not the same as costing nothing.
//
// It owns the tables cost_requests, cost_marks, cost_groups, cost_days,
// cost_buckets, cost_models and cost_prices. Every rollup is changed by the
// difference that a request makes, in the transaction that stores it.
package costs

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// A Request is one call of a language model that a producer reported.
type Request struct {
	// ID is the natural key, see skills.ID. A second report with the same ID is
	// the same request, which deduplicates OTLP and imported transcripts.
	ID      string
	Session string // "" when unknown
	// Turn is the agent's own id of the prompt that caused the request, "" when
	// unknown. The requests of a skill in one turn are one use of it.
	Turn string
	// Skill is the name of the skill that the producer attributes the request to,
	// "" for none.
	Skill string
	// Inferred means that the producer never names skills on requests: the skill
	// is that of the last Mark of the session before it.
	Inferred bool
	Model    string // "" when unknown
	Tokens   Tokens
	// Micros is the price that the producer reported, in millionths of a dollar.
	Micros *int64
	At     time.Time
}

// Tokens are those of one request, see pricing.Tokens.
type Tokens = pricing.Tokens

// A Mark is a moment in a session after which inferred requests are attributed to a
// skill, or to none: an activation, or the next prompt.
type Mark struct {
	Session string
	Skill   string // "" for none
	At      time.Time
	// OpensTurn means that the producer reports the prompt of the same turn after
	// the activation: the next mark without a skill does not end it, if it follows
	// within promptDelay.
	OpensTurn bool
}

// promptDelay is how long after an activation its own prompt may be reported:
// Codex takes 1 to 11 ms.
const promptDelay = time.Second
