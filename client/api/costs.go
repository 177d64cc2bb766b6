package api

// A Cost is what the requests of a subject cost in a window, in dollars rounded to
// millionths. A figure is null where it is unknown, which is not the same as 0.
type Cost struct {
	Currency           string     `json:"currency" enum:"USD"`
	PerUseP50          *float64   `json:"per_use_p50" doc:"Median over the uses whose cost is known"`
	PerUseP95          *float64   `json:"per_use_p95"`
	PerSuccess         *float64   `json:"per_success" doc:"Cost of graded sessions by the sum of their pass rates; null without a pass"`
	Total              *float64   `json:"total" doc:"Of the requests whose price is known; null if none is"`
	Tokens             CostTokens `json:"tokens"`
	Requests           int64      `json:"requests"`
	Basis              *string    `json:"basis" enum:"reported,priced,mixed" doc:"Whether agents reported the money, or it is tokens at our prices; null if no price is known"`
	UnpricedRequests   int64      `json:"unpriced_requests" doc:"Requests whose price is unknown: no part of any sum of money"`
	StandingPerSession *float64   `json:"standing_per_session" doc:"Estimate of what listing the skill costs each session"`
	LoadPerUse         *float64   `json:"load_per_use" doc:"Estimate of what loading SKILL.md costs each use"`
	// What follows is for the server. Uses are those whose cost is known, and PerUseLow the lower end of the 95 % interval
	// of their median; nil below 6 uses.
	Uses      int64    `json:"-"`
	PerUseLow *float64 `json:"-"`
}

// CostTokens are the tokens of a Cost.
type CostTokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// A Bill is what the model requests of a window cost, by skill. Null and 0 differ: null
// means that the price is unknown, 0 that it cost nothing.
type Bill struct {
	Days         int        `json:"days"`
	Total        *float64   `json:"total" doc:"Dollars; the sum of unattributed and of all skills. Null: there are requests, and no price is known"`
	Unattributed *float64   `json:"unattributed" doc:"Dollars; of requests that belong to no skill"`
	Skills       []BillItem `json:"skills" nullable:"false" doc:"Skills with requests, by name"`
}

// A BillItem is the share of one skill.
type BillItem struct {
	SkillID string   `json:"skill_id" format:"uuid"`
	Name    string   `json:"name" example:"pdf-tables"`
	Total   *float64 `json:"total" doc:"Dollars; null if no price is known"`
	Uses    int64    `json:"uses"`
}
