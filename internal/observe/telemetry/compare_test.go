package telemetry_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// compare compares every response of the API with the model.
func (s *stream) compare() {
	for _, by := range []*client{s.pushers[0], s.pushers[3]} {
		for {
			today := dayOf(time.Now())
			failures := s.differences(by, today)
			if dayOf(time.Now()) != today {
				continue // midnight came in between
			}
			for _, f := range failures {
				s.Errorf("%s", f)
			}
			break
		}
	}
}

func (s *stream) differences(by *client, today int) (all []string) {
	note := func(what string, want, got any) {
		if diff := cmp.Diff(apptest.Plain(s.T, want), got, nearly()...); diff != "" {
			all = append(all, fmt.Sprintf("%s of %s (-want +got):\n%s", what, by.Org.Name, diff))
		}
	}
	list := by.Get("/v1/skills?per_page=100").Want(http.StatusOK).Object()
	want := []any{}
	for _, name := range []string{"dir/sub skill", "pdf"} {
		if k := (skillKey{by.Org.ID, name}); s.m.named[k] {
			want = append(want, s.m.item(k, today))
		}
	}
	ids := []string{}
	for _, item := range list["skills"].([]any) {
		ids = append(ids, item.(object)["skill_id"].(string))
		delete(item.(object), "skill_id")
	}
	note("list", object{"skills": want, "pagination": object{"page": 1, "per_page": 100, "total": len(want)}}, any(list))
	for i, item := range want {
		name := item.(object)["name"].(string)
		days := pick(s, "days", 1, 30, 31, 61, 365)
		path := pick(s, "path", ids[i], url.PathEscape(name))
		got := by.Get(fmt.Sprintf("/v1/skills/%s?days=%d", path, days)).Want(http.StatusOK).Object()
		delete(got["skill"].(object), "skill_id")
		note(name, s.m.detail(skillKey{by.Org.ID, name}, today, days), any(got))
	}
	if shelf := s.m.shelves[skillKey{by.Org.ID, "pdf"}]; shelf != nil {
		s.qualities(by, shelf, note)
	}
	return all
}

// qualities compares the quality figures of an entry's versions.
func (s *stream) qualities(by *client, shelf *shelf, note func(what string, want, got any)) {
	want, got := object{}, object{}
	for _, v := range shelf.versions {
		want[v.id] = s.m.quality(v.id)
	}
	for _, v := range by.Get("/api/v1/registry/" + shelf.id).Want(http.StatusOK).Object()["versions"].([]any) {
		v := v.(object)
		quality := object{}
		for key := range s.m.quality("") {
			quality[key] = v[key]
		}
		got[v["id"].(string)] = quality
	}
	note("versions", want, any(got))
	last := s.m.ofVersion(shelf.currents[len(shelf.currents)-1].id).grades(-forever, forever)
	entry := by.Get("/api/v1/registry").Want(http.StatusOK).Object()["entries"].([]any)[0].(object)
	note("entry", object{"pass_rate": passRate(last), "eval_count": len(last)},
		any(object{"pass_rate": entry["pass_rate"], "eval_count": entry["eval_count"]}))
}

// nearly tolerates a difference of less than a billionth, the unit in which pass
// rates are stored. All else must be equal.
func nearly() []cmp.Option {
	return []cmp.Option{cmp.FilterPath(func(path cmp.Path) bool {
		for _, step := range path {
			if key, ok := step.(cmp.MapIndex); ok && strings.Contains(key.Key().String(), "pass_rate") {
				return true
			}
		}
		return false
	}, cmpopts.EquateApprox(0, 1.1e-9))}
}
