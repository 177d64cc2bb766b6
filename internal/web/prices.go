package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// pricesView is the organisation's own prices, as rows and as the text of a price file.
type pricesView struct {
	Models []pricing.Model
	Rows   []priceRow // of the form
	Text   string     // of the import
}

// A priceRow is the prices of a model as they are typed, in dollars per million tokens.
type priceRow struct {
	Match, ValidFrom string
	Prices           []priceField
}

// A priceField is one price of a row.
type priceField struct{ Name, Label, Value string }

// A priceForm is the columns of the form.
type priceForm struct {
	Match     []string `form:"match"`
	ValidFrom []string `form:"valid_from"`
	Input     []string `form:"input"`
	Output    []string `form:"output"`
	Read      []string `form:"cache_read"`
	Write     []string `form:"cache_write"`
	WriteHour []string `form:"cache_write_hour"`
}

// examplePrices is the text of the import for an organisation without own prices. The
// units are dollars for a million tokens, as vendors publish them.
const examplePrices = `{"models": [
  {"match": "our-model-*", "input": 1, "output": 4, "cache_read": 0.1}
]}`

// handlePrices shows the organisation's own prices.
func (s *Service) handlePrices(v *visit) (answer, error) {
	view, err := s.ownPrices(v)
	return show("settings_prices", "Prices", view), err
}

// ownPrices reads the prices for the page. Prices of the installation are not shown:
// they are in its price file.
func (s *Service) ownPrices(v *visit) (view pricesView, err error) {
	if view.Models, err = s.Costs.OwnPrices(v.Context(), v.Caller.OrgID); err != nil {
		return view, err
	}
	for _, m := range view.Models {
		view.Rows = append(view.Rows, newPriceRow(m.Match, m.ValidFrom, typedPrice(&m.Input), typedPrice(&m.Output),
			typedPrice(m.CacheRead), typedPrice(m.CacheWrite), typedPrice(m.CacheWriteHour)))
	}
	view.Rows = append(view.Rows, newPriceRow("", "", "", "", "", "", ""))
	view.Text = examplePrices
	if len(view.Models) > 0 {
		view.Text, err = priceFile(view.Models)
	}
	return view, err
}

func typedPrice(price *float64) string {
	if price == nil {
		return ""
	}
	return format.Price(*price)
}

func newPriceRow(match, validFrom, input, output, read, write, writeHour string) priceRow {
	return priceRow{match, validFrom, []priceField{
		{"input", "Input", input},
		{"output", "Output", output},
		{"cache_read", "Cache read", read},
		{"cache_write", "Cache write", write},
		{"cache_write_hour", "Cache write, 1 hour", writeHour},
	}}
}

// Rows are the rows as they were typed, empty ones left out. A form without all columns, which
// no browser sends, has none.
func (f priceForm) Rows() (rows []priceRow) {
	for i := range f.Match {
		at := func(column []string) string {
			if i >= len(column) {
				return ""
			}
			return strings.TrimSpace(column[i])
		}
		row := newPriceRow(at(f.Match), at(f.ValidFrom), at(f.Input), at(f.Output), at(f.Read), at(f.Write), at(f.WriteHour))
		if row.Match != "" || row.typed() {
			rows = append(rows, row)
		}
	}
	return rows
}

// typed reports whether the row has a price.
func (r priceRow) typed() bool {
	for _, p := range r.Prices {
		if p.Value != "" {
			return true
		}
	}
	return false
}

// model reads the n-th row, and says what is wrong with it in the words of the form.
func (r priceRow) model(n int) (m pricing.Model, issues []fault.Issue) {
	wrong := func(format string, args ...any) {
		issues = append(issues, fault.At("rows", "Row %d: %s", n, fmt.Sprintf(format, args...)))
	}
	m = pricing.Model{Match: r.Match, ValidFrom: r.ValidFrom}
	if m.Match == "" || len(m.Match) > pricing.MaxMatch {
		wrong("enter the name of a model, up to %d characters.", pricing.MaxMatch)
	}
	if _, err := time.Parse(time.DateOnly, m.ValidFrom); m.ValidFrom != "" && err != nil {
		wrong("enter a day like 2026-01-31, or leave “Valid from” empty.")
	}
	prices := make([]*float64, len(r.Prices))
	for i, field := range r.Prices {
		if field.Value == "" && field.Name != "input" && field.Name != "output" { // those are required
			continue
		}
		price, ok := formNumber(field.Value, pricing.MaxPrice)
		if !ok {
			wrong("%s: enter 0 to %d USD per million tokens.", field.Label, pricing.MaxPrice)
		}
		prices[i] = &price
	}
	m.Input, m.Output, m.CacheRead, m.CacheWrite, m.CacheWriteHour = *prices[0], *prices[1], prices[2], prices[3], prices[4]
	return m, issues
}

// priceFile returns a price file with one line for each model, so that the line that an
// error names is easy to find.
func priceFile(models []pricing.Model) (string, error) {
	lines := make([]string, len(models))
	for i, m := range models {
		line, err := json.Marshal(m)
		if err != nil {
			return "", err
		}
		lines[i] = "  " + string(line)
	}
	return "{\"models\": [\n" + strings.Join(lines, ",\n") + "\n]}", nil
}

// handleSetPrices replaces the organisation's own prices with the rows of the form, or with
// those of a price file; the button "reset" removes them.
func (s *Service) handleSetPrices(v *visit) (answer, error) {
	rows, text := decodeForm[priceForm](v.Request).Rows(), v.PostFormValue("prices")
	models, problem := pricesOf(v, rows, text)
	if problem == nil {
		problem = s.Costs.SetPrices(v.Context(), v.Caller, models)
	}
	if problem == nil {
		return redirect("/settings/prices", "The prices were saved. Costs are computed again in the background."), nil
	}
	view, err := s.ownPrices(v)
	if err != nil {
		return answer{}, err
	}
	if text != "" {
		view.Text = text
	} else {
		view.Rows = rows
	}
	return show("settings_prices", "Prices", view).refused(problem)
}

// pricesOf reads the prices that were sent, in whichever way. None means that only the
// prices of the server count.
func pricesOf(v *visit, rows []priceRow, text string) ([]pricing.Model, error) {
	switch {
	case v.PostFormValue("reset") != "":
		return []pricing.Model{}, nil
	case v.PostForm.Has("prices"):
		models, err := pricing.Parse([]byte(text))
		if err != nil {
			// The parser's errors name the entry and its line.
			return nil, fault.Invalid("prices", "Price file: %s", err)
		}
		return models, nil
	}
	models, issues := make([]pricing.Model, len(rows)), []fault.Issue(nil)
	for i, row := range rows {
		model, wrong := row.model(i + 1)
		models[i], issues = model, append(issues, wrong...)
	}
	if len(issues) > 0 {
		return nil, fault.Issues(issues...)
	}
	return models, nil
}
