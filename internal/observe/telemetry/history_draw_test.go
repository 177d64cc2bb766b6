package telemetry_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// skillNames are those of histories, sorted. The registry has acme:deploy and pdf;
// ghost is only ever named by requests.
var skillNames = []string{"acme:deploy", "acme:test", "ghost", "notes", "pdf"}

// narrator draws a history.
type narrator struct {
	*rapid.T
	now   time.Time
	count int // makes things differ
	// releases are when versions became current.
	releases []time.Time
}

func drawHistory(t *rapid.T) *history {
	n := &narrator{T: t, now: time.Now().UTC().Truncate(time.Millisecond)}
	h := &history{}
	for _, name := range []string{"acme:deploy", "pdf"} {
		if n.chance("published", 3, 4) {
			h.shelves = append(h.shelves, n.published(name))
		}
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "sessions") {
		h.sessions = append(h.sessions, n.session(i, h))
	}
	for range rapid.IntRange(0, 2).Draw(t, "price lists") {
		h.prices = append(h.prices, n.prices())
	}
	return h
}

func draw[T any](n *narrator, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(n.T, label)
}

func (n *narrator) chance(label string, of, in int) bool {
	return rapid.IntRange(1, in).Draw(n.T, label) <= of
}

func (n *narrator) unique(prefix string) string {
	n.count++
	return fmt.Sprint(prefix, n.count)
}

// start draws a time at the edge of a window, and how far apart events are: a
// session may last over midnight, but not into the far future.
func (n *narrator) start() (at time.Time, step time.Duration) {
	days := draw(n, "days ago", 0, 1, 2, 28, 29, 30, 31, 58, 59, 60, 61)
	at = n.now.Truncate(24*time.Hour).AddDate(0, 0, -days)
	if step = time.Second; days > 1 {
		step = draw(n, "step", time.Second, 50*time.Minute)
	}
	if len(n.releases) > 0 && n.chance("around a release", 1, 2) { // or a rollback
		release := rapid.SampledFrom(n.releases).Draw(n.T, "release").Truncate(time.Millisecond)
		if now := n.now.Truncate(24 * time.Hour); release.After(now.AddDate(0, 0, -2)) {
			step = time.Second
		}
		return release.Add(-step * time.Duration(rapid.IntRange(1, 8).Draw(n.T, "steps before"))), step
	}
	return at.Add(time.Duration(rapid.IntRange(0, 23*60).Draw(n.T, "minute")) * time.Minute), step
}

// since draws a time at which nothing else happens.
func (n *narrator) since() time.Time {
	at, _ := n.start()
	n.count++
	return at.Add(500*time.Microsecond + time.Duration(n.count)*time.Microsecond)
}

func (n *narrator) published(name string) *published {
	e := &published{name: name}
	highest := 0
	for range rapid.IntRange(1, 4).Draw(n.T, "publications") {
		version := highest + 1
		if last := len(e.currents) - 1; highest > 1 && n.chance("roll back", 1, 4) && e.currents[last].version == highest {
			version = rapid.IntRange(1, highest-1).Draw(n.T, "to")
		}
		highest = max(highest, version)
		e.currents = append(e.currents, becoming{version, n.since()})
		n.releases = append(n.releases, e.currents[len(e.currents)-1].since)
	}
	for user := range e.installed {
		last := -1
		for range rapid.IntRange(0, 3).Draw(n.T, "installations") {
			if version := rapid.IntRange(0, highest).Draw(n.T, "installed"); version != last {
				e.installed[user] = append(e.installed[user], becoming{version, n.since()})
				last = version
			}
		}
		times := []time.Time{}
		for _, i := range e.installed[user] {
			times = append(times, i.since)
		}
		slices.SortFunc(times, time.Time.Compare)
		for i, at := range times {
			e.installed[user][i].since = at
		}
	}
	return e
}

func (n *narrator) prices() (list []price) {
	for range rapid.IntRange(0, 3).Draw(n.T, "prices") {
		p := price{
			match: draw(n, "model", "model-a", "model-b", "claude-sonnet-4-5"),
			from:  draw(n, "from", "", "", n.now.AddDate(0, 0, -30).Format(time.DateOnly)),
			input: draw(n, "input", 0, 1, 2.5), output: draw(n, "output", 4, 10.25), read: draw(n, "read", 0, 0.1),
			write: draw(n, "write", 1.25, 5), writeHour: draw(n, "write for an hour", 2, 7.5),
		}
		list = append(list, p)
	}
	return list
}

func (n *narrator) session(i int, h *history) *agentSession {
	s := &agentSession{agent: draw(n, "agent", "claude", "claude", "codex", "client"), user: rapid.IntRange(0, 1).Draw(n.T, "user")}
	s.name = fmt.Sprint("session-", i/2) // of both users
	if slices.ContainsFunc(h.sessions, func(o *agentSession) bool { return o.user == s.user && o.name == s.name }) {
		s.name = fmt.Sprint("another-", i)
	}
	at, step := n.start()
	tick := func() time.Time {
		at = at.Add(step)
		return at
	}
	switch s.agent {
	case "claude":
		s.otlp, s.imported = true, false
		switch draw(n, "reported by", "otlp", "import", "both") {
		case "import":
			s.otlp, s.imported = false, true
		case "both":
			s.imported = true
		}
		n.begin(s, tick)
	case "codex":
		s.otlp = true
	default:
		s.imported = true
	}
	for range rapid.IntRange(1, 3).Draw(n.T, "turns") {
		n.turn(s, h, tick)
	}
	for range rapid.IntRange(0, 2).Draw(n.T, "grades") {
		s.grades = append(s.grades, verdict{
			id: n.unique("grade-"), skill: draw(n, "graded", "pdf", "notes", "acme:deploy"), at: tick(),
			rate: draw(n, "rate", 0, 0.25, 0.5, 1),
		})
	}
	return s
}

// begin draws what Claude Code reports at the start of a session.
func (n *narrator) begin(s *agentSession, tick func() time.Time) {
	if s.otlp {
		marketplace := draw(n, "marketplace", "", own, foreign)
		for range rapid.IntRange(0, 2).Draw(n.T, "loads") {
			s.loads = append(s.loads, pluginLoad{tick(), marketplace, rapid.IntRange(1, 3).Draw(n.T, "loaded")})
		}
	}
	if s.imported && n.chance("listed", 1, 2) {
		s.offered = draw(n, "names", []string{"notes"}, []string{"notes", "pdf"}, []string{"acme:deploy"})
		for range rapid.IntRange(1, 2).Draw(n.T, "lists") {
			s.offers = append(s.offers, tick())
		}
	}
}

// turn draws a prompt, the skills that it used, and the model requests.
func (n *narrator) turn(s *agentSession, h *history, tick func() time.Time) {
	turn := n.unique("turn-")
	s.turns = append(s.turns, turn)
	skill, use := "", ""
	for i := range rapid.IntRange(1, 5).Draw(n.T, "events") {
		if n.chance("use", 1, 2) {
			u := n.use(s, h, turn, i == 0)
			u.at = tick()
			s.uses = append(s.uses, u)
			if u.fired {
				skill, use = u.skill, turn
				if s.agent == "codex" {
					use = n.unique("use-")
				}
			}
			continue
		}
		r := n.request(s, turn)
		r.at = tick()
		switch {
		case s.agent == "client":
			if r.skill = draw(n, "active", "", "ghost", "pdf", "notes"); r.turn == "" {
				r.use = "session"
			} else {
				r.use = turn
			}
		case skill != "" && (s.agent == "codex" || n.chance("attributed", 3, 4)):
			r.skill, r.use = skill, use
		}
		s.requests = append(s.requests, r)
	}
}

func (n *narrator) use(s *agentSession, h *history, turn string, first bool) skillUse {
	u := skillUse{skill: draw(n, "skill", "pdf", "pdf", "notes", "acme:deploy", "acme:test"), turn: turn, fired: true}
	switch s.agent {
	case "claude":
		if !first || n.chance("tool", 2, 3) {
			u.call = n.unique("call-")
			u.fired = n.chance("fired", 4, 5)
			u.lost = u.fired && s.otlp && s.imported && n.chance("result lost", 1, 3)
			u.confidence = draw(n, "confidence", p(0.85), p(0.6))
			return u
		}
		u.confidence = p(1.0)
	case "codex":
		if !first {
			u.call = "implicit"
		}
	case "client":
		u.fired = n.chance("fired", 3, 4)
		u.confidence = draw(n, "confidence", nil, p(0.25), p(1.0))
		for _, e := range h.shelves {
			if e.name == u.skill && n.chance("names its version", 1, 2) {
				u.version = e.currents[rapid.IntRange(0, len(e.currents)-1).Draw(n.T, "version")].version
			}
		}
	}
	return u
}

func (n *narrator) request(s *agentSession, turn string) spending {
	n.count++
	r := spending{turn: turn, model: draw(n, "model", "model-a", "model-b", "claude-sonnet-4-5", "unknown-model")}
	r.tokens = tokens{input: int64(1000 + n.count), output: rapid.Int64Range(0, 5000).Draw(n.T, "output")}
	if n.chance("cached", 1, 2) {
		r.tokens.read = rapid.Int64Range(0, 900).Draw(n.T, "read")
	}
	switch s.agent {
	case "claude":
		r.tokens.write = rapid.Int64Range(0, 300).Draw(n.T, "write")
		r.tokens.writeHour = draw(n, "for an hour", 0, r.tokens.write)
		if r.id = n.unique("req-"); n.chance("without an id", 1, 4) {
			r.id = ""
		}
		if s.otlp && n.chance("money", 1, 2) {
			r.reported = p(rapid.Int64Range(0, 40_000).Draw(n.T, "micros"))
		}
	case "client":
		r.id = n.unique("fact-")
		if n.chance("money", 1, 3) {
			r.reported = p(rapid.Int64Range(0, 40_000).Draw(n.T, "micros"))
		}
		if n.chance("no prompt", 1, 3) {
			r.turn = ""
		}
	}
	return r
}
