package signals_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// FuzzRead checks that a body is either refused with the paths of its mistakes, or
// gives signals that can be stored and counted.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"signals":[{"skill_name":"pdf","signal_type":"missed_trigger","confidence":0.5,"source_key":"a","user_cohort":"c"}]}`,
		`{"signals":[{"skill_name":"pdf","signal_type":"x","confidence":null,"source_key":"a"},null,5],"user_cohort":""}`,
		`{"version":1,"skill_name":"pdf","signal_type":"skill_session","signals":{"triggered":false,"miss_detected":true,"invocation_type":"missed","execution_grade":"F","query_bucket":"other"},"timestamp_bucket":"2026-W07","client_version":"1"}`,
		`{"signals":{},"skill_name":"\u0000","signal_type":"\ud800"}`, `{"signals":[]}`, `{"signals":"x"}`, `{}`, `null`, `[`,
	} {
		f.Add([]byte(seed))
	}
	s := &signals.Service{Secret: []byte("secret")}
	f.Fuzz(func(t *testing.T, body []byte) {
		all, result, err := s.Read(access.Caller{OrgID: "org", UserID: "user"}, body)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if len(all) < 1 || len(all) > 1000 || result.Session && len(all) != 1 {
			t.Fatalf("%d signals", len(all))
		}
		for _, signal := range all {
			name, err := skills.CleanName(signal.SkillName)
			if err != nil || name != signal.SkillName || signal.SourceKey == "" || signal.Contributor == "" ||
				!storable(signal.Type+signal.SourceKey) ||
				utf8.RuneCountInString(signal.Type) > 64 || signal.Confidence != nil && (*signal.Confidence < 0 || *signal.Confidence > 1e9) {
				t.Errorf("accepted %+v", signal)
			}
		}
	})
}

func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	e, ok := err.(*fault.Error) //nolint:errorlint // as it is returned
	if !ok || e.Kind != fault.Malformed || len(e.Issues) == 0 || len(e.Issues) > 100 {
		t.Fatalf("%v is not about the body", err)
	}
	for _, issue := range e.Issues {
		if issue.Message == "" {
			t.Errorf("no message at %v", issue.Path)
		}
	}
}

// FuzzWeek checks that a week has exactly one name.
func FuzzWeek(f *testing.F) {
	for _, seed := range []string{"2026-W07", "2020-W53", "2021-W53", "1970-W01", "9999-W52", "-001-W01", "2026-W7", "2026-W00", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if monday, ok := signals.ParseWeek(name); ok && signals.WeekName(monday) != name {
			t.Errorf("%q is the week of day %d, whose name is %q", name, monday, signals.WeekName(monday))
		}
	})
}
