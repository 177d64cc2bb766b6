package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// A Cost is what model requests cost, in dollars. What is unknown is nil.
type Cost struct {
	Currency           string     `json:"currency"` // USD
	PerUseP50          *float64   `json:"per_use_p50"`
	PerUseP95          *float64   `json:"per_use_p95"`
	PerSuccess         *float64   `json:"per_success"`
	Total              *float64   `json:"total"`
	Tokens             CostTokens `json:"tokens"`
	Requests           int64      `json:"requests"`
	Basis              *string    `json:"basis"` // reported, priced or mixed
	UnpricedRequests   int64      `json:"unpriced_requests"`
	StandingPerSession *float64   `json:"standing_per_session"`
	LoadPerUse         *float64   `json:"load_per_use"`
}

// CostTokens are the tokens of a Cost; they do not overlap.
type CostTokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// A Bill is what the model requests of an organisation cost, in dollars.
type Bill struct {
	Days         int        `json:"days"`
	Total        *float64   `json:"total"`        // the sum of the rest; nil if no price is known
	Unattributed *float64   `json:"unattributed"` // of requests that belong to no skill
	Skills       []BillItem `json:"skills"`       // by name
}

// A BillItem is the share of one skill.
type BillItem struct {
	SkillID string   `json:"skill_id"`
	Name    string   `json:"name"`
	Total   *float64 `json:"total"`
	Uses    int64    `json:"uses"`
}

// Costs returns what model requests cost in the last days, today included: 30 when
// days is 0.
func (c *Client) Costs(ctx context.Context, days int) (out Bill, err error) {
	query := url.Values{}
	if days != 0 {
		query.Set("days", strconv.Itoa(days))
	}
	err = c.get(ctx, "/v1/costs", query, &out)
	return out, err
}

// A Price is what a model costs, in dollars per million tokens.
type Price struct {
	Match          string   `json:"match"`                // the model's name; * stands for any characters
	ValidFrom      string   `json:"valid_from,omitempty"` // a day, e.g. "2026-01-31"; empty: always
	Input          float64  `json:"input"`
	Output         float64  `json:"output"`
	CacheRead      *float64 `json:"cache_read,omitempty"`
	CacheWrite     *float64 `json:"cache_write,omitempty"`
	CacheWriteHour *float64 `json:"cache_write_hour,omitempty"`
}

// Prices are an organisation's own, in the order in which they are tried. As JSON
// they are a price file.
type Prices struct {
	Models []Price `json:"models"`
}

const pricesPath = "/api/v1/settings/prices"

// Prices returns the organisation's own prices.
func (c *Client) Prices(ctx context.Context) (out Prices, err error) {
	err = c.get(ctx, pricesPath, nil, &out)
	return out, err
}

// SetPrices replaces the organisation's own prices; without any, those of the
// server apply. It needs the permission admin.
func (c *Client) SetPrices(ctx context.Context, models []Price) (out Prices, err error) {
	in := call{method: http.MethodPut, path: pricesPath, body: encode(Prices{append([]Price{}, models...)}), idempotent: true}
	_, err = c.do(ctx, in, &out)
	return out, err
}
