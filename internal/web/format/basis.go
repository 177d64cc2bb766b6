package format

import (
	"fmt"
	"math"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// basisTexts say what a pass rate rests on, by precedence.
var basisTexts = []struct {
	basis basis.Basis
	text  string
	word  string // in lists
}{
	{basis.Person, "graded by people", "people"},
	{basis.Pushed, "reported by clients", "reported"},
	{basis.Judge, "judged by a model", "judge"},
	{basis.Outcome, "from outcomes", "outcomes"},
}

// Basis says what a pass rate rests on, and if that is several things, the rate of
// each, e.g. "mixed: graded by people 90 % (10 sessions), from outcomes 50 % (2
// sessions)". It is "" without a graded session.
func Basis(r basis.Rates) string {
	var all []string
	for _, b := range basisTexts {
		count := r.Sessions[b.basis]
		if count == 0 {
			continue
		}
		if *r.Basis != basis.Mixed {
			return b.text
		}
		sessions, _ := Plural(count, "session", "sessions") // it is a number
		all = append(all, fmt.Sprintf("%s %s (%s)", b.text, Percent(r.PassRate[b.basis]), sessions))
	}
	if len(all) == 0 {
		return ""
	}
	return "mixed: " + strings.Join(all, ", ")
}

// BasisWords is Basis for lists: "judge", or with the sessions of each, e.g.
// "people 10, outcomes 2".
func BasisWords(r basis.Rates) string {
	var all []string
	for _, b := range basisTexts {
		count := r.Sessions[b.basis]
		if count == 0 {
			continue
		}
		if *r.Basis != basis.Mixed {
			return b.word
		}
		sessions, _ := Number(count) // it is one
		all = append(all, b.word+" "+sessions)
	}
	if len(all) == 0 {
		return None
	}
	return strings.Join(all, ", ")
}

// Agreement says how far the judge can be trusted.
func Agreement(c grades.Calibration) string {
	if c.Agreement == nil {
		return "the judge is not compared with people yet"
	}
	sessions, _ := Plural(c.Pairs, "session", "sessions") // it is a number
	text := fmt.Sprintf("the judge agrees with people in %.0f of %s (%s)",
		math.Round(*c.Agreement*float64(c.Pairs)), sessions, Interval(c.Interval))
	if c.Kappa != nil {
		text += fmt.Sprintf(", kappa %.2f (%.2f to %.2f)", *c.Kappa, c.KappaInterval[0], c.KappaInterval[1])
	}
	return text
}

// BasisWord names what one grade rests on; "reported" is what the API calls pushed.
func BasisWord(of any) string {
	if word := fmt.Sprint(of); word != string(basis.Pushed) {
		return word
	}
	return "reported"
}
