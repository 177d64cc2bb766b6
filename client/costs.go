package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

type (
	// A Bill is what the model requests of a window cost, by skill. Null and 0 differ: null
	// means that the price is unknown, 0 that it cost nothing.
	Bill = api.Bill
	// A BillItem is the share of one skill.
	BillItem = api.BillItem
	// A Cost is what the requests of a subject cost in a window, in dollars rounded to
	// millionths. A figure is null where it is unknown, which is not the same as 0.
	Cost = api.Cost
	// CostTokens are the tokens of a Cost.
	CostTokens = api.CostTokens
)

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
