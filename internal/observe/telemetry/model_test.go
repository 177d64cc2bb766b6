package telemetry_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
)

// model is the test oracle: it computes in the simplest way what the service
// should answer. It is written from the API's definitions and shares no code with
// the product: it keeps every accepted record and scans all of them each time.
type model struct {
	named       map[skillKey]bool // skills that were ever spoken of
	reports     map[recordKey][]invocation
	verdicts    map[recordKey][]grading
	invocations map[recordKey]invocation // merged from their reports
	gradings    map[recordKey]grading
	shelves     map[skillKey]*shelf      // entries of the registry
	moved       map[recordKey][2]session // of the records of the current push, before and now
}

func newModel() *model {
	return &model{
		named: map[skillKey]bool{}, reports: map[recordKey][]invocation{}, verdicts: map[recordKey][]grading{},
		invocations: map[recordKey]invocation{},
		gradings:    map[recordKey]grading{}, shelves: map[skillKey]*shelf{}, moved: map[recordKey][2]session{},
	}
}

type skillKey struct{ org, name string }

// A record is idempotent on organisation, user, kind and natural id; a user has
// one organisation.
type recordKey struct{ user, id string }

type invocation struct {
	skill         skillKey
	user, session string
	at, said      time.Time
	offered       bool      // only listed to the model, from at to until
	until         time.Time // of an offer
	triggered     bool
	confidence    *float64
	hash          string
	version       string // the one it counts for
	basis         string // why
}

type grading struct {
	skill         skillKey
	user, session string
	at            time.Time
	rate          *big.Rat
	version       string
}

// invoked adds one report of an invocation. The newest report wins, each optional
// field is that of the newest report that has it, and of two equally old values
// the greater wins.
func (m *model) invoked(id string, r invocation) {
	m.named[r.skill] = true
	key := recordKey{r.user, id}
	before := m.invocations[key]
	m.reports[key] = append(m.reports[key], r)
	now := slices.MaxFunc(m.reports[key], func(a, b invocation) int {
		return cmp.Or(a.said.Compare(b.said), a.at.Compare(b.at), compareBools(a.triggered, b.triggered),
			cmp.Compare(a.skill.name, b.skill.name))
	})
	now.confidence, now.hash, now.session = nil, "", ""
	var confident, hashed, located time.Time
	for _, r := range m.reports[key] {
		if c := r.confidence; c != nil && (now.confidence == nil || newer(r.said, confident, *c > *now.confidence)) {
			now.confidence, confident = c, r.said
		}
		if r.hash != "" && (now.hash == "" || newer(r.said, hashed, r.hash > now.hash)) {
			now.hash, hashed = r.hash, r.said
		}
		if now.session == "" || newer(r.said, located, sessionHash(r.user, r.session) > sessionHash(r.user, now.session)) {
			now.session, located = r.session, r.said
		}
	}
	now.version, now.basis = m.shelves[now.skill].attribute(now.hash, now.at)
	m.invocations[key] = now
	m.touch(key, session{before.skill, before.user, before.session}, session{now.skill, now.user, now.session})
}

// offered adds one report that a session was offered a skill. Those of one day are
// one offer, from the first to the last.
func (m *model) offered(o invocation) {
	m.named[o.skill] = true
	key := recordKey{o.user, fmt.Sprint("offer ", o.session, " ", dayOf(o.at), " ", o.skill.name)}
	o.offered, o.until = true, o.at
	if known, ok := m.invocations[key]; ok {
		o.at = slices.MinFunc([]time.Time{o.at, known.at}, time.Time.Compare)
		o.until = slices.MaxFunc([]time.Time{o.until, known.until}, time.Time.Compare)
	}
	o.version, _ = m.shelves[o.skill].attribute("", o.at)
	m.invocations[key] = o
	m.touch(key, session{}, session{o.skill, o.user, o.session})
}

type session struct {
	skill      skillKey
	user, name string
}

// touch notes that a record belonged to a session before the push, or to none, and
// belongs to another now.
func (m *model) touch(key recordKey, before, now session) {
	if earlier, ok := m.moved[key]; ok {
		before = earlier[0]
	}
	m.moved[key] = [2]session{before, now}
}

// pushed ends a push: gradings follow the activations of the sessions that it
// touched.
func (m *model) pushed() {
	for _, sessions := range m.moved {
		for _, s := range sessions {
			m.attributeGradings(s.skill, s.user, s.name)
		}
	}
	clear(m.moved)
}

// sessionHash is the pseudonym under which a session is stored. It only breaks
// ties.
func sessionHash(words ...string) string {
	h := sha256.New()
	for _, w := range slices.Insert(words, 1, "session") {
		_ = binary.Write(h, binary.LittleEndian, uint32(len(w)))
		h.Write([]byte(w))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// newer reports whether a value of a time replaces one of another time.
func newer(at, than time.Time, greater bool) bool {
	return at.After(than) || at.Equal(than) && greater
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// graded adds one report of a grading; the newest grading time wins, and of two
// verdicts of one time the worse.
func (m *model) graded(id string, r grading) {
	m.named[r.skill] = true
	key := recordKey{r.user, id}
	before := m.gradings[key]
	m.verdicts[key] = append(m.verdicts[key], r)
	now := slices.MaxFunc(m.verdicts[key], func(a, b grading) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.skill.name, b.skill.name),
			cmp.Compare(sessionHash(a.user, a.session), sessionHash(b.user, b.session)))
	})
	now.rate = nil
	var rated time.Time
	for _, v := range m.verdicts[key] {
		if v.rate != nil && (now.rate == nil || newer(v.at, rated, v.rate.Cmp(now.rate) < 0)) {
			now.rate, rated = v.rate, v.at
		}
	}
	m.gradings[key] = now
	key.id = "grading " + key.id
	m.touch(key, session{before.skill, before.user, before.session}, session{now.skill, now.user, now.session})
}

// attributeGradings lets the gradings of a session follow its activations: they
// count for the version that was activated last. If it activated none that is known,
// they count for none; without any activation, for the version that was current.
func (m *model) attributeGradings(skill skillKey, user, session string) {
	var last invocation
	activated := false
	for _, i := range m.invocations {
		if i.skill != skill || i.user != user || i.session != session || !i.triggered {
			continue
		}
		activated = true
		if i.version != "" && (last.version == "" || cmp.Or(i.at.Compare(last.at), cmp.Compare(i.version, last.version)) > 0) {
			last = i
		}
	}
	for key, g := range m.gradings {
		if g.skill != skill || g.user != user || g.session != session {
			continue
		}
		if g.version = last.version; !activated {
			g.version, _ = m.shelves[skill].attribute("", g.at)
		}
		m.gradings[key] = g
	}
}

// shelf is an entry with its versions.
type shelf struct {
	id       string
	versions []shelved // in the order in which they were pushed
	currents []current
}

type shelved struct{ id, hash string }

type current struct {
	id    string
	since time.Time
}

// attribute returns the version whose content has the hash, else the one that was
// current at the time, and the basis.
func (s *shelf) attribute(hash string, at time.Time) (version, basis string) {
	if s == nil {
		return "", ""
	}
	for _, v := range slices.Backward(s.versions) {
		if v.hash == hash {
			return v.id, "hash"
		}
	}
	found := current{}
	for _, c := range s.currents {
		if !c.since.After(at) && (found.id == "" || c.since.After(found.since)) {
			found = c
		}
	}
	return found.id, "time"
}

// A selection is a subset of the accepted records.
type selection struct {
	invocations []invocation
	gradings    []grading
}

func (m *model) selectBy(seen func(invocation) bool, judged func(grading) bool) selection {
	return selection{
		slices.DeleteFunc(slices.Collect(maps.Values(m.invocations)), func(i invocation) bool { return !seen(i) }),
		slices.DeleteFunc(slices.Collect(maps.Values(m.gradings)), func(g grading) bool { return !judged(g) }),
	}
}

func (m *model) ofSkill(k skillKey) selection {
	return m.selectBy(func(i invocation) bool { return i.skill == k }, func(g grading) bool { return g.skill == k })
}

func (m *model) ofVersion(id string) selection {
	return m.selectBy(func(i invocation) bool { return i.version == id }, func(g grading) bool { return g.version == id })
}

// between selects the invocations of the days from first to last.
func (s selection) between(first, last int) []invocation {
	return slices.DeleteFunc(slices.Clone(s.invocations),
		func(i invocation) bool { return dayOf(i.at) < first || dayOf(i.at) > last })
}

func dayOf(t time.Time) int {
	midnight := time.Date(t.UTC().Year(), t.UTC().Month(), t.UTC().Day(), 0, 0, 0, 0, time.UTC)
	return int(midnight.Unix() / 86_400)
}

const forever = 1 << 30

// countSessions counts distinct sessions; a session belongs to a user.
func countSessions(all []invocation, want func(invocation) bool) int {
	seen := map[recordKey]bool{}
	for _, i := range all {
		if want(i) {
			seen[recordKey{i.user, i.session}] = true
		}
	}
	return len(seen)
}

func always(invocation) bool       { return true }
func triggered(i invocation) bool  { return i.triggered }
func offered(i invocation) bool    { return i.offered }
func considered(i invocation) bool { return !i.offered }

func count(all []invocation, want func(invocation) bool) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(i invocation) bool { return !want(i) }))
}

// ratio is null while the denominator is 0.
func ratio(part, whole int) any {
	if whole == 0 {
		return nil
	}
	return float(big.NewRat(int64(part), int64(whole)))
}

func float(r *big.Rat) any {
	f, _ := r.Float64()
	return f
}

// exact is a number as it was written.
func exact(f float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	if !ok {
		panic("not a number")
	}
	return r
}

func mean(values []*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, v := range values {
		sum.Add(sum, v)
	}
	return sum.Quo(sum, big.NewRat(int64(len(values)), 1))
}

func confidence(all []invocation) (values []*big.Rat) {
	for _, i := range all {
		if i.triggered && i.confidence != nil {
			values = append(values, exact(*i.confidence))
		}
	}
	return values
}

func avgConfidence(all []invocation) any {
	values := confidence(all)
	if len(values) == 0 {
		return nil
	}
	return float(mean(values))
}

// grades returns the pass rates of the sessions whose newest verdict falls on the
// days from first to last.
func (s selection) grades(first, last int) (rates []*big.Rat) {
	bySession := map[recordKey][]grading{}
	for _, g := range s.gradings {
		if g.rate != nil {
			k := recordKey{g.user, g.session}
			bySession[k] = append(bySession[k], g)
		}
	}
	for _, all := range bySession {
		newest := slices.MaxFunc(all, func(a, b grading) int { return a.at.Compare(b.at) })
		if day := dayOf(newest.at); day < first || day > last {
			continue
		}
		var values []*big.Rat
		for _, g := range all {
			values = append(values, g.rate)
		}
		rates = append(rates, mean(values))
	}
	return rates
}

func passRate(rates []*big.Rat) any {
	if len(rates) == 0 {
		return nil
	}
	return float(mean(rates))
}

// wilson is the score interval for 95 %.
func wilson(rates []*big.Rat) [2]float64 {
	p, _ := mean(rates).Float64()
	n, z := float64(len(rates)), 1.959963985
	root := math.Sqrt(p*(1-p)/n + z*z/(4*n*n))
	return [2]float64{
		math.Max(0, (p+z*z/(2*n)-z*root)/(1+z*z/n)),
		math.Min(1, (p+z*z/(2*n)+z*root)/(1+z*z/n)),
	}
}

func status(now, before []*big.Rat) string {
	if len(now) < 5 {
		return "unknown"
	}
	p := mean(now)
	switch {
	case p.Cmp(big.NewRat(1, 2)) < 0:
		return "critical"
	case p.Cmp(big.NewRat(4, 5)) < 0:
		return "warning"
	case len(before) == 0:
		return "healthy"
	}
	drop := new(big.Rat).Sub(mean(before), p)
	if drop.Cmp(big.NewRat(1, 10)) >= 0 && wilson(now)[1] < wilson(before)[0] {
		return "warning"
	}
	return "healthy"
}

const window = 30

// item is the expected element of the list, without its id.
func (m *model) item(k skillKey, today int) object {
	s := m.ofSkill(k)
	start := today - window + 1
	recent := s.between(start, forever)
	now := s.grades(start, forever)
	_, last := s.seen()
	var basis any
	rates := object{}
	if len(now) > 0 {
		basis, rates["pushed"] = "pushed", passRate(now)
	}
	return object{
		"name":                k.name,
		"status":              status(now, s.grades(start-window, start-1)),
		"unique_sessions":     countSessions(s.invocations, always),
		"has_evidence":        len(s.grades(-forever, forever)) > 0,
		"trigger_rate":        ratio(countSessions(recent, triggered), countSessions(recent, always)),
		"trigger_rate_basis":  triggerRateBasis(recent),
		"offered_sessions":    countSessions(recent, offered),
		"avg_confidence":      avgConfidence(recent),
		"confidence_coverage": ratio(len(confidence(recent)), count(recent, triggered)),
		"pass_rate":           passRate(now),
		"pass_rate_basis":     basis,
		"pass_rates_by_basis": rates,
		"last_seen_at":        last,
		"confirmed":           true,
		"hidden":              false,
		"merged_into":         nil,
		"cost":                nil, // no model requests are sent
		"cost_per_use":        nil,
	}
}

func triggerRateBasis(recent []invocation) any {
	switch {
	case len(recent) == 0:
		return nil
	case count(recent, offered) > 0:
		return "offered"
	}
	return "considered"
}

// seen returns when the skill was first and last observed.
func (s selection) seen() (first, last any) {
	if len(s.invocations) == 0 {
		return nil, nil
	}
	byTime := slices.SortedFunc(slices.Values(s.invocations), func(a, b invocation) int { return a.at.Compare(b.at) })
	end := byTime[len(byTime)-1].at
	for _, i := range byTime {
		if i.until.After(end) {
			end = i.until
		}
	}
	wire := func(at time.Time) any { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
	return wire(byTime[0].at), wire(end)
}

// detail is the expected detail of a skill, without its id.
func (m *model) detail(k skillKey, today, days int) object {
	s := m.ofSkill(k)
	skill := m.item(k, today)
	skill["first_seen_at"], _ = s.seen()
	delete(skill, "cost_per_use") // it is in the cost
	now := s.grades(today-window+1, forever)
	skill["graded_sessions"] = len(now)
	recent := s.between(today-window+1, forever)
	skill["seen_sessions"], skill["triggered_sessions"] = countSessions(recent, always), countSessions(recent, triggered)
	skill["pass_rate_interval"], skill["graded_sessions_by_basis"] = nil, object{}
	if len(now) > 0 {
		skill["pass_rate_interval"], skill["graded_sessions_by_basis"] = wilson(now), object{"pushed": len(now)}
	}
	stats := []any{}
	for day := today - days + 1; day <= today; day++ {
		of, graded := s.between(day, day), s.grades(day, day)
		stats = append(stats, object{
			"date":            time.Unix(int64(day)*86_400, 0).UTC().Format("2006-01-02"),
			"sessions":        countSessions(of, always),
			"checks":          count(of, considered),
			"triggers":        count(of, triggered),
			"trigger_rate":    ratio(countSessions(of, triggered), countSessions(of, always)),
			"avg_confidence":  avgConfidence(of),
			"graded_sessions": len(graded),
			"pass_rate":       passRate(graded),
		})
	}
	return object{"skill": skill, "daily_stats": stats}
}

// quality is the expected quality of a version in the registry.
func (m *model) quality(versionID string) object {
	s := m.ofVersion(versionID)
	based := func(basis string) int {
		return count(s.invocations, func(i invocation) bool { return i.basis == basis })
	}
	grades := s.grades(-forever, forever)
	var basis any
	if len(grades) > 0 {
		basis = "pushed"
	}
	return object{
		"aggregate_sessions":        countSessions(s.invocations, always),
		"aggregate_trigger_rate":    ratio(countSessions(s.invocations, triggered), countSessions(s.invocations, always)),
		"aggregate_pass_rate":       passRate(grades),
		"aggregate_pass_rate_basis": basis,
		"version_basis_counts": object{
			"hash": based("hash"), "plugin": based("plugin"), "installation": based("installation"), "time": based("time"),
		},
	}
}
