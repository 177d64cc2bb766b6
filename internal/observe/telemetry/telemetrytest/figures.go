// Package telemetrytest reads back what the service made of the reports of agents,
// so that tests can compare every figure with what the agents did.
package telemetrytest

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// Figures are all that an organisation sees of its agents.
type Figures struct {
	Skills       map[string]Skill `json:"skills"`
	Sessions     []Session        `json:"sessions"` // oldest first
	Micros       int64            `json:"micros"`
	Unattributed int64            `json:"unattributed_micros"`
}

// A Skill has the figures of its 30 days, and the costs of its requests.
type Skill struct {
	Sessions    int64    `json:"sessions"`
	Offered     int64    `json:"offered,omitempty"`
	Checks      int64    `json:"checks"`
	Triggers    int64    `json:"triggers"`
	TriggerRate *float64 `json:"trigger_rate"`
	Confidence  *float64 `json:"confidence"`
	Requests    int64    `json:"requests,omitempty"`
	Tokens      Tokens   `json:"tokens"`
	Micros      int64    `json:"micros,omitempty"`
	Basis       string   `json:"basis,omitempty"`
}

// Tokens of the requests of a skill.
type Tokens struct {
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// A Session has the figures of a session and of its events.
type Session struct {
	Agent      string            `json:"agent"`
	Turns      *int64            `json:"turns"` // null if no way told them, like the next two
	ToolCalls  *int64            `json:"tool_calls"`
	ToolErrors *int64            `json:"tool_errors"`
	Skills     map[string]string `json:"skills,omitempty"` // e.g. "activated offered 1.0.0"
	Requests   int64             `json:"requests,omitempty"`
	Tokens     int64             `json:"tokens,omitempty"` // of all its requests
	Micros     int64             `json:"micros,omitempty"`
	Outcomes   map[string]bool   `json:"outcomes,omitempty"` // e.g. tests_passed
}

// WithoutVersions returns the figures of sessions whose skills are not of the
// registry, or were before they were installed.
func (f Figures) WithoutVersions() Figures {
	f.Sessions = slices.Clone(f.Sessions)
	for i := range f.Sessions {
		skills := maps.Clone(f.Sessions[i].Skills)
		for name, words := range skills {
			skills[name] = strings.TrimRight(words, " 0123456789.")
		}
		f.Sessions[i].Skills = skills
	}
	return f
}

// Read reads the figures of the caller's organisation. Skills that no session had are
// left out.
func Read(c *apptest.Caller) Figures {
	c.T.Helper()
	f := Figures{Skills: map[string]Skill{}}
	for _, skill := range c.Get("/v1/skills?per_page=100").Want(http.StatusOK).List("skills") {
		name := apptest.Text(skill, "name")
		if one := readSkill(c, name); one.Sessions+one.Checks > 0 {
			f.Skills[name] = one
		}
	}
	for _, s := range c.Get("/v1/sessions?limit=200").Want(http.StatusOK).List("sessions") {
		f.Sessions = append(f.Sessions, readSession(c, apptest.Text(s, "session_id")))
	}
	slices.Reverse(f.Sessions)
	var bill struct {
		Total        float64 `json:"total"`
		Unattributed float64 `json:"unattributed"`
	}
	c.Get("/v1/costs?days=30").Want(http.StatusOK).Into(&bill)
	f.Micros, f.Unattributed = micros(bill.Total), micros(bill.Unattributed)
	return f
}

func micros(dollars float64) int64 { return int64(math.Round(dollars * 1e6)) }

func readSkill(c *apptest.Caller, name string) Skill {
	c.T.Helper()
	var out struct {
		Skill struct {
			UniqueSessions  int64    `json:"unique_sessions"`
			OfferedSessions int64    `json:"offered_sessions"`
			TriggerRate     *float64 `json:"trigger_rate"`
			AvgConfidence   *float64 `json:"avg_confidence"`
			Cost            struct {
				Total    float64 `json:"total"`
				Requests int64   `json:"requests"`
				Basis    string  `json:"basis"`
				Tokens   Tokens  `json:"tokens"`
			} `json:"cost"`
		} `json:"skill"`
		DailyStats []struct {
			Checks   int64 `json:"checks"`
			Triggers int64 `json:"triggers"`
		} `json:"daily_stats"`
	}
	c.Get("/v1/skills/" + name).Want(http.StatusOK).Into(&out)
	s := Skill{
		Sessions: out.Skill.UniqueSessions, Offered: out.Skill.OfferedSessions, TriggerRate: out.Skill.TriggerRate,
		Confidence: out.Skill.AvgConfidence, Requests: out.Skill.Cost.Requests, Tokens: out.Skill.Cost.Tokens,
		Micros: micros(out.Skill.Cost.Total), Basis: out.Skill.Cost.Basis,
	}
	for _, day := range out.DailyStats {
		s.Checks += day.Checks
		s.Triggers += day.Triggers
	}
	return s
}

func readSession(c *apptest.Caller, id string) Session {
	c.T.Helper()
	var out struct {
		Session struct {
			Session
			Skills []struct {
				Name      string `json:"name"`
				Activated bool   `json:"activated"`
				Offered   bool   `json:"offered"`
				Version   string `json:"version"`
			} `json:"skills"`
			CostUSD float64 `json:"cost_usd"`
			Events  []struct {
				Kind   string `json:"kind"`
				Name   string `json:"name"`
				OK     *bool  `json:"ok"`
				Tokens int64  `json:"tokens"`
			} `json:"events"`
		} `json:"session"`
	}
	c.Get("/v1/sessions/" + id).Want(http.StatusOK).Into(&out)
	s := out.Session.Session
	s.Micros = micros(out.Session.CostUSD)
	for _, skill := range out.Session.Skills {
		var words []string
		if skill.Activated {
			words = append(words, "activated")
		}
		if skill.Offered {
			words = append(words, "offered")
		}
		if skill.Version != "" {
			words = append(words, skill.Version)
		}
		if s.Skills == nil {
			s.Skills = map[string]string{}
		}
		s.Skills[skill.Name] = strings.Join(words, " ")
	}
	for _, e := range out.Session.Events {
		switch e.Kind {
		case "response":
			s.Requests++
			s.Tokens += e.Tokens
		case "grade", "error":
			if s.Outcomes == nil {
				s.Outcomes = map[string]bool{}
			}
			s.Outcomes[e.Name] = e.OK != nil && *e.OK
		}
	}
	return s
}

// An Expectation is what must be counted if an agent reported in some ways.
type Expectation struct {
	// When has the ways, e.g. "logs hook" if both must be among them; any of its
	// elements will do.
	When    []string `json:"when"`
	Figures Figures  `json:"figures"`
}

// Expected are the expectations in a file, of which the first that fits holds.
type Expected []Expectation

// ReadExpected reads a file of expectations.
func ReadExpected(t apptest.T, path string) (all Expected) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return all
}

// Of returns what must be counted if the agent reported in these ways.
func (e Expected) Of(t apptest.T, ways ...string) Figures {
	t.Helper()
	for _, expectation := range e {
		for _, when := range expectation.When {
			if !slices.ContainsFunc(strings.Fields(when), func(way string) bool { return !slices.Contains(ways, way) }) {
				return expectation.Figures
			}
		}
	}
	t.Fatalf("nothing is expected of %v", ways)
	return Figures{}
}
