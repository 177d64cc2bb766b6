// Package costs holds what the model requests of agents cost: tokens and money by
// organisation, skill, version, day and use. Money that an agent reports wins;
// else it is the tokens at the price of the day. A request of an unknown model
// has tokens and no money, which is not the same as costing nothing.
package costs

import "time"

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

// Tokens are disjoint: Input has neither those read from a cache nor those written
// to one. Reasoning is part of Output.
type Tokens struct {
	Input, Output, CacheRead, CacheWrite int64
	// CacheWriteHour is the part of CacheWrite that is kept for an hour, which
	// costs more.
	CacheWriteHour int64
}

// A Mark is a moment in a session from which on inferred requests belong to a
// skill, or to none: an activation, or the next prompt.
type Mark struct {
	Session string
	Skill   string // "" for none
	At      time.Time
}
