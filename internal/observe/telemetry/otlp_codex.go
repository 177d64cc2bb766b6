package telemetry

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Codex counts the skills that it injected into the context. Its counter has no
// session, so it adds to checks and triggers only. The log event skillInvocation
// reports the same uses and wins: see countCodex.
const skillInjected = "codex.skill.injected"

// maxCount is the largest plausible count.
const maxCount = 1_000_000

func (n *normalizer) metrics(data *metrics.MetricsData) {
	for _, resource := range data.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, metric := range scope.GetMetrics() {
				if metric.GetName() != skillInjected {
					n.accepted += dataPoints(metric)
					n.index += dataPoints(metric)
					continue
				}
				n.injected(metric, otlp.Attributes{
					resource.GetResource().GetAttributes(), scope.GetScope().GetAttributes(),
				})
			}
		}
	}
}

func dataPoints(m *metrics.Metric) int {
	return len(m.GetGauge().GetDataPoints()) + len(m.GetSum().GetDataPoints()) + len(m.GetHistogram().GetDataPoints()) +
		len(m.GetExponentialHistogram().GetDataPoints()) + len(m.GetSummary().GetDataPoints())
}

// injected reads the data points of Codex's counter.
func (n *normalizer) injected(metric *metrics.Metric, outer otlp.Attributes) {
	sum := metric.GetSum()
	if !sum.GetIsMonotonic() {
		for range dataPoints(metric) {
			n.tally("data point", fmt.Errorf("%s must be a monotonic sum", skillInjected))
		}
		return
	}
	for _, p := range sum.GetDataPoints() {
		n.tally("data point", n.injection(p, sum.GetAggregationTemporality(), outer))
	}
}

func (n *normalizer) injection(
	p *metrics.NumberDataPoint, temporality metrics.AggregationTemporality, outer otlp.Attributes,
) error {
	e := event{Attributes: otlp.Attributes{p.GetAttributes()}, name: skillInjected, nanos: p.GetTimeUnixNano()}
	o, hidden, err := n.observation(e, e.Text("skill"))
	if err != nil || hidden {
		return err
	}
	if o.Weight, err = countOf(p); err != nil {
		return err
	}
	o = triggerOf(e.Text("invoke_type")).fired(o)
	o.Triggered = e.Text("status") != "error"
	start := strconv.FormatUint(p.GetStartTimeUnixNano(), 10)
	series := n.id("otlp_series", append(outer, p.GetAttributes()).Series(), start)
	switch {
	case temporality == metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE:
		n.points = append(n.points, counterPoint{Observation: o, Series: series, Index: n.index})
	case temporality != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA:
		return fmt.Errorf("%s must be delta or cumulative", skillInjected)
	case o.Weight > 0:
		o.ID = n.id("otlp_delta", series, e.time())
		from := o.At
		if start := p.GetStartTimeUnixNano(); start != 0 && start < e.nanos {
			from = time.Unix(0, int64(start))
		}
		n.codexPoints = append(n.codexPoints, codexPoint{
			Observation: o, Group: n.codexGroup(e.Text("invoke_type"), o.SkillName), From: store.Micros(from),
		})
	}
	return nil
}

// countOf returns the value of a point, which must be a whole number.
func countOf(p *metrics.NumberDataPoint) (int64, error) {
	value := float64(p.GetAsInt())
	if d, ok := p.GetValue().(*metrics.NumberDataPoint_AsDouble); ok {
		value = d.AsDouble
	}
	if !(value >= 0 && value <= maxCount) || value != math.Trunc(value) {
		return 0, errors.New("its value must be a whole number from 0 to " + strconv.Itoa(maxCount))
	}
	return int64(value), nil
}
