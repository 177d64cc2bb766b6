package web

import (
	"encoding/json"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// pricesView is the organisation's own prices, as rows and as the text of a price
// file.
type pricesView struct {
	Models []pricing.Model
	Text   string
}

// examplePrices is the text of the form for an organisation without own prices. The
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
	view.Text = examplePrices
	if len(view.Models) > 0 {
		view.Text, err = priceFile(view.Models)
	}
	return view, err
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

// handleSetPrices replaces the organisation's own prices with those of a price file;
// the button "reset" removes them.
func (s *Service) handleSetPrices(v *visit) (answer, error) {
	models, text := []pricing.Model{}, v.PostFormValue("prices")
	var problem error
	// An empty list means that only the installation's prices count.
	if v.PostFormValue("reset") == "" {
		models, problem = pricing.Parse([]byte(text))
		// The parser's errors name the entry and its line.
		if problem != nil {
			problem = fault.Invalid("prices", "%s", problem)
		}
	}
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
	view.Text = text
	return show("settings_prices", "Prices", view).refused(problem)
}
