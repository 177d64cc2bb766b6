package notify_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

// sentTo sends a notice to a chat and returns the body that arrives.
func sentTo(t *testing.T, c notify.Channel, n notify.Notice) string {
	t.Helper()
	r := receive(t, answer(http.StatusOK, "ok"))
	if got := newSender(t, notify.Options{}).Send(t.Context(), r.target(c), n); got.Outcome != notify.Delivered {
		t.Fatalf("got %+v", got)
	}
	return string(r.requests()[0].body)
}

func TestTitles(t *testing.T) {
	rate := func(s notify.Status, threshold float64, rate *float64) notify.Notice {
		return notify.Notice{ID: "x", Type: notify.PassRateBelow, Status: s, Skill: "my-skill", Threshold: threshold, PassRate: rate}
	}
	silence := func(s notify.Status, threshold float64, days *float64) notify.Notice {
		return notify.Notice{ID: "x", Type: notify.NoData, Status: s, Skill: "my-skill", Threshold: threshold, DaysSilent: days}
	}
	for i, c := range []struct {
		notice notify.Notice
		want   string
	}{
		{rate(notify.Firing, 0.7, new(0.65)), "[firing] my-skill pass rate 65 % (below 70 %)"},
		{rate(notify.Firing, 0.7, new(0.69999)), "[firing] my-skill pass rate 69.9 % (below 70 %)"},
		{rate(notify.Firing, 0.6999, new(0.57)), "[firing] my-skill pass rate 57 % (below 69.99 %)"},
		{rate(notify.Firing, 1, new(0.0)), "[firing] my-skill pass rate 0 % (below 100 %)"},
		{rate(notify.Reminder, 0.29, new(1/3.5)), "[reminder] my-skill pass rate 28.5 % (below 29 %)"},
		{rate(notify.Resolved, 0.7, new(1.0)), "[resolved] my-skill pass rate 100 % (threshold 70 %)"},
		{rate(notify.Resolved, 0.7, nil), "[resolved] my-skill pass rate unknown (threshold 70 %)"},
		{rate(notify.Test, 0.7, nil), "[test] my-skill pass rate alert (threshold 70 %)"},
		{silence(notify.Firing, 7, new(9.0)), "[no data] my-skill: 9 days without sessions (limit 7)"},
		{silence(notify.Firing, 1, new(1.04)), "[no data] my-skill: 1 day without sessions (limit 1)"},
		{silence(notify.Firing, 0, new(0.45)), "[no data] my-skill: 0.4 days without sessions (limit 0)"},
		{silence(notify.Reminder, 7.5, new(10.0)), "[reminder] my-skill: 10 days without sessions (limit 7.5)"},
		{silence(notify.Resolved, 7, nil), "[resolved] my-skill: sessions again (limit 7)"},
		{silence(notify.Test, 7, nil), "[test] my-skill no data alert (limit 7)"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			var body struct{ Content string }
			if err := json.Unmarshal([]byte(sentTo(t, notify.ChatB, c.notice)), &body); err != nil {
				t.Fatal(err)
			}
			if body.Content != c.want {
				t.Errorf("got %q, want %q", body.Content, c.want)
			}
		})
	}
}

// TestNamesAreEscaped: a name mentions no one and makes no link.
func TestNamesAreEscaped(t *testing.T) {
	notice := firing()
	notice.Skill = "<!channel> @everyone & *my_skill* [x](https://evil.example)\r\n\u202e"
	notice.URL = "https://w.example.org/a|b<c>?d=1&e=2"
	for c, want := range map[notify.Channel][]string{
		notify.ChatA: {
			`"[firing] &lt;!channel&gt; @everyone &amp; *my_skill* [x](https://evil.example) pass rate 65 % (below 70 %)"`,
			`<https://w.example.org/a%7Cb%3Cc%3E?d=1&amp;e=2|Open in Whetstone>`,
		},
		notify.ChatB: {
			`"[firing] \\<!channel\\> @everyone & \\*my\\_skill\\* \\[x\\]\\(https://evil.example\\) pass rate 65 % (below 70 %)"`,
			`"allowed_mentions":{"parse":[]}`,
		},
	} {
		body := sentTo(t, c, notice)
		for _, part := range want {
			if !strings.Contains(body, part) {
				t.Errorf("%s: got %s\nwant in it %s", c, body, part)
			}
		}
	}
}
