package telemetry_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestCodex: the counter adds to checks and triggers. It has no session, so there
// is no trigger rate.
func TestCodex(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		start := anHourAgo()
		points := []*metrics.NumberDataPoint{
			injected(start, start.Add(time.Minute), 3, "invoke_type", "explicit"),
			injected(start, start.Add(time.Minute), 1, "invoke_type", "implicit"),
			injected(start.Add(time.Minute), start.Add(2*time.Minute), 4, "invoke_type", "implicit"),
			{
				StartTimeUnixNano: nanos(start), TimeUnixNano: nanos(start.Add(time.Minute)),
				Attributes: attributes("skill", "pdf-forms", "status", "error", "invoke_type", "explicit"),
				Value:      &metrics.NumberDataPoint_AsDouble{AsDouble: 2},
			},
			injected(start.Add(2*time.Minute), start.Add(3*time.Minute), 0, "invoke_type", "implicit"),
		}
		for _, way := range otlpWays {
			t.Run(way.name, func(t *testing.T) {
				c := w.org(way.name).in(t)
				body := counterOf(delta, points...)
				for range 2 {
					c.take(way, body)
				}
				c.take(way, counterOf(delta, points[2])) // again, in another body
				c.wantFigures("pdf-forms", figures{Checks: 10, Triggers: 8, Confidence: share(0.75), Covered: share(1)})
			})
		}
	})
}

// checksByDay returns the checks of a skill on the days that have some.
func (c *client) checksByDay(skill string) map[string]int {
	c.T.Helper()
	days := map[string]int{}
	a := c.Get("/v1/skills/" + skill + "?days=7")
	for _, d := range a.Object()["daily_stats"].([]any) {
		if n := int(d.(object)["checks"].(float64)); n > 0 {
			days[d.(object)["date"].(string)] = n
		}
	}
	return days
}

// TestCodexCumulative: a point is the total since its series began. Its increment
// counts on its day, in whatever order the points arrive.
func TestCodexCumulative(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		noon := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -5).Add(12 * time.Hour)
		date := func(days int) string { return noon.AddDate(0, 0, days).Format(time.DateOnly) }
		type value struct {
			restarted bool
			after     time.Duration
			value     int64
		}
		const day = 24 * time.Hour
		points := []value{
			{false, time.Hour, 3},
			{false, day, 5},
			{false, day + time.Hour, 5},
			{false, 2 * day, 9},
			{true, 2*day + time.Hour, 2},
		}
		steps := make([][]*metrics.NumberDataPoint, len(points)+1)
		var names []string
		permutations(len(points), func(order []int) {
			name := fmt.Sprint("order", len(names))
			names = append(names, name)
			for place, i := range append(order, order[0]) {
				p, start := points[i], noon
				if p.restarted {
					start = noon.Add(2 * day)
				}
				point := injected(start, noon.Add(p.after), p.value)
				point.Attributes[0] = attributes("skill", name)[0]
				steps[place] = append(steps[place], point)
			}
		})
		for i, step := range steps {
			c.take(otlpWays[i%len(otlpWays)], counterOf(cumulative, step...))
		}
		for _, name := range names {
			c.wantFigures(name, figures{Checks: 11, Triggers: 11, Covered: share(0)})
			if diff := cmp.Diff(map[string]int{date(0): 3, date(1): 2, date(2): 6}, c.checksByDay(name)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestCodexSeries: series that differ in any attribute are counted separately. A
// lower value without a new start time is a counter reset, too.
func TestCodexSeries(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := anHourAgo()
		second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
		unknown := time.Time{}
		for _, test := range []struct {
			name   string
			bodies []*metrics.MetricsData
			checks int
		}{
			{"falls", []*metrics.MetricsData{
				counterOf(cumulative, injected(unknown, second(1), 5)), counterOf(cumulative, injected(unknown, second(2), 2)),
				counterOf(cumulative, injected(unknown, second(3), 3)),
			}, 8},
			{"falls to nothing", []*metrics.MetricsData{
				counterOf(cumulative, injected(unknown, second(1), 5), injected(unknown, second(2), 0),
					injected(unknown, second(3), 1)),
			}, 6},
			{"begins with nothing", []*metrics.MetricsData{counterOf(cumulative, injected(at, second(1), 0), injected(at, second(2), 2))}, 2},
			{"two processes", []*metrics.MetricsData{
				counterOf(cumulative, injected(at, second(5), 3)), counterOf(cumulative, injected(second(1), second(5), 3)),
			}, 6},
			{"two models", []*metrics.MetricsData{
				counterOf(cumulative, injected(at, second(5), 3, "model", "a"), injected(at, second(5), 3, "model", "b")),
			}, 6},
			{"two values of an attribute that is not kept", []*metrics.MetricsData{
				counterOf(cumulative, injected(at, second(5), 3, "host.name", "a"), injected(at, second(5), 3, "host.name", "b")),
			}, 6},
			{"attributes in another order", []*metrics.MetricsData{
				counterOf(cumulative, injected(at, second(5), 3, "model", "a", "surface", "cli")),
				counterOf(cumulative, injected(at, second(6), 4, "surface", "cli", "model", "a")),
			}, 4},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := w.org(test.name).in(t)
				for _, body := range test.bodies {
					c.take(inProtobuf, body)
				}
				c.take(inProtobuf, test.bodies[0])
				if got := c.figures("pdf-forms"); got.Checks != test.checks || got.Triggers != test.checks || got.Sessions != 0 {
					t.Errorf("%d checks, %d triggers, %d sessions; want %d, %d, 0", got.Checks, got.Triggers, got.Sessions,
						test.checks, test.checks)
				}
			})
		}
	})
}

// TestCodexRestless: the stored state of a counter that resets all the time is
// bounded.
func TestCodexRestless(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c := w.org("acme")
	at := anHourAgo()
	var points []*metrics.NumberDataPoint
	for i := range 10_001 {
		points = append(points, injected(at, at.Add(time.Duration(i)*time.Millisecond), int64(1-i%2)))
	}
	c.wantPartial(inProtobuf, counterOf(cumulative, points...), 1,
		"data point 10000: its series has changed too often; start a new one")
	c.wantFigures("pdf-forms", figures{Checks: 5000, Triggers: 5000, Covered: share(0)})
	if n := w.Count("telemetry_pushes WHERE accepted = 10000 AND rejected = 1"); n != 1 {
		t.Error("the refusal is not in the books")
	}
}

// TestCodexRefuses: invalid points are rejected; the others are accepted.
func TestCodexRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := anHourAgo()
		fraction := injected(at, at.Add(time.Minute), 0)
		fraction.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: 0.5}
		notANumber := injected(at, at.Add(time.Minute), 0)
		notANumber.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: math.NaN()}
		timeless := injected(at, at.Add(time.Minute), 1)
		timeless.TimeUnixNano = 0
		const whole = "its value must be a whole number from 0 to 1000000"
		for name, test := range map[string]struct {
			point       *metrics.NumberDataPoint
			temporality metrics.AggregationTemporality
			message     string
		}{
			"negative":       {injected(at, at.Add(time.Minute), -1), delta, whole},
			"huge":           {injected(at, at.Add(time.Minute), 1_000_001), cumulative, whole},
			"fraction":       {fraction, delta, whole},
			"not a number":   {notANumber, cumulative, whole},
			"no time":        {timeless, delta, "it has no time"},
			"no temporality": {injected(at, at.Add(time.Minute), 1), 0, "codex.skill.injected must be delta or cumulative"},
		} {
			t.Run(name, func(t *testing.T) {
				c := w.org(name).in(t)
				c.wantPartial(inProtobuf, counterOf(test.temporality, test.point), 1, "data point 0: "+test.message)
				c.wantFigures("pdf-forms", figures{})
			})
		}
		t.Run("gauge", func(t *testing.T) {
			body := counterOf(delta)
			body.ResourceMetrics[0].ScopeMetrics[0].Metrics[0].Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{
				DataPoints: []*metrics.NumberDataPoint{injected(at, at.Add(time.Minute), 1)},
			}}
			w.org("gauge").in(t).wantPartial(inJSON, body, 1, "data point 0: codex.skill.injected must be a monotonic sum")
		})
		t.Run("beside others", func(t *testing.T) {
			c := w.org("beside others").in(t)
			body := counterOf(delta, injected(at, at.Add(time.Minute), -1), injected(at, at.Add(time.Minute), 2))
			scope := body.ResourceMetrics[0].ScopeMetrics[0]
			scope.Metrics = append([]*metrics.Metric{{
				Name: "claude_code.cost.usage", Unit: "USD", Data: &metrics.Metric_Sum{Sum: &metrics.Sum{
					AggregationTemporality: delta, IsMonotonic: true, DataPoints: []*metrics.NumberDataPoint{{
						TimeUnixNano: nanos(at), Attributes: attributes("skill.name", "third-party", "session.id", "s"),
						Value: &metrics.NumberDataPoint_AsDouble{AsDouble: 0.25},
					}},
				}},
			}}, scope.Metrics...)
			c.wantPartial(inProtobuf, body, 1, "data point 1: "+whole)
			c.wantFigures("pdf-forms", figures{Checks: 2, Triggers: 2, Covered: share(0)})
		})
	})
}
