// Package basis says what a grade of a session rests on, and counts grades by it.
package basis

// A Basis is what a grade rests on.
type Basis string

// The bases of a grade, by precedence: of the grades of one session the highest
// counts.
const (
	Person  Basis = "person"  // somebody opened the session and gave a verdict
	Pushed  Basis = "pushed"  // a producer reported it
	Judge   Basis = "judge"   // a model held the session against expectations
	Outcome Basis = "outcome" // derived from what happened, e.g. failed tool calls
)

// Mixed is the basis of a rate over grades of several bases.
const Mixed Basis = "mixed"

// all has the bases by precedence.
var all = []Basis{Person, Pushed, Judge, Outcome}

// Highest returns the basis with the highest precedence, "" of none.
func Highest(of ...Basis) Basis {
	for _, b := range all {
		for _, c := range of {
			if b == c {
				return b
			}
		}
	}
	return ""
}

// Parse returns the basis in a column, which is NULL for pushed grades.
func Parse(column *string) Basis {
	if column == nil {
		return Pushed
	}
	return Basis(*column)
}

// Column returns what is stored.
func (b Basis) Column() *string {
	if b == Pushed || b == "" {
		return nil
	}
	text := string(b)
	return &text
}

// Counts are the graded sessions of a rollup by basis, and the sums of their pass
// rates. Those that were pushed are not counted: they are the rest.
type Counts struct{ person, judge, outcome count }

type count struct{ sessions, sum int64 }

// Columns name the counters of Counts, in the order of Counters.
var Columns = []string{"person_sessions", "person_sum", "judge_sessions", "judge_sum", "outcome_sessions", "outcome_sum"}

// Counters returns the counters.
func (c *Counts) Counters() []*int64 {
	return []*int64{&c.person.sessions, &c.person.sum, &c.judge.sessions, &c.judge.sum, &c.outcome.sessions, &c.outcome.sum}
}

// Add counts a graded session, or with sign -1 takes it out.
func (c *Counts) Add(b Basis, passRate, sign int64) {
	switch b {
	case Person:
		c.person.add(passRate, sign)
	case Judge:
		c.judge.add(passRate, sign)
	case Outcome:
		c.outcome.add(passRate, sign)
	case Pushed, Mixed: // pushed ones are the rest, and a grade is never mixed
	}
}

func (c *count) add(passRate, sign int64) {
	c.sessions += sign
	c.sum += sign * passRate
}

// Rates are a pass rate by basis. Bases without a graded session are missing.
type Rates struct {
	Basis    *Basis // of the pass rate over all; nil without one
	PassRate map[Basis]float64
	Sessions map[Basis]int64
}

// Rates returns the rates of all graded sessions with a sum of pass rates in a
// unit, of which these are counted by basis.
func (c Counts) Rates(sessions, sum, unit int64) Rates {
	r := Rates{PassRate: map[Basis]float64{}, Sessions: map[Basis]int64{}}
	add := func(b Basis, of count) {
		if of.sessions <= 0 {
			return
		}
		r.PassRate[b], r.Sessions[b] = float64(of.sum)/float64(unit*of.sessions), of.sessions
		if r.Basis != nil {
			b = Mixed
		}
		r.Basis = &b
	}
	add(Person, c.person)
	add(Judge, c.judge)
	add(Outcome, c.outcome)
	add(Pushed, count{
		sessions - c.person.sessions - c.judge.sessions - c.outcome.sessions, sum - c.person.sum - c.judge.sum - c.outcome.sum,
	})
	return r
}
