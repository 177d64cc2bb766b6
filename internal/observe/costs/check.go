package costs

import "errors"

// The largest numbers of one request that are plausible: far above those of any
// model, and so small that no sum of them overflows.
const (
	MaxTokens = 1 << 40
	MaxMicros = 10_000_000_000 // 10,000 dollars
	maxModel  = 200            // bytes
)

// Check reports why a request cannot be counted.
func (r Request) Check() error {
	t := r.Tokens
	for _, n := range []int64{t.Input, t.Output, t.CacheRead, t.CacheWrite} {
		if n < 0 || n > MaxTokens {
			return errors.New("tokens must be between 0 and 2^40")
		}
	}
	switch {
	case t.CacheWriteHour < 0 || t.CacheWriteHour > t.CacheWrite:
		return errors.New("tokens written for an hour must be part of those written")
	case r.Micros != nil && (*r.Micros < 0 || *r.Micros > MaxMicros):
		return errors.New("the cost must be between 0 and 10,000 dollars")
	case len(r.Model) > maxModel:
		return errors.New("the model must have at most 200 bytes")
	}
	return nil
}
