// Package pricing holds what language models cost: a table of our own, prices of
// the operator's file and of an organisation before it, and the arithmetic.
package pricing

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// The limits of a table.
const (
	MaxModels = 1000
	MaxMatch  = 200    // bytes
	MaxPrice  = 10_000 // dollars per million tokens
)

// A Model is an entry of a table: the prices of the models that it matches, in
// dollars per million tokens, which is millionths of a dollar per token.
type Model struct {
	// Match is the name of the model, in which * stands for any characters. It is
	// compared with the name as reported, and without what providers add: see
	// candidates.
	Match string `json:"match" minLength:"1" maxLength:"200" example:"claude-sonnet-4-5*"`
	// ValidFrom is the first day of the prices, "" for the beginning of time.
	ValidFrom string   `json:"valid_from,omitempty" format:"date" example:"2026-01-01" doc:"First day (UTC) of these prices; omitted: always"`
	Input     float64  `json:"input" minimum:"0" maximum:"10000" example:"3"`
	Output    float64  `json:"output" minimum:"0" maximum:"10000" example:"15"`
	CacheRead *float64 `json:"cache_read,omitempty" minimum:"0" maximum:"10000" example:"0.3" doc:"Omitted: the price of input"`
	// CacheWrite is the price of a token that is cached for minutes, and
	// CacheWriteHour of one that is cached for an hour.
	CacheWrite     *float64 `json:"cache_write,omitempty" minimum:"0" maximum:"10000" example:"3.75" doc:"Omitted: the price of input"`
	CacheWriteHour *float64 `json:"cache_write_hour,omitempty" minimum:"0" maximum:"10000" example:"6" doc:"Of tokens cached for an hour; omitted: twice the price of input"`
}

// Check reports the first field that is wrong, by its path below prefix.
func (m Model) Check(prefix string) error {
	invalid := func(field, format string, args ...any) error {
		return fault.Invalid(prefix+field, prefix+field+" "+format, args...)
	}
	if m.Match == "" || len(m.Match) > MaxMatch || !text.Valid(m.Match) {
		return invalid("match", "must be a name of 1 to %d bytes, in which * stands for any characters", MaxMatch)
	}
	if m.ValidFrom != "" {
		if _, err := time.Parse(time.DateOnly, m.ValidFrom); err != nil {
			return invalid("valid_from", "must be a day like 2026-01-31")
		}
	}
	for _, p := range []struct {
		field string
		price *float64
	}{
		{"input", &m.Input},
		{"output", &m.Output},
		{"cache_read", m.CacheRead},
		{"cache_write", m.CacheWrite},
		{"cache_write_hour", m.CacheWriteHour},
	} {
		if p.price != nil && !(*p.price >= 0 && *p.price <= MaxPrice) {
			return invalid(p.field, "must be between 0 and 10,000 dollars per million tokens")
		}
	}
	return nil
}

// Check reports the first thing that is wrong with the entries of a table.
func Check(models []Model) error {
	if len(models) > MaxModels {
		return fault.Invalid("models", "models must be at most %d", MaxModels)
	}
	for i, m := range models {
		if err := m.Check(fmt.Sprintf("models.%d.", i)); err != nil {
			return err
		}
	}
	return nil
}

// A Table is entries in the order in which they are tried: the first that matches
// the model and is valid on the day has its price.
type Table struct {
	entries []entry
	hash    string
}

type entry struct {
	match     []string // the parts of Model.Match between asterisks, in lower case
	validFrom string
	price     Price
}

//go:embed prices.json
var embedded []byte

// Embedded returns the table that the program comes with.
var Embedded = sync.OnceValue(func() Table {
	models, err := Parse(embedded)
	if err != nil {
		panic(err) // tested
	}
	return Table{}.Before(models)
})

// Before returns the table with entries that are tried before its own. They must
// have passed Check.
func (t Table) Before(models []Model) Table {
	if len(models) == 0 {
		return t
	}
	entries := make([]entry, 0, len(models)+len(t.entries))
	for _, m := range models {
		entries = append(entries, entry{
			match: strings.Split(strings.ToLower(m.Match), "*"), validFrom: m.ValidFrom, price: m.price(),
		})
	}
	raw, err := json.Marshal(models)
	if err != nil {
		panic(err) // texts and finite numbers always marshal
	}
	sum := sha256.Sum256(append(raw, t.hash...))
	return Table{append(entries, t.entries...), hex.EncodeToString(sum[:16])}
}

// Hash identifies the content of the table.
func (t Table) Hash() string { return t.hash }

// Lookup returns the price of a model at a time.
func (t Table) Lookup(model string, at time.Time) (Price, bool) {
	if model == "" {
		return Price{}, false
	}
	names, day := candidates(model), at.UTC().Format(time.DateOnly)
	for _, e := range t.entries {
		if e.validFrom <= day && slices.ContainsFunc(names, e.matches) {
			return e.price, true
		}
	}
	return Price{}, false
}

// matches compares the whole name: the parts must follow each other, the first at
// the beginning and the last at the end.
func (e entry) matches(name string) bool {
	first, last := e.match[0], e.match[len(e.match)-1]
	rest, ok := strings.CutPrefix(name, first)
	if len(e.match) == 1 {
		return ok && rest == ""
	}
	if rest, ok = strings.CutSuffix(rest, last); !ok || !strings.HasPrefix(name, first) {
		return false
	}
	for _, part := range e.match[1 : len(e.match)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// A Price is what tokens of a model cost, in billionths of a thousandth of a
// dollar (10^-12) per token: the prices of tables are exact in it.
type Price struct {
	Input, Output, CacheRead, CacheWrite, CacheWriteHour int64
}

// picos is the number of Price's units in a millionth of a dollar.
const picos = 1_000_000

func (m Model) price() Price {
	or := func(price *float64, other float64) int64 {
		if price == nil {
			price = &other
		}
		return int64(math.Round(*price * picos))
	}
	return Price{
		Input: or(&m.Input, 0), Output: or(&m.Output, 0), CacheRead: or(m.CacheRead, m.Input),
		CacheWrite: or(m.CacheWrite, m.Input), CacheWriteHour: or(m.CacheWriteHour, 2*m.Input),
	}
}

// Tokens are disjoint: Input has neither those read from a cache nor those written
// to one. Reasoning is part of Output.
type Tokens struct {
	Input, Output, CacheRead, CacheWrite int64
	// CacheWriteHour is the part of CacheWrite that is kept for an hour, which
	// costs more.
	CacheWriteHour int64
}

// Micros returns what tokens cost in millionths of a dollar, rounded half up. It
// reports false if that is more than a number holds.
func (p Price) Micros(t Tokens) (int64, bool) {
	hi, lo := uint64(0), uint64(picos/2)
	for _, x := range [][2]int64{
		{t.Input, p.Input},
		{t.Output, p.Output},
		{t.CacheRead, p.CacheRead},
		{t.CacheWrite - t.CacheWriteHour, p.CacheWrite},
		{t.CacheWriteHour, p.CacheWriteHour},
	} {
		h, l := bits.Mul64(uint64(x[0]), uint64(x[1])) // neither is negative
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	if hi >= picos {
		return 0, false
	}
	micros, _ := bits.Div64(hi, lo, picos)
	return int64(micros), micros <= math.MaxInt64 // false if it overflows
}
