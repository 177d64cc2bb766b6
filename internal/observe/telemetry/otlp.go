package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A receiver ingests OTLP over HTTP.
type receiver struct {
	*Service

	mu   sync.Mutex
	salt []byte // key of the pseudonyms of users; loaded on first use
}

// otlpInput is the body as sent. The frame has only inflated it; the encoding
// depends on the content type.
type otlpInput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte
}

// A signal is one of OTLP's three kinds of data: logs, traces or metrics.
type signal struct {
	name     string // the last segment of its route
	rejected string // the name of partialSuccess's count in JSON
	data     proto.Message
	read     func(*normalizer)
}

// handleLogs and the two following ingest one signal each. The three handlers differ
// in the message and its reader only.
func (r *receiver) handleLogs(ctx context.Context, in otlpInput) (httpapi.Stream, error) {
	data := &logs.LogsData{}
	return r.receive(ctx, in, signal{"logs", "rejectedLogRecords", data, func(n *normalizer) { n.logs(data) }})
}

func (r *receiver) handleTraces(ctx context.Context, in otlpInput) (httpapi.Stream, error) {
	data := &trace.TracesData{}
	return r.receive(ctx, in, signal{"traces", "rejectedSpans", data, func(n *normalizer) { n.traces(data) }})
}

func (r *receiver) handleMetrics(ctx context.Context, in otlpInput) (httpapi.Stream, error) {
	data := &metrics.MetricsData{}
	return r.receive(ctx, in, signal{"metrics", "rejectedDataPoints", data, func(n *normalizer) { n.metrics(data) }})
}

// receive ingests a body. It is redacted before anything is stored; then the raw
// body is stored before it is normalized.
func (r *receiver) receive(ctx context.Context, in otlpInput, s signal) (_ httpapi.Stream, err error) {
	defer fault.Wrap(&err, "otlp %s", s.name)
	e, err := otlp.EncodingOf(in.ContentType)
	if err != nil {
		return nil, err
	}
	if err := e.Decode(ctx, in.RawBody, s.data); err != nil {
		if fault.Of(err) != fault.Internal || ctx.Err() != nil {
			return nil, err // too large, over the memory budget, or cancelled
		}
		return nil, fault.Invalid("", "the body is no valid %s: %s", s.data.ProtoReflect().Descriptor().Name(), err)
	}
	c := access.From(ctx)
	salt, err := r.userSalt(ctx)
	if err != nil {
		return nil, err
	}
	otlp.Redactor{OrgID: c.OrgID, Salt: salt, Fingerprints: s.name == "metrics"}.Redact(s.data)
	// Protobuf, also for a body in JSON: one format to replay, and a smaller one.
	raw, err := proto.Marshal(s.data)
	if err != nil {
		return nil, err
	}
	// Exporters send empty bodies to test the connection.
	if len(raw) == 0 {
		return e.Success(s.rejected, 0, ""), nil
	}
	// OTLP has no request id. Retries are deduplicated record by record, see
	// ingestOTLP.
	pushID := store.NewID()
	p, err := r.storeRaw(ctx, c, pushID, pushID+"."+s.name+".pb", raw)
	if err != nil {
		return nil, err
	}
	n := &normalizer{caller: c, now: time.Now()}
	s.read(n)
	rejected, err := r.ingestOTLP(ctx, c, n.otlpBatch, p)
	// Also with rejected records: any other status would make the exporter send all
	// again.
	return e.Success(s.rejected, len(rejected), summarize(rejected, n.redacted)), err
}

// userSalt returns the installation's secret for the pseudonyms of users.
func (r *receiver) userSalt(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// An error is not cached: the next request tries again.
	if r.salt == nil {
		salt, err := r.Auth.Secret(ctx, "telemetry-users")
		if err != nil {
			return nil, err
		}
		r.salt = salt
	}
	return r.salt, nil
}

// An otlpBatch is a batch with points of counters, which become observations only
// when they are compared with the stored state.
type otlpBatch struct {
	batch
	points      []counterPoint
	codexUses   []codexUse
	codexPoints []codexPoint
}

// ingestOTLP stores a batch and its observations, in one transaction unless it is
// large, and returns the rejected records. It needs no push_id to be idempotent: every record has
// an id that is derived from its content, so a retry adds nothing.
func (r *receiver) ingestOTLP(
	ctx context.Context, c access.Caller, n otlpBatch, p *pushRow,
) (rejected []rejection, err error) {
	if n.batch, err = r.ingestParts(ctx, c, n.batch); err != nil {
		return nil, err
	}
	err = r.DB.InGroup(ctx, func(tx *store.Tx) error {
		// Taken before the counters' state is read: increments are differences to
		// the last point, so two exports of one user must not read the same one.
		if err := skills.LockUser(ctx, tx, c.UserID); err != nil {
			return err
		}
		if err := upsertRecords(ctx, tx, c, n.records); err != nil {
			return err
		}
		counted, refused, err := countIncrements(ctx, tx, c, n.points)
		if err != nil {
			return err
		}
		beyond, err := countCodex(ctx, tx, c, n.codexUses, n.codexPoints)
		if err != nil {
			return err
		}
		b := n.batch
		b.observations = slices.Concat(b.observations, counted, beyond)
		// The function may run again after a serialisation failure, and must not
		// append twice.
		b.rejected = slices.Clone(b.rejected)
		for _, p := range refused {
			b.rejected = append(b.rejected, rejection{Kind: "data point", Index: p.Index, Message: p.Err.Error()})
		}
		b.accepted -= len(refused)
		rejected = b.rejected
		if _, err := insertPush(ctx, tx, c, b, p); err != nil {
			return err
		}
		if err := r.observe(ctx, tx, c, b); err != nil {
			return err
		}
		return r.Quota.Add(ctx, tx, c.OrgID, quota.Telemetry, p.bytes)
	})
	return rejected, err
}

// summarize describes the rejected records, the first few and how many more, and
// what to change where names of skills are redacted: without it, an agent whose
// reports all count for nothing would look like one that works. The text is the
// error_message of a partial success (OTLP 1.x, "Partial Success"), which exporters
// log for the person who runs them.
func summarize(rejected []rejection, redacted int) string {
	const most = 5
	var lines []string
	for _, r := range rejected[:min(most, len(rejected))] {
		lines = append(lines, fmt.Sprintf("%s %d: %s", r.Kind, r.Index, r.Message))
	}
	if more := len(rejected) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if redacted > 0 {
		lines = append(lines, fmt.Sprintf("%d activations hide the name of their skill and count for none: "+
			"set OTEL_LOG_TOOL_DETAILS=1 where Claude Code runs", redacted))
	}
	return strings.Join(lines, "; ")
}
