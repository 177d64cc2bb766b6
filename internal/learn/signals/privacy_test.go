package signals_test

import (
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestPrivacy attacks the k-anonymity of the figures: it sends every possible query
// about random signals and combines the responses. A response gives the number of
// signals in a set of points. From the numbers of a set and a subset follows that
// of the difference, from two disjoint sets that of the union, and empty points can
// be removed from all sets. No set that can be derived may have signals of fewer
// than k contributors.
func TestPrivacy(t *testing.T) {
	t.Parallel()
	for _, k := range []int{signals.DefaultMinContributors, 2, 5} {
		t.Run(fmt.Sprintf("of %d contributors", k), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, storetest.Open(t, "sqlite")) // TestRecount shows that both databases count alike
			w.signals.MinContributors = k
			rapid.Check(t, func(t *rapid.T) { attack(t, w) })
		})
	}
	t.Run("invented cohorts", func(t *testing.T) {
		t.Parallel()
		storetest.Each(t, testInventedCohorts)
	})
}

func attack(t *rapid.T, w *world) {
	a := newAttacker(t, w.org(t))
	a.prepare(rapid.SliceOfN(rapid.Custom(drawSecret), 1, 50).Draw(t, "signals"))
	a.ask()
	for a.conclude(); a.subtract(); {
		a.conclude() // a set turned out to be empty
	}
	a.eliminate()
	a.countPeople()
	a.countRows()
}

// A point is a class of signals that responses can distinguish.
type point struct {
	skill, kind string
	day         int64
	session     bool
	says        signals.Session
}

// A secret is a signal with its contributor.
type secret struct {
	point
	who string
}

// firstDay is a Monday.
const firstDay = 20_000 - 4

// The values that signals are drawn from.
var (
	someSkills      = []string{"pdf", "csv"}
	someDays        = []int64{0, 1, 2, 7, 8}
	someInvocations = []string{"explicit", "implicit", ""}
	someGrades      = []string{"A", "F", ""}
	someBuckets     = []string{"search", "testing", ""}
)

// universe lists all possible points.
func universe() (all []point) {
	for _, skill := range someSkills {
		for _, n := range someDays {
			p := point{skill: skill, day: firstDay + n}
			for _, p.kind = range []string{"missed_trigger", "odd"} {
				all = append(all, p)
			}
			p.kind, p.session = "skill_session", true
			for _, says := range someSessions() {
				p.says = says
				all = append(all, p)
			}
		}
	}
	return all
}

func someSessions() (all []signals.Session) {
	for _, invocation := range someInvocations {
		for _, grade := range someGrades {
			all = append(all, signals.Session{State: signals.Triggered, Invocation: invocation, Grade: grade})
		}
	}
	for _, bucket := range someBuckets {
		all = append(all, signals.Session{State: signals.Missed, QueryBucket: bucket})
	}
	return append(all, signals.Session{State: signals.Untriggered}, signals.Session{State: signals.Unknown})
}

func drawSecret(t *rapid.T) secret {
	s := secret{who: fmt.Sprint("person", rapid.IntRange(0, 6).Draw(t, "who"))}
	s.skill = rapid.SampledFrom([]string{"pdf", "pdf", "csv"}).Draw(t, "skill")
	s.day = firstDay + rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 7, 8}).Draw(t, "day")
	if rapid.Bool().Draw(t, "event") {
		s.kind = rapid.SampledFrom([]string{"missed_trigger", "odd"}).Draw(t, "kind")
		return s
	}
	s.kind, s.session = "skill_session", true
	s.says = rapid.SampledFrom(someSessions()).Draw(t, "says")
	return s
}

// An attacker knows the possible points, and learns the numbers of sets of them.
type attacker struct {
	*rapid.T
	k       int // the setting
	c       *client
	secrets []secret
	points  map[point]int // to bits
	list    []point
	facts   []fact
	empty   *big.Int            // points without signals
	known   map[string]*big.Int // sets whose number is known, by their text
	people  []peopleOf
	rows    []listed
}

// A fact is the number of signals in a set, from a response.
type fact struct {
	what string
	set  *big.Int
	n    int
}

func newAttacker(t *rapid.T, c *client) *attacker {
	a := &attacker{T: t, k: c.w.signals.MinContributors, c: c, points: map[point]int{}, known: map[string]*big.Int{}, list: universe()}
	a.c.T = t
	for i, p := range a.list {
		a.points[p] = i
	}
	return a
}

// peopleOf is a set whose number of contributors is known.
type peopleOf struct {
	set *big.Int
	n   int
}

// listed is a row of the aggregates.
type listed struct {
	set        *big.Int
	weekly     bool
	suppressed bool
	counted    bool // its contributors are known
}

func (a *attacker) prepare(secrets []secret) {
	var all []signals.Signal
	for n, s := range secrets {
		one := signals.Signal{
			SourceKey: fmt.Sprint(n), SkillName: s.skill, Type: s.kind, Contributor: s.who, Day: s.day, Confidence: new(int64),
		}
		if s.session {
			one.Session, one.Confidence = &s.says, nil
		}
		all = append(all, one)
	}
	a.secrets = secrets
	a.empty = a.set(func(p point) bool { // days that are not listed
		n, _ := a.truth(a.set(func(q point) bool { return q.skill == p.skill && q.kind == p.kind && q.day == p.day }))
		return n == 0
	})
	if _, err := a.c.w.signals.Store(a.Context(), a.c.Org.ID, all); err != nil {
		a.Fatalf("%v", err)
	}
	a.c.republish() // also if they are of fewer than k
}

// set returns the points that fulfil a condition.
func (a *attacker) set(of func(point) bool) *big.Int {
	set := new(big.Int)
	for i, p := range a.list {
		if of(p) {
			set.SetBit(set, i, 1)
		}
	}
	return set
}

// truth returns the real numbers of signals and contributors of a set.
func (a *attacker) truth(set *big.Int) (n, people int) {
	who := map[string]bool{}
	for _, s := range a.secrets {
		if set.Bit(a.points[s.point]) == 1 {
			n++
			who[s.who] = true
		}
	}
	return n, len(who)
}

// learn records the number of a set, unless it is suppressed.
func (a *attacker) learn(what string, value any, set *big.Int) {
	n, is := value.(float64)
	if !is {
		return
	}
	if signals, _ := a.truth(set); signals != int(n) {
		a.Errorf("%s is %v, want %d", what, n, signals)
	}
	a.facts = append(a.facts, fact{what, set, int(n)})
}

// conclude removes empty points: those that responses report as zero, and those
// that they do not list.
func (a *attacker) conclude() {
	for _, f := range a.facts {
		if f.n == 0 {
			a.empty.Or(a.empty, f.set)
		}
	}
	clear(a.known)
	for _, f := range a.facts {
		a.derive(f.what, new(big.Int).AndNot(f.set, a.empty))
	}
	for i := range a.people {
		a.people[i].set.AndNot(a.people[i].set, a.empty)
	}
	for i := range a.rows {
		a.rows[i].set.AndNot(a.rows[i].set, a.empty)
	}
}

// derive records a set whose number is known.
func (a *attacker) derive(what string, set *big.Int) bool {
	key := set.Text(16)
	if a.known[key] != nil || set.Sign() == 0 {
		return false
	}
	a.known[key] = set
	switch signals, people := a.truth(set); {
	case people == 0:
		a.empty.Or(a.empty, set)
	case people < a.k:
		a.Fatalf("%s reveals %d signals of %d contributors: %v", what, signals, people, a.describe(set))
	}
	return true
}

func (a *attacker) describe(set *big.Int) (points []point) {
	for i, p := range a.list {
		if set.Bit(i) == 1 {
			points = append(points, p)
		}
	}
	return points
}

// learnPeople records the number of contributors of a set.
func (a *attacker) learnPeople(what string, value any, set *big.Int) {
	n, is := value.(float64)
	if !is {
		return
	}
	if _, people := a.truth(set); people != int(n) || people > 0 && people < a.k {
		a.Errorf("%s has %v contributors, want %d", what, n, people)
	}
	a.people = append(a.people, peopleOf{set, int(n)})
}

// ask sends every query.
func (a *attacker) ask() {
	a.overview()
	for _, bucket := range []string{"day", "week"} {
		a.aggregates("bucket", bucket)
		for _, skill := range []string{"pdf", "csv"} {
			a.aggregates("bucket", bucket, "skill_name", skill)
		}
		for _, kind := range []string{"missed_trigger", "odd", "skill_session"} {
			a.aggregates("bucket", bucket, "signal_type", kind)
		}
		for range 3 {
			since := firstDay + rapid.Int64Range(-1, 9).Draw(a.T, "since")
			until := since + rapid.Int64Range(0, 9).Draw(a.T, "days")
			a.aggregates("bucket", bucket, "since", signals.DayName(since), "until", signals.DayName(until))
		}
	}
	for _, skill := range []string{"pdf", "csv"} {
		a.detail(skill)
	}
	a.findings()
}

// findings reads the evidence of proposals.
func (a *attacker) findings() {
	all, err := a.c.w.signals.Findings(a.Context(), a.c.Org.ID)
	if err != nil {
		a.Fatalf("%v", err)
	}
	for _, f := range all {
		of := func(is func(point) bool) *big.Int {
			return a.set(func(p point) bool { return p.skill == f.SkillName && is(p) })
		}
		says := map[string]func(point) bool{
			"missed_trigger": func(p point) bool { return p.kind == "missed_trigger" },
			"missed_session": func(p point) bool { return p.says.State == signals.Missed },
			"low_grade":      func(p point) bool { return p.says.Grade == "F" },
		}[f.Name]
		a.learn(f.Name, float64(f.Signals), of(says))
		a.learn("all of "+f.Name, float64(f.Total), of(func(point) bool { return true }))
		a.learnPeople(f.Name, float64(f.Contributors), of(func(point) bool { return true }))
		for bucket, n := range f.Buckets {
			a.learn(bucket, float64(n), of(func(p point) bool { return p.says.QueryBucket == bucket || p.says.Grade == bucket }))
		}
	}
}

func (a *attacker) overview() {
	o := a.c.get(overviewPath).want(http.StatusOK).object()
	total := new(big.Int)
	for _, s := range o["skills"].([]any) {
		row := s.(object)
		name := row["skill_name"].(string)
		set := a.set(func(p point) bool { return p.skill == name })
		a.learn("signals of "+name, row["signal_count"], set)
		a.learnPeople(name, row["contributor_count"], set)
		if row["signal_count"] != nil {
			total.Or(total, set)
		}
		a.learnRates(name, row)
	}
	a.learn("total_signals", o["total_signals"], total)
	a.learnPeople("all", o["total_contributors"], a.set(func(point) bool { return true }))
}

// learnRates assumes that both parts of each rate are known, since they may be
// guessed.
func (a *attacker) learnRates(name string, row object) {
	rate, is := row["trigger_rate"].(float64)
	if !is {
		return
	}
	in := func(states ...signals.State) *big.Int {
		return a.set(func(p point) bool {
			for _, s := range states {
				if p.skill == name && p.says.State == s {
					return true
				}
			}
			return false
		})
	}
	triggered, missed, known := in(signals.Triggered), in(signals.Missed), in(signals.Triggered, signals.Missed, signals.Untriggered)
	all, _ := a.truth(known)
	hit, _ := a.truth(triggered)
	miss, _ := a.truth(missed)
	if rate != float64(hit)/float64(all) || row["miss_rate"] != float64(miss)/float64(all) {
		a.Errorf("rates of %s are %v and %v, want %d and %d of %d", name, rate, row["miss_rate"], hit, miss, all)
	}
	for _, f := range []fact{{name, triggered, hit}, {name, missed, miss}, {name, known, all}} {
		a.facts = append(a.facts, fact{"a rate of " + f.what, f.set, f.n})
	}
}

func (a *attacker) detail(name string) {
	o := a.c.get(skillPath + name).want(http.StatusOK).object()
	of := func(is func(point) bool) *big.Int {
		return a.set(func(p point) bool { return p.skill == name && is(p) })
	}
	for _, m := range o["missed_categories"].([]any) {
		row := m.(object)
		a.learn("missed "+name, row["count"], of(func(p point) bool { return p.says.QueryBucket == row["query_bucket"] }))
	}
	for grade, n := range o["grade_distribution"].(object) {
		a.learn("grade "+grade, n, of(func(p point) bool { return p.says.Grade == grade }))
	}
	for call, n := range o["invocation_types"].(object) {
		a.learn("invocation "+call, n, of(func(p point) bool {
			return p.says.Invocation == call || call == "missed" && p.says.State == signals.Missed
		}))
	}
	for _, e := range o["weekly"].([]any) {
		row := e.(object)
		week := of(func(p point) bool { return signals.WeekName(p.day) == row["week"] })
		set := new(big.Int) // a sum is over shown cells
		for _, r := range a.rows {
			if r.weekly && !r.suppressed && new(big.Int).AndNot(r.set, week).Sign() == 0 {
				set.Or(set, r.set)
			}
		}
		a.learn("a week", row["signals"], set)
		a.learnPeople("a week", row["contributors"], set)
	}
}

func (a *attacker) aggregates(pairs ...string) {
	o := a.c.get(aggregatesPath + query(pairs...)).want(http.StatusOK).object()
	weekly := pairs[1] == "week"
	total := new(big.Int)
	for _, e := range o["aggregates"].([]any) {
		row := e.(object)
		set := a.set(func(p point) bool {
			bucket := signals.DayName(p.day)
			if weekly {
				bucket = signals.WeekName(p.day)
			}
			return p.skill == row["skill_name"] && p.kind == row["signal_type"] && bucket == row["bucket"]
		})
		what := fmt.Sprint(row["skill_name"], " ", row["signal_type"], " ", row["bucket"])
		a.learn(what, row["signal_count"], set)
		a.learnPeople(what, row["contributor_count"], set)
		if len(pairs) == 2 {
			a.rows = append(a.rows, listed{set, weekly, row["suppressed"] == true, row["contributor_count"] != nil})
		}
		if row["signal_count"] != nil {
			total.Or(total, set)
		}
	}
	totals := o["totals"].(object)
	what := "totals of " + strings.Join(pairs, " ")
	a.learn(what, totals["signals"], total)
	if n, is := totals["contributors"].(float64); is && n > 0 && int(n) < a.k {
		a.Errorf("%s: %v contributors", what, n)
	}
}
