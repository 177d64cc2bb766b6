package skills_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestNullsWhileNothingIsKnown: every field of a skill that is only in the
// registry, without observations.
func TestNullsWhileNothingIsKnown(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.Get("/v1/skills").Want(http.StatusOK).
			WantBody(object{"skills": []any{}, "pagination": object{"page": 1, "per_page": 20, "total": 0}})
		id := resolve(t, db, r.Org.ID, "pdf")
		r.Get("/v1/skills").Want(http.StatusOK).WantBody(object{
			"skills": []any{object{
				"skill_id": id, "name": "pdf", "status": "unknown", "unique_sessions": 0, "has_evidence": false,
				"trigger_rate": nil, "avg_confidence": nil, "confidence_coverage": nil, "pass_rate": nil, "last_seen_at": nil,
				"trigger_rate_basis": nil, "offered_sessions": 0, "confirmed": true, "hidden": false, "merged_into": nil,
				"cost": nil, "cost_per_use": nil, "pass_rate_basis": nil, "pass_rates_by_basis": object{},
			}},
			"pagination": object{"page": 1, "per_page": 20, "total": 1},
		})
		r.Get("/v1/skills/pdf?days=1").Want(http.StatusOK).WantBody(object{
			"skill": object{
				"skill_id": id, "name": "pdf", "status": "unknown", "first_seen_at": nil, "last_seen_at": nil,
				"unique_sessions": 0, "trigger_rate": nil, "avg_confidence": nil, "confidence_coverage": nil,
				"pass_rate": nil, "pass_rate_interval": nil, "graded_sessions": 0, "has_evidence": false,
				"trigger_rate_basis": nil, "offered_sessions": 0, "confirmed": true, "hidden": false, "merged_into": nil,
				"cost": nil, "pass_rate_basis": nil, "pass_rates_by_basis": object{}, "graded_sessions_by_basis": object{},
				"seen_sessions": 0, "triggered_sessions": 0,
			},
			"daily_stats": []any{object{
				"date": time.Now().UTC().Format(time.DateOnly), "sessions": 0, "checks": 0, "triggers": 0,
				"trigger_rate": nil, "avg_confidence": nil, "graded_sessions": 0, "pass_rate": nil,
			}},
		})
	})
}

// TestNullsByDenominator: each rate is null if its own denominator is 0.
func TestNullsByDenominator(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.observe(r.check("a", func(o *observation) { o.Triggered, o.Confidence = false, share(0.5) }))
		wantFields(t, r.skill("pdf"), object{"trigger_rate": 0.0, "avg_confidence": nil, "confidence_coverage": nil})
		r.observe(r.check("b"))
		wantFields(t, r.skill("pdf"), object{"trigger_rate": 1.0, "avg_confidence": nil, "confidence_coverage": 0.0})
		r.observe(r.check("c", func(o *observation) { o.Confidence = share(0.6) }))
		wantFields(t, r.skill("pdf"), object{"trigger_rate": 1.0, "avg_confidence": 0.6, "confidence_coverage": 0.5})
	})
}

func TestGetByIDOrName(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		names := []string{
			"pdf", "a/b", "home/me/skills/pdf", "a b", "a%2Fb", "ä", "100%", "a?b#c", "plugin:pdf", "/home/pdf", "a/",
		}
		for _, name := range names {
			id := resolve(t, db, r.Org.ID, name)
			for _, path := range []string{id, url.PathEscape(name)} {
				if got := r.skill(path); got["skill_id"] != id || got["name"] != name {
					t.Errorf("GET %s answers %v, want the skill %q", path, got["name"], name)
				}
			}
		}
		// An id wins over a skill with that name.
		pdf := resolve(t, db, r.Org.ID, "pdf")
		resolve(t, db, r.Org.ID, pdf)
		if got := r.skill(pdf); got["name"] != "pdf" {
			t.Errorf("the id finds %q", got["name"])
		}
	})
}

func TestGetUnknown(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		other := r.org("other")
		id := other.observe(other.check("a"))[0]
		for _, path := range []string{uuid.NewString(), "pdf", id, "custom_skill", "PDF"} {
			r.Get("/v1/skills/"+path).WantError(http.StatusNotFound, "Skill not found")
		}
		r.Get("/v1/skills").WantBody(object{"skills": []any{}, "pagination": object{"page": 1, "per_page": 20, "total": 0}})
		other.Get("/v1/skills/" + id).Want(http.StatusOK)
	})
}

func TestDays(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.observe(r.check("a"))
		for query, want := range map[string]int{"": 30, "?days=1": 1, "?days=365": 365, "?days=31": 31} {
			stats := r.Get("/v1/skills/pdf" + query).Want(http.StatusOK).Object()["daily_stats"].([]any)
			if len(stats) != want {
				t.Errorf("%q: %d days, want %d", query, len(stats), want)
			}
			for i, day := range stats {
				date := time.Now().UTC().AddDate(0, 0, i+1-want).Format(time.DateOnly)
				if got := day.(object)["date"]; got != date {
					t.Fatalf("%q: day %d is %v, want %s", query, i, got, date)
				}
			}
			wantFields(t, stats[want-1].(object), object{"sessions": 1, "checks": 1, "triggers": 1, "trigger_rate": 1.0})
		}
		for _, days := range []string{"0", "366", "-1", "x", "1.5"} {
			r.Get("/v1/skills/pdf?days="+days).WantIssueWith("days", "")
		}
	})
}

func TestPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		for i := range 25 {
			resolve(t, db, r.Org.ID, fmt.Sprintf("s%02d", i))
		}
		for query, want := range map[string]string{
			"":                                      "s00 s01 s02 s03 s04 s05 s06 s07 s08 s09 s10 s11 s12 s13 s14 s15 s16 s17 s18 s19",
			"?page=2":                               "s20 s21 s22 s23 s24",
			"?page=3":                               "",
			"?per_page=3&page=2":                    "s03 s04 s05",
			"?per_page=1&page=25":                   "s24",
			"?per_page=3&page=2&sort=-name":         "s21 s20 s19",
			"?per_page=3&page=2&status=unknown":     "s03 s04 s05",
			"?per_page=2&page=13&sort=-pass_rate":   "s24",
			"?per_page=10&page=9&sort=trigger_rate": "",
		} {
			a := r.Get("/v1/skills" + query)
			if got := names(a); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
			q, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
			if err != nil {
				t.Fatal(err)
			}
			wantFields(t, a.Object()["pagination"].(object),
				object{"page": number(q, "page", 1), "per_page": number(q, "per_page", 20), "total": 25})
		}
		if got := names(r.Get("/v1/skills?per_page=100")); len(strings.Fields(got)) != 25 {
			t.Errorf("per_page=100: %q", got)
		}
		for _, query := range []string{
			"per_page=101", "per_page=0", "per_page=-1", "per_page=x", "page=0", "page=x", "sort=color", "status=fine",
		} {
			parameter, _, _ := strings.Cut(query, "=")
			r.Get("/v1/skills?"+query).WantIssueWith(parameter, "")
		}
	})
}

func number(q url.Values, name string, fallback int) int {
	if q.Get(name) == "" {
		return fallback
	}
	n := 0
	_, _ = fmt.Sscan(q.Get(name), &n)
	return n
}

func TestSearch(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		for _, name := range []string{"pdf-forms", "PDF tables", "xlsx", "50%_off", `back\slash`, "ÄPFEL", "äpfel"} {
			resolve(t, db, r.Org.ID, name)
		}
		for q, want := range map[string]string{
			"pdf": "PDF tables pdf-forms", "PDF": "PDF tables pdf-forms", "tab": "PDF tables", "none": "",
			"%": "50%_off", "_": "50%_off", `\`: `back\slash`, "Ä": "ÄPFEL", "ä": "äpfel", "PFEL": "ÄPFEL äpfel", "'": "",
		} {
			a := r.Get("/v1/skills?q=" + url.QueryEscape(q))
			if got := names(a); got != want {
				t.Errorf("q=%s: %q, want %q", q, got, want)
			}
			sorted := names(r.Get("/v1/skills?sort=unique_sessions&q=" + url.QueryEscape(q)))
			if sorted != want {
				t.Errorf("q=%s, sorted: %q, want %q", q, sorted, want)
			}
		}
		r.Get("/v1/skills?q="+strings.Repeat("x", 201)).WantIssueWith("q", "")
		r.Get("/v1/skills?q=%00").WantIssueWith("q", "")
	})
}

func TestSortAndStatus(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		now := time.Now()
		for i, s := range []struct {
			name  string
			rates []float64
		}{
			{"good", of(5, 5)}, {"bad", of(5, 1)}, {"fair", of(10, 7)}, {"new", of(4, 4)}, {"poor", of(10, 6)},
		} {
			r.grade(s.name, now, s.rates...)
			for n := range i { // the n-th has n sessions, with one activation
				r.observe(r.check(fmt.Sprint(s.name, n), func(o *observation) {
					o.SkillName, o.Session, o.Triggered = s.name, fmt.Sprint(n), n == 0
					o.At = now.Add(-time.Duration(i) * time.Minute)
				}))
			}
		}
		for query, want := range map[string]string{
			"":                                   "bad fair good new poor",
			"sort=name":                          "bad fair good new poor",
			"sort=-name":                         "poor new good fair bad",
			"sort=pass_rate":                     "bad poor fair good new",
			"sort=-pass_rate":                    "good new fair poor bad",
			"sort=status":                        "bad fair poor new good",
			"sort=-status":                       "good new fair poor bad",
			"sort=unique_sessions":               "good bad fair new poor",
			"sort=-unique_sessions":              "poor new fair bad good",
			"sort=trigger_rate":                  "poor new fair bad good", // good has none and is last
			"sort=-trigger_rate":                 "bad fair new poor good",
			"sort=last_seen_at":                  "poor new fair bad good",
			"sort=-last_seen_at":                 "bad fair new poor good",
			"status=healthy":                     "good",
			"status=warning":                     "fair poor",
			"status=critical":                    "bad",
			"status=unknown":                     "new",
			"status=warning&sort=pass_rate":      "poor fair",
			"status=warning&q=oo":                "poor",
			"status=warning&per_page=1&page=2":   "poor",
			"status=critical&sort=-last_seen_at": "bad",
		} {
			if got := names(r.Get("/v1/skills?" + query)); got != want {
				t.Errorf("%s: %q, want %q", query, got, want)
			}
		}
		wantFields(t, r.Get("/v1/skills?status=warning&per_page=1").Object()["pagination"].(object),
			object{"page": 1, "per_page": 1, "total": 2})
	})
}

func TestWhoMayRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		resolve(t, db, r.Org.ID, "pdf")
		writer := r.World.Member(r.Org, access.Member, access.Write)
		nobody := r.In(t)
		nobody.Key = "st_live_nobody"
		for _, path := range []string{"/v1/skills", "/v1/skills/pdf", "/v1/skills?per_page=101"} {
			writer.Get(path).WantError(http.StatusForbidden, "This needs the permission read")
			nobody.Get(path).Want(http.StatusUnauthorized)
		}
		for _, path := range []string{"/v1/skills", "/v1/skills/", "/v1/skills/pdf", "/v1/skills/pdf/"} {
			r.Do(http.MethodHead, path, nil).Want(http.StatusOK)
		}
		if !slices.Contains(access.Viewer.Permissions(), access.Read) {
			t.Error("a viewer may not read")
		}
	})
}
