package costs_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// TestRecount reports random streams in a random order, split and repeated, with
// new prices in between, and compares every rollup with a recount of all that was
// reported. -rapid.checks=1000 runs longer.
func TestRecount(t *testing.T) {
	apptest.FewChecks(t, 30)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := apptest.NewWorld(t, db, apptest.Options{})
		rapid.Check(t, func(rt *rapid.T) {
			s := newStream(w, rt)
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				s.step()
			}
			s.compare()
		})
	})
}

// base are the prices of the installation: whole dollars, so that a recount is
// exact.
var base = pricing.Table{}.Before([]pricing.Model{{Match: "cheap", Input: 1, Output: 2}, {Match: "dear", Input: 10, Output: 100}})

// stream is the input of one check.
type stream struct {
	*rapid.T
	w      *apptest.World
	org    *apptest.Caller
	users  []*apptest.Caller
	skills *skills.Service
	costs  *costs.Service
	start  time.Time

	// What was reported.
	requests     []sentRequest
	marks        []sentMark
	observations map[string]sentObservation // the newest by id
	gradings     map[string]skills.Grading  // the newest by id
	own          []pricing.Model
	clock        int
}

type sentRequest struct {
	user string
	costs.Request
}

type sentMark struct {
	user string
	costs.Mark
}

type sentObservation struct {
	user string
	skills.Observation
}

// checks numbers the organisations of all checks.
var checks atomic.Int64

// versions is a registry in which every skill has the versions v1 and v2, of which v1
// became current at a time.
type versions struct{ since time.Time }

func (v versions) Timelines(_ context.Context, _ store.Querier, ids []string) (map[string]inuse.Timeline, error) {
	all := map[string]inuse.Timeline{}
	for _, id := range ids {
		all[id] = inuse.Timeline{
			ByHash:   map[string]string{"1": versionOf(id, "1"), "2": versionOf(id, "2")},
			Currents: []inuse.Current{{VersionID: versionOf(id, "1"), Since: v.since}},
		}
	}
	return all, nil
}

func versionOf(skillID, hash string) string { return "v" + hash + " of " + skillID }

func newStream(w *apptest.World, t *rapid.T) *stream {
	s := &stream{
		T: t, w: w, start: time.Now().UTC().Truncate(24 * time.Hour).Add(-time.Hour),
		observations: map[string]sentObservation{}, gradings: map[string]skills.Grading{},
	}
	s.org = w.Org(fmt.Sprintf("org of check %d", checks.Add(1)))
	s.users = []*apptest.Caller{s.org, w.Member(s.org.Org, access.Member)}
	s.skills = &skills.Service{DB: w.DB, Versions: versions{s.published()}, Window: 30}
	s.costs = &costs.Service{DB: w.DB, Jobs: w.Queue, Prices: base}
	return s
}

// published is when the first version became current: activations before it that name
// no version have none.
func (s *stream) published() time.Time { return s.start.Add(30 * time.Minute) }

func pick[T any](s *stream, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(s.T, label)
}

// at returns one of few times around midnight, so that many are equal.
func (s *stream) at() time.Time {
	return s.start.Add(time.Duration(rapid.IntRange(0, 12).Draw(s.T, "at")) * 10 * time.Minute)
}

func (s *stream) step() {
	switch what := rapid.IntRange(0, 9).Draw(s.T, "what"); {
	case what < 7:
		s.report()
	case what == 7:
		s.setPrices()
	case what == 8:
		if err := s.costs.Reprice(s.w.T.Context(), s.org.Org.ID); err != nil {
			s.Fatalf("%v", err)
		}
	default:
		s.repeat()
	}
}

// report sends a random report of one user.
func (s *stream) report() {
	user := pick(s, "user", s.users...)
	var seen skills.Report
	var paid costs.Report
	for range rapid.IntRange(0, 4).Draw(s.T, "requests") {
		paid.Requests = append(paid.Requests, s.request(user))
	}
	for range rapid.IntRange(0, 2).Draw(s.T, "marks") {
		paid.Marks = append(paid.Marks, costs.Mark{
			Session: pick(s, "session", "", "s", "t"), Skill: pick(s, "skill", "", "", "pdf", "xls", "custom_skill"),
			At: s.at().Add(pick(s, "delay", 0, 3*time.Millisecond, time.Second, 2*time.Second)), OpensTurn: rapid.Bool().Draw(s.T, "opens"),
		})
	}
	s.clock++
	now := s.start.Add(time.Duration(s.clock) * time.Microsecond)
	for range rapid.IntRange(0, 2).Draw(s.T, "observations") {
		seen.Observations = append(seen.Observations, skills.Observation{
			ID:        skills.ID(user.Org.ID, user.User.ID, "o", pick(s, "observation", "1", "2", "3", "4")),
			SkillName: pick(s, "skill", "pdf", "xls"), Session: pick(s, "session", "s", "t"), VersionHash: pick(s, "version", "", "1", "2"),
			Triggered: pick(s, "triggered", true, true, false), At: s.at(), NormalizedAt: now,
		})
		now = now.Add(time.Nanosecond * 1000)
		s.clock++
	}
	for range rapid.IntRange(0, 2).Draw(s.T, "gradings") {
		rate := pick(s, "rate", 0, 1, 0.5)
		seen.Gradings = append(seen.Gradings, skills.Grading{
			ID:        skills.ID(user.Org.ID, user.User.ID, "g", pick(s, "grading", "1", "2", "3")),
			SkillName: pick(s, "skill", "pdf", "xls"), Session: pick(s, "session", "s", "t"), PassRate: &rate,
			At: now,
		})
		now = now.Add(time.Nanosecond * 1000)
		s.clock++
	}
	s.send(user, seen, paid)
}

func (s *stream) request(user *apptest.Caller) costs.Request {
	r := costs.Request{
		ID:      skills.ID(user.Org.ID, user.User.ID, "r", fmt.Sprint(rapid.IntRange(0, 12).Draw(s.T, "request"))),
		Session: pick(s, "session", "s", "s", "t", ""), Turn: pick(s, "turn", "", "1", "2"),
		Skill: pick(s, "skill", "", "", "pdf", "xls", "third-party"), Inferred: pick(s, "inferred", true, false),
		Model: pick(s, "model", "cheap", "dear", "own", "nobody's", ""),
		At:    s.at().Add(pick(s, "delay", 0, 5*time.Second)),
		Tokens: costs.Tokens{
			Input: rapid.Int64Range(0, 40).Draw(s.T, "input"), Output: rapid.Int64Range(0, 40).Draw(s.T, "output"),
			CacheRead: rapid.Int64Range(0, 9).Draw(s.T, "read"), CacheWrite: rapid.Int64Range(5, 9).Draw(s.T, "write"),
			CacheWriteHour: rapid.Int64Range(0, 5).Draw(s.T, "hour"),
		},
	}
	if pick(s, "reported", true, false, false) {
		micros := rapid.Int64Range(0, 3000).Draw(s.T, "micros")
		r.Micros = &micros
	}
	return r
}

// send reports to the services and to the model.
func (s *stream) send(user *apptest.Caller, seen skills.Report, paid costs.Report) {
	ctx := s.w.T.Context()
	seen.OrgID, seen.UserID, paid.OrgID, paid.UserID = user.Org.ID, user.User.ID, user.Org.ID, user.User.ID
	err := s.w.DB.InTx(ctx, func(tx *store.Tx) error {
		return s.skills.Observe(ctx, tx, seen, func(c skills.Changes) error {
			paid.Sessions = c.Sessions
			return s.costs.Ingest(ctx, tx, paid)
		})
	})
	if err != nil {
		s.Fatalf("%v", err)
	}
	for _, r := range paid.Requests {
		s.requests = append(s.requests, sentRequest{user.User.ID, r})
	}
	for _, m := range paid.Marks {
		s.marks = append(s.marks, sentMark{user.User.ID, m})
	}
	for _, o := range seen.Observations {
		if o.VersionHash == "" { // what is left out stays
			o.VersionHash = s.observations[o.ID].VersionHash
		}
		s.observations[o.ID] = sentObservation{user.User.ID, o}
	}
	for _, g := range seen.Gradings {
		s.gradings[g.ID] = g
	}
}

// repeat reports requests and marks again, in another split and order.
func (s *stream) repeat() {
	user := pick(s, "user", s.users...)
	var again costs.Report
	for _, r := range s.requests {
		if r.user == user.User.ID && rapid.Bool().Draw(s.T, "again") {
			again.Requests = append(again.Requests, r.Request)
		}
	}
	for _, m := range s.marks {
		if m.user == user.User.ID && rapid.Bool().Draw(s.T, "again") {
			again.Marks = append(again.Marks, m.Mark)
		}
	}
	slices.Reverse(again.Requests)
	s.send(user, skills.Report{}, again)
}

func (s *stream) setPrices() {
	s.own = pick(s, "prices", []pricing.Model{}, []pricing.Model{{Match: "own", Input: 3, Output: 4}},
		[]pricing.Model{{Match: "own", Input: 5, Output: 5}, {Match: "dear", Input: 1, Output: 1}})
	caller := access.Caller{OrgID: s.org.Org.ID, UserID: s.org.User.ID}
	if err := s.costs.SetPrices(access.With(s.w.T.Context(), caller), caller, s.own); err != nil {
		s.Fatalf("%v", err)
	}
}

// rollup is all rollups of an organisation, by row.
type rollup map[string][]int64

func (r rollup) add(key string, at int, n int64) {
	if r[key] == nil {
		r[key] = make([]int64, 15)
	}
	r[key][at] += n
}

// The columns of a row of days.
const (
	requests = iota
	reported
	unpriced
	micros
	input
	output
	cacheRead
	cacheWrite
	uses
	useRequests
	sessions
	sessionRequests
	graded
	gradedMicros
	passRates
)

func (s *stream) compare() {
	ctx := s.w.T.Context()
	if err := s.costs.Reprice(ctx, s.org.Org.ID); err != nil {
		s.Fatalf("%v", err)
	}
	if diff := gocmp.Diff(s.recount(), s.stored()); diff != "" {
		s.Fatalf("(- recounted, + stored):\n%s", diff)
	}
	findings, err := s.costs.Check(ctx, s.w.DB)
	if err != nil || findings[0].Status != "ok" {
		s.Fatalf("the doctor says %v, %v", findings, err)
	}
}

// stored reads the rows that are not zero.
func (s *stream) stored() rollup {
	names := s.names()
	all := rollup{}
	read := func(query string, columns int) {
		rows, err := s.w.DB.Query(s.w.T.Context(), query)
		err = store.Each(rows, err, func(row store.Row) error {
			var subject, rest string
			numbers := make([]int64, columns)
			targets := []any{&subject, &rest}
			for i := range numbers {
				targets = append(targets, &numbers[i])
			}
			err := row.Scan(targets...)
			if name, ok := names[subject]; ok && slices.ContainsFunc(numbers, func(n int64) bool { return n != 0 }) {
				all[name+" "+rest] = append(numbers, make([]int64, 15-columns)...)
			}
			return err
		})
		if err != nil {
			s.Fatalf("%v", err)
		}
	}
	read(`SELECT subject_id, CAST(day AS TEXT), requests, reported, unpriced, micros, input, output, cache_read, cache_write, uses,
		use_requests, sessions, session_requests, graded_sessions, graded_micros, pass_rate_sum FROM cost_days`, 15)
	read(`SELECT subject_id, day || ' bucket ' || bucket, uses, micros FROM cost_buckets`, 2)
	read(`SELECT org_id, day || ' model ' || model, requests FROM cost_models`, 1)
	return all
}

// names are the subjects of the organisation by their ids.
func (s *stream) names() map[string]string {
	names := map[string]string{s.org.Org.ID: "org"}
	rows, err := s.w.DB.Query(s.w.T.Context(), `SELECT id, name FROM skills WHERE org_id = $1`, s.org.Org.ID)
	err = store.Each(rows, err, func(row store.Row) error {
		var id, name string
		err := row.Scan(&id, &name)
		names[id] = name
		names[versionOf(id, "1")], names[versionOf(id, "2")] = name+" v1", name+" v2"
		return err
	})
	if err != nil {
		s.Fatalf("%v", err)
	}
	return names
}

// counted is a request as it counts after all reports.
type counted struct {
	sentRequest
	skill string
	use   string
	cost  *int64
}

// recount computes all rollups from what was reported, in no particular order.
func (s *stream) recount() rollup {
	all := rollup{}
	byUse, bySession, ofOrg := map[string][]counted{}, map[[3]string][]counted{}, map[[2]string][]counted{}
	for _, r := range s.merged() {
		c := s.attributed(r)
		c.cost = s.cost(r.Request)
		session := [3]string{c.user, c.Session, c.skill}
		subjects := []string{"org"}
		if c.skill != "" {
			subjects = append(subjects, c.skill)
			byUse[c.use] = append(byUse[c.use], c)
			if c.Session != "" {
				bySession[session] = append(bySession[session], c)
				if v := s.version(session); v != "" {
					subjects = append(subjects, v)
				}
			}
		}
		if c.Session != "" {
			ofOrg[[2]string{c.user, c.Session}] = append(ofOrg[[2]string{c.user, c.Session}], c)
		}
		for _, subject := range subjects {
			key := subject + " " + day(c.At)
			all.add(key, requests, 1)
			switch {
			case c.Micros != nil:
				all.add(key, reported, 1)
				all.add(key, micros, *c.cost)
			case c.cost != nil:
				all.add(key, micros, *c.cost)
			default:
				all.add(key, unpriced, 1)
			}
			all.add(key, input, c.Tokens.Input)
			all.add(key, output, c.Tokens.Output)
			all.add(key, cacheRead, c.Tokens.CacheRead)
			all.add(key, cacheWrite, c.Tokens.CacheWrite)
		}
		if c.Model != "" {
			all.add("org "+day(c.At)+" model "+c.Model, 0, 1)
		}
	}
	for _, group := range ofOrg {
		all.add("org "+day(first(group)), sessions, 1)
		all.add("org "+day(first(group)), sessionRequests, int64(len(group)))
	}
	for _, group := range byUse {
		for _, subject := range s.subjects(group[0]) {
			key := subject + " " + day(first(group))
			all.add(key, uses, 1)
			all.add(key, useRequests, int64(len(group)))
			if sum, ok := sum(group); ok {
				all.add(key+" bucket "+bucket(sum), 0, 1)
				all.add(key+" bucket "+bucket(sum), 1, sum)
			}
		}
	}
	for session, group := range bySession {
		gradedOn, rate, ok := s.grade(session)
		cost, known := sum(group)
		if !ok || !known {
			continue
		}
		for _, subject := range s.subjects(group[0]) {
			all.add(subject+" "+gradedOn, graded, 1)
			all.add(subject+" "+gradedOn, gradedMicros, cost)
			all.add(subject+" "+gradedOn, passRates, rate)
		}
	}
	maps.DeleteFunc(all, func(_ string, numbers []int64) bool {
		return !slices.ContainsFunc(numbers, func(n int64) bool { return n != 0 })
	})
	return all
}

func (s *stream) subjects(c counted) []string {
	if v := s.version([3]string{c.user, c.Session, c.skill}); v != "" && c.Session != "" {
		return []string{c.skill, v}
	}
	return []string{c.skill}
}

// merged has one request for each id.
func (s *stream) merged() []sentRequest {
	byID := map[string][]sentRequest{}
	for _, r := range s.requests {
		if strings.HasPrefix(r.Skill, "third") {
			r.Skill = ""
		}
		byID[r.ID] = append(byID[r.ID], r)
	}
	var all []sentRequest
	for _, reports := range byID {
		of := func(value func(r sentRequest) string) (greatest string) {
			for _, r := range reports {
				greatest = max(greatest, value(r))
			}
			return greatest
		}
		most := func(value func(r sentRequest) int64) (greatest int64) {
			for _, r := range reports {
				greatest = max(greatest, value(r))
			}
			return greatest
		}
		// Sessions and turns are stored as hashes, and the greater hash wins.
		hashed := func(value func(r sentRequest) string, hash func(string) string) (value1 string) {
			for _, r := range reports {
				if v := value(r); v != "" && (value1 == "" || hash(v) > hash(value1)) {
					value1 = v
				}
			}
			return value1
		}
		user := reports[0].user
		m := sentRequest{user: user}
		m.ID, m.Inferred, m.At = reports[0].ID, true, reports[0].At
		m.Session = hashed(func(r sentRequest) string { return r.Session }, func(v string) string { return skills.SessionHash(user, v) })
		m.Turn = hashed(func(r sentRequest) string { return r.Turn },
			func(v string) string { return skills.PromptHash(s.org.Org.ID, user, v) })
		m.Skill = of(func(r sentRequest) string { return r.Skill })
		m.Model = of(func(r sentRequest) string { return r.Model })
		m.Tokens.Input = most(func(r sentRequest) int64 { return r.Tokens.Input })
		m.Tokens.Output = most(func(r sentRequest) int64 { return r.Tokens.Output })
		m.Tokens.CacheRead = most(func(r sentRequest) int64 { return r.Tokens.CacheRead })
		m.Tokens.CacheWrite = most(func(r sentRequest) int64 { return r.Tokens.CacheWrite })
		m.Tokens.CacheWriteHour = most(func(r sentRequest) int64 { return r.Tokens.CacheWriteHour })
		for _, r := range reports {
			m.Inferred = m.Inferred && r.Inferred
			if r.At.Before(m.At) {
				m.At = r.At
			}
			if r.Micros != nil && (m.Micros == nil || *r.Micros > *m.Micros) {
				m.Micros = r.Micros
			}
		}
		all = append(all, m)
	}
	return all
}

func (s *stream) attributed(r sentRequest) counted {
	c := counted{sentRequest: r, skill: r.Skill}
	var last *sentMark
	if c.skill == "" && r.Inferred && r.Session != "" {
		last = s.lastMark(r, r.At)
		if last != nil && last.Skill == "" {
			before := s.lastMark(r, last.At.Add(-time.Microsecond))
			if before != nil && before.OpensTurn && last.At.Sub(before.At) <= time.Second {
				last = before
			}
		}
		if last != nil {
			c.skill = last.Skill
		}
	}
	c.use = fmt.Sprint(c.user, "|", c.Session, "|", c.skill, "|", c.Turn)
	if c.Turn == "" && last != nil {
		c.use += "|" + last.At.String()
	}
	if c.Turn == "" && c.Session == "" {
		c.use += "|" + c.ID
	}
	return c
}

// lastMark is the last mark of the request's session up to a time, nil if there is
// none.
func (s *stream) lastMark(r sentRequest, until time.Time) (last *sentMark) {
	for _, m := range s.marks {
		if m.Skill == "custom_skill" {
			m.Skill = ""
		}
		m.OpensTurn = m.OpensTurn && m.Skill != ""
		if m.user != r.user || m.Session != r.Session || m.At.After(until) {
			continue
		}
		switch order := lastOrder(m, last); {
		case order > 0:
			last = &m
		case order == 0:
			last.OpensTurn = last.OpensTurn || m.OpensTurn
		}
	}
	return last
}

// lastOrder is positive if m comes after last, which may be nil, and 0 if the two
// are the same mark.
func lastOrder(m sentMark, last *sentMark) int {
	if last == nil {
		return 1
	}
	return cmp.Or(m.At.Compare(last.At), strings.Compare(m.Skill, last.Skill))
}

// cost is in whole dollars per million tokens of every model.
func (s *stream) cost(r costs.Request) *int64 {
	if r.Micros != nil {
		return r.Micros
	}
	for _, m := range append(slices.Clone(s.own), pricing.Model{Match: "cheap", Input: 1, Output: 2}, pricing.Model{Match: "dear", Input: 10, Output: 100}) {
		if m.Match == r.Model {
			in, t := int64(m.Input), r.Tokens
			total := in*(t.Input+t.CacheRead+t.CacheWrite+t.CacheWriteHour) + int64(m.Output)*t.Output
			return &total
		}
	}
	return nil
}

// version is the one that the session activated last, of those that are known.
func (s *stream) version(session [3]string) string {
	var best *sentObservation
	for _, o := range s.observations {
		if !o.Triggered || [3]string{o.user, o.Session, o.SkillName} != session {
			continue
		}
		if o.VersionHash == "" {
			if o.At.Before(s.published()) {
				continue
			}
			o.VersionHash = "1"
		}
		if best == nil || cmp.Or(o.At.Compare(best.At), strings.Compare(o.VersionHash, best.VersionHash)) > 0 {
			best = &o
		}
	}
	if best == nil {
		return ""
	}
	return best.SkillName + " v" + best.VersionHash
}

func (s *stream) grade(session [3]string) (on string, rate int64, ok bool) {
	var sum, n int64
	for id, g := range s.gradings {
		user := s.users[0].User.ID
		if !slices.ContainsFunc([]string{"1", "2", "3"}, func(k string) bool { return skills.ID(s.org.Org.ID, user, "g", k) == id }) {
			user = s.users[1].User.ID
		}
		if [3]string{user, g.Session, g.SkillName} != session {
			continue
		}
		sum += int64(*g.PassRate * 1e9)
		n++
		on = max(on, day(g.At))
	}
	if n == 0 {
		return "", 0, false
	}
	return on, (2*sum + n) / (2 * n), true
}

func first(group []counted) time.Time {
	return slices.MinFunc(group, func(a, b counted) int { return a.At.Compare(b.At) }).At
}

// sum is the cost of requests, if that of all is known.
func sum(group []counted) (total int64, known bool) {
	for _, c := range group {
		if c.cost == nil {
			return 0, false
		}
		total += *c.cost
	}
	return total, true
}

func day(at time.Time) string { return fmt.Sprint(at.Unix() / (24 * 60 * 60)) }

// bucket counts the limits up to a cost: each number up to 8, then eighths of each
// power of two.
func bucket(cost int64) string {
	n := -1
	for limit := int64(0); limit <= cost; n++ {
		switch {
		case limit < 16:
			limit++
		default:
			step := int64(1)
			for step*16 <= limit {
				step *= 2
			}
			limit += step
		}
	}
	return fmt.Sprint(n)
}
