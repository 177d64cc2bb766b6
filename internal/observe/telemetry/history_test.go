package telemetry_test

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// A history is what the agents of an organisation did, whoever reports it. The
// second test oracle starts from it, not from reports: what happened once counts
// once, however many producers tell of it.
type history struct {
	shelves  []*published
	sessions []*agentSession
	prices   [][]price // the organisation's own, one list after the other
}

// published is an entry of the registry.
type published struct {
	name      string
	currents  []becoming // of versions 1, 2, ..., each in turn; a lower one is a rollback
	installed [2][]becoming
}

// becoming is that a version became current or was installed; version 0 is
// content that is no version.
type becoming struct {
	version int
	since   time.Time
}

// An agentSession is a session of an agent.
type agentSession struct {
	agent string // claude, codex or client
	user  int    // of two
	name  string
	// Claude Code reports it by OTLP, or its transcript is imported, or both.
	otlp, imported bool
	loads          []pluginLoad
	offers         []time.Time // of all skills in offered
	offered        []string
	turns          []string
	uses           []skillUse
	requests       []spending
	grades         []verdict
}

type pluginLoad struct {
	at          time.Time
	marketplace string // "", own or foreign
	version     int
}

type skillUse struct {
	skill      string
	at         time.Time
	turn, call string // call is "" if a person called the skill
	fired      bool
	lost       bool     // OTLP does not report the result of the call, the import has the call
	confidence *float64 // as a client or an import reports it
	version    int      // that the report names by its hash, or 0
}

// spending is a model request.
type spending struct {
	skill    string // "" for none
	use      string // within the session and the skill
	at       time.Time
	turn     string
	id       string // of the API, "" if the provider has none
	model    string
	tokens   tokens
	reported *int64 // millionths of a dollar
}

// tokens are disjoint, except that writeHour is a part of write.
type tokens struct{ input, output, read, write, writeHour int64 }

type verdict struct {
	id    string
	skill string
	at    time.Time
	rate  float64
}

// price is dollars for a million tokens.
type price struct {
	match, from                           string
	input, output, read, write, writeHour float64
}

// embedded is a price that the service comes with.
var embedded = price{match: "claude-sonnet-4-5", input: 3, output: 15, read: 0.3, write: 3.75, writeHour: 6}

// cost is the money of a request in millionths, nil if it is unknown.
func (r spending) cost(own []price) *int64 {
	if r.reported != nil {
		return r.reported
	}
	for _, p := range append(slices.Clone(own), embedded) {
		if p.match != r.model || p.from > r.at.UTC().Format(time.DateOnly) {
			continue
		}
		sum := new(big.Rat)
		for _, part := range []struct {
			n     int64
			price float64
		}{
			{r.tokens.input, p.input},
			{r.tokens.output, p.output},
			{r.tokens.read, p.read},
			{r.tokens.write - r.tokens.writeHour, p.write},
			{r.tokens.writeHour, p.writeHour},
		} {
			sum.Add(sum, new(big.Rat).Mul(big.NewRat(part.n, 1), exact(part.price)))
		}
		micros := roundHalfUp(sum)
		return &micros
	}
	return nil
}

func roundHalfUp(r *big.Rat) int64 {
	r = new(big.Rat).Add(r, big.NewRat(1, 2))
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

// pluginOf is the plugin that has the skill, or "".
func pluginOf(skill string) string {
	plugin, _, ok := strings.Cut(skill, ":")
	if !ok {
		return ""
	}
	return plugin
}

// told is the history as one organisation was told it.
type told struct {
	*history
	org     string
	users   [2]string
	shelves map[string]*shelf // by the name of the entry
}

// attribute returns the version that counts for what a skill did in a session.
func (t *told) attribute(s *agentSession, skill string, version int, at time.Time) (id, basis string) {
	shelf := t.shelves[skill]
	if shelf == nil {
		return "", ""
	}
	if version > 0 {
		return shelf.versions[version-1].id, "hash"
	}
	if v := s.loadedVersion(skill, at); v > 0 && v <= len(shelf.versions) {
		return shelf.versions[v-1].id, "plugin"
	}
	for _, p := range t.history.shelves {
		if p.name != skill {
			continue
		}
		last := 0
		for _, i := range p.installed[s.user] {
			if !i.since.After(at) {
				last = i.version
			}
		}
		if last > 0 {
			return shelf.versions[last-1].id, "installation"
		}
	}
	return shelf.attribute("", at)
}

// loadedVersion is the version of the skill's plugin that the session had loaded,
// 0 if it did not or if that is none of the registry.
func (s *agentSession) loadedVersion(skill string, at time.Time) (version int) {
	if pluginOf(skill) == "" {
		return 0
	}
	for i, l := range s.loads {
		if l.marketplace == foreign {
			return 0
		}
		if i == 0 || !l.at.After(at) {
			version = l.version
		}
	}
	return version
}

const (
	own     = "own"
	foreign = "acme-market"
)

// model counts the uses, offers and grades of the history.
func (t *told) model() *model {
	m := newModel()
	key := func(s *agentSession, parts ...any) recordKey {
		return recordKey{t.users[s.user], s.name + fmt.Sprintln(parts...)}
	}
	for name, shelf := range t.shelves {
		k := skillKey{t.org, name}
		m.shelves[k], m.named[k] = shelf, true
	}
	known := map[string]bool{} // skills of plugins
	for _, s := range t.sessions {
		for i, u := range s.uses {
			k := skillKey{t.org, u.skill}
			m.named[k] = true
			known[u.skill] = known[u.skill] || u.fired
			use := invocation{
				skill: k, user: t.users[s.user], session: s.name, at: u.at, triggered: u.fired, confidence: s.confidence(u),
			}
			use.version, use.basis = t.attribute(s, u.skill, u.version, u.at)
			m.invocations[key(s, i)] = use
		}
		for _, name := range s.offered {
			known[name] = true
		}
	}
	for _, s := range t.sessions {
		offer := func(skill string, at time.Time) {
			k := key(s, skill, dayOf(at))
			o, ok := m.invocations[k]
			if !ok {
				o = invocation{
					skill: skillKey{t.org, skill}, user: t.users[s.user], session: s.name, offered: true, at: at, until: at,
				}
			}
			o.at = slices.MinFunc([]time.Time{o.at, at}, time.Time.Compare)
			o.until = slices.MaxFunc([]time.Time{o.until, at}, time.Time.Compare)
			o.version, _ = t.attribute(s, skill, 0, o.at)
			m.invocations[k], m.named[o.skill] = o, true
		}
		for _, at := range s.offers {
			for _, name := range s.offered {
				offer(name, at)
			}
		}
		for name, known := range known {
			for _, l := range s.loads {
				if known && pluginOf(name) == "acme" {
					offer(name, l.at)
				}
			}
		}
		for _, u := range s.uses {
			if s.agent == "claude" && s.otlp && u.fired && pluginOf(u.skill) != "" { // it names the plugin
				offer(u.skill, u.at)
			}
		}
		for _, g := range s.grades {
			k := skillKey{t.org, g.skill}
			m.named[k] = true
			m.gradings[key(s, g.id)] = grading{skill: k, user: t.users[s.user], session: s.name, at: g.at, rate: exact(g.rate)}
			m.attributeGradings(k, t.users[s.user], s.name)
		}
	}
	return m
}

// confidence is what a report says over what an event implies.
func (s *agentSession) confidence(u skillUse) *float64 {
	switch {
	case !s.otlp || s.imported:
		return u.confidence
	case u.call == "":
		return p(1.0)
	}
	return p(0.6)
}

// charges are requests of the organisation, with the money that is known.
type charge struct {
	spending
	user, session string
	micros        *int64
}

func (t *told) charges(prices []price, want func(charge) bool) (all []charge) {
	for _, s := range t.sessions {
		for _, r := range s.requests {
			c := charge{r, t.users[s.user], s.name, r.cost(prices)}
			if want(c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// total is the money that is known, null if there are requests and none has a
// price.
func total(all []charge) any {
	sum, priced := int64(0), 0
	for _, c := range all {
		if c.micros != nil {
			sum, priced = sum+*c.micros, priced+1
		}
	}
	if len(all) > 0 && priced == 0 {
		return nil
	}
	return dollars(sum)
}

func dollars(micros int64) any { return float64(micros) / 1e6 }

// usesOf returns the money of the uses that began on a day from first on, sorted,
// and how many there are with those whose money is unknown.
func usesOf(all []charge, first int) (known []int64, count int) {
	type useKey struct{ user, session, use string }
	byUse := map[useKey][]charge{}
	for _, c := range all {
		k := useKey{c.user, c.session, c.use}
		byUse[k] = append(byUse[k], c)
	}
	for _, of := range byUse {
		if dayOf(slices.MinFunc(of, func(a, b charge) int { return a.at.Compare(b.at) }).at) < first {
			continue
		}
		count++
		if sum, ok := paid(of); ok {
			known = append(known, sum)
		}
	}
	slices.Sort(known)
	return known, count
}

// paid sums the money of requests; not if that of any is unknown.
func paid(all []charge) (sum int64, ok bool) {
	for _, c := range all {
		if c.micros == nil {
			return 0, false
		}
		sum += *c.micros
	}
	return sum, true
}

// rank is the nearest rank, null without numbers.
func rank(sorted []int64, percent int) any {
	if len(sorted) == 0 {
		return nil
	}
	return dollars(sorted[(percent*len(sorted)+99)/100-1])
}

// cost is the expected cost of a skill in the window, null without a request.
func (t *told) cost(m *model, k skillKey, today int) any {
	first := today - window + 1
	all := t.charges(t.lastPrices(), func(c charge) bool { return c.skill == k.name })
	recent := slices.DeleteFunc(slices.Clone(all), func(c charge) bool { return dayOf(c.at) < first })
	if len(recent) == 0 {
		return nil
	}
	var sum tokens
	unpriced, reported := 0, 0
	for _, c := range recent {
		sum.input, sum.output = sum.input+c.tokens.input, sum.output+c.tokens.output
		sum.read, sum.write = sum.read+c.tokens.read, sum.write+c.tokens.write
		switch {
		case c.micros == nil:
			unpriced++
		case c.reported != nil:
			reported++
		}
	}
	var basis any = "mixed"
	switch {
	case unpriced == len(recent):
		basis = nil
	case reported == len(recent)-unpriced:
		basis = "reported"
	case reported == 0:
		basis = "priced"
	}
	uses, _ := usesOf(all, first)
	return object{
		"currency": "USD", "total": total(recent), "requests": len(recent), "unpriced_requests": unpriced, "basis": basis,
		"tokens":      object{"input": sum.input, "output": sum.output, "cache_read": sum.read, "cache_write": sum.write},
		"per_use_p50": rank(uses, 50), "per_use_p95": rank(uses, 95), "per_success": perSuccess(m.ofSkill(k), all, first),
	}
}

// perSuccess is the money of the sessions that were graded in the window, all of
// whose requests for the skill have a price, by the sum of their pass rates.
func perSuccess(s selection, all []charge, first int) any {
	money, passes := int64(0), new(big.Rat)
	bySession := map[recordKey][]charge{}
	for _, c := range all {
		k := recordKey{c.user, c.session}
		bySession[k] = append(bySession[k], c)
	}
	for k, of := range bySession {
		one := selection{gradings: slices.DeleteFunc(slices.Clone(s.gradings), func(g grading) bool {
			return g.user != k.user || g.session != k.id
		})}
		rates := one.grades(first, forever)
		if sum, ok := paid(of); ok && len(rates) > 0 {
			money += sum
			passes.Add(passes, rates[0])
		}
	}
	if passes.Sign() == 0 {
		return nil
	}
	return dollars(roundHalfUp(new(big.Rat).Quo(big.NewRat(money, 1), passes)))
}

// bill is the expected answer of GET /v1/costs, without ids of skills.
func (t *told) bill(today, days int) object {
	first := today - days + 1
	since := func(want func(charge) bool) []charge {
		return t.charges(t.lastPrices(), func(c charge) bool { return dayOf(c.at) >= first && want(c) })
	}
	names := map[string]bool{}
	for _, c := range since(func(c charge) bool { return c.skill != "" }) {
		names[c.skill] = true
	}
	skills := []any{}
	for _, name := range skillNames {
		if !names[name] {
			continue
		}
		_, uses := usesOf(t.charges(nil, func(c charge) bool { return c.skill == name }), first)
		skills = append(skills, object{
			"name": name, "total": total(since(func(c charge) bool { return c.skill == name })), "uses": uses,
		})
	}
	return object{
		"days": days, "skills": skills, "total": total(since(func(charge) bool { return true })),
		"unattributed": total(since(func(c charge) bool { return c.skill == "" })),
	}
}

func (t *told) lastPrices() []price {
	if len(t.prices) == 0 {
		return nil
	}
	return t.prices[len(t.prices)-1]
}
