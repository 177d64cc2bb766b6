package format

import (
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// Condition describes when a rule fires, e.g. "7-day pass rate below 80 %".
func Condition(r alerts.Rule) string {
	if r.Type == alerts.NoData {
		if r.Threshold == 0 {
			return "no session today"
		}
		return "no session for " + Days(r.Threshold)
	}
	text := "7-day pass rate below " + Percent(r.Threshold)
	switch r.Type {
	case alerts.WorseThanPrevious:
		text = "pass rate " + Percent(r.Threshold) + " worse than that of the version before"
	case alerts.CostAbove:
		return "a use costs more than " + pricing.Format(r.Threshold)
	case alerts.SilentFall:
		return "used " + Percent(r.Threshold) + " less often when offered"
	case alerts.PassRateBelow, alerts.NoData:
		if r.Sensitivity == alerts.Sequential {
			text = "pass rate below " + Percent(r.Threshold)
		}
	}
	if r.Sensitivity != alerts.Point {
		text += " (" + string(r.Sensitivity) + ")"
	}
	return text
}

// FiredAt says what the pass rate was when an alert of a type fired, and of what; ""
// if the alert is on something else.
func FiredAt(t alerts.Type, rate *float64) string {
	switch {
	case rate == nil:
		return ""
	case t == alerts.WorseThanPrevious:
		return Percent(rate) + " of the version when it fired"
	case t == alerts.PassRateBelow:
		return Percent(rate) + " in 7 days when it fired"
	}
	return ""
}
